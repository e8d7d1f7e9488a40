"""A worker may die after its step was written and before its job was closed: the step comes again."""

from typing import Any

import pytest

from app.jobs.queue import enqueue
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader


def again(service: Service, name: str, **arguments: Any) -> None:
    with service.resources.db.begin() as session:
        enqueue(session, name, **arguments)
    service.work()


@pytest.mark.parametrize("step", ["begin", "collect", "score", "finish"])
def test_a_step_that_comes_again_changes_nothing(service: Service, step: str) -> None:
    service.agent()
    service.benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload([pair(1), pair(2, output="a b")])
    run = service.completed()
    rows = DatabaseReader(service.resources.db.url)
    before = rows.stored(run["id"])

    more: dict[str, Any] = {"shard": 0} if step == "score" else {}
    again(service, f"runs.{step}", run_id=run["id"], **more)

    assert before.run[0] == "COMPLETED"
    assert rows.stored(run["id"]) == before
    assert rows.value("SELECT count(*) FROM collected_traces") == 2
    assert rows.value("SELECT bool_and(status = 'succeeded') FROM procrastinate_jobs")


@pytest.mark.parametrize("step", ["begin", "collect", "score", "finish", "give_up"])
def test_a_step_of_a_run_that_was_deleted_is_dropped(service: Service, step: str) -> None:
    more: dict[str, dict[str, Any]] = {
        "score": {"shard": 0},
        "give_up": {"code": "X", "message": "y"},
    }

    again(service, f"runs.{step}", run_id="nobody-knows-it", **more.get(step, {}))

    assert DatabaseReader(service.resources.db.url).all(
        "SELECT status::text FROM procrastinate_jobs"
    ) == [("succeeded",)]


def test_a_beginning_that_comes_again_is_not_judged_by_what_changed_since(
    service: Service,
) -> None:
    service.agent()
    service.benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    run = service.completed()
    rows = DatabaseReader(service.resources.db.url)
    rows.execute("UPDATE benchmark_runs SET status = 'RUNNING'")
    rows.execute("""UPDATE benchmarks SET metrics = '["WITHDRAWN"]'""")

    again(service, "runs.begin", run_id=run["id"])

    assert rows.status(run["id"]) == "RUNNING"
