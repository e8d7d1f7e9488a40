"""A run name that is used again: its runs are one experiment, and are told apart by time."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mosaico.traces.types import Trace
from tests.integration.langfuse.collection import collect_all
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.records import DEFAULT_TIME
from tests.support.service import JSON, Service

NIGHT = timedelta(hours=20)
BOTH = pytest.mark.parametrize("server", ["langfuse", "langfuse_v3"])


@pytest.fixture
def some_server(request: pytest.FixtureRequest, server: str) -> FakeLangfuse:
    server_fixture: FakeLangfuse = request.getfixturevalue(server)
    return server_fixture


def add_run(langfuse: FakeLangfuse, after: timedelta, answer: str, **fields: Any) -> None:
    """A run named `nightly` over the dataset, some time after the first one."""
    fields = {"items": 20, **fields}
    langfuse.experiment(
        run="nightly", started=DEFAULT_TIME + after, output_of=lambda _: answer, **fields
    )


def outputs(traces: Sequence[Trace]) -> set[str | None]:
    return {trace.output for trace in traces}


@BOTH
def test_source__reads_the_newest_run_of_a_name(some_server: FakeLangfuse) -> None:
    for night, answer in enumerate(("first", "second", "third")):
        add_run(some_server, night * NIGHT, answer)
    collection = collect_all(some_server)
    assert (len(collection.traces), outputs(collection.traces)) == (20, {"third"})
    page = collection.pages[-1]
    assert (page.total, page.dataset_items, page.warning) == (20, 20, None)
    # A row begins a millisecond after the root of its trace.
    assert page.run_at is not None
    assert abs(page.run_at - (DEFAULT_TIME + 2 * NIGHT)) <= timedelta(milliseconds=1)
    assert (page.run_id or "").partition("@")[0] == some_server.store.experiments[0].id
    # The ID of the page selects the same run.
    assert page.run_id is not None
    again = collect_all(some_server, run_name=page.run_id)
    assert (again.pages[-1].run_id, again.traces) == (page.run_id, collection.traces)


@BOTH
def test_source__part_of_a_new_run_is_not_filled_up_from_the_run_before(
    some_server: FakeLangfuse,
) -> None:
    add_run(some_server, timedelta(), "first", items=60)
    add_run(some_server, NIGHT, "second", items=40)
    collection = collect_all(some_server)
    assert (len(collection.traces), outputs(collection.traces)) == (40, {"second"})
    assert collection.pages[-1].dataset_items == 60


def test_source__earlier_runs_of_a_name_are_read_until_the_newest_is_found(
    langfuse: FakeLangfuse,
) -> None:
    for night in range(3):
        add_run(langfuse, night * NIGHT, f"night {night}", items=250)
    langfuse.clear_requests()
    collection = collect_all(langfuse)
    assert (len(collection.traces), outputs(collection.traces)) == (250, {"night 2"})
    assert all(trace.turns == 2 for trace in collection.traces)
    # Pages of 100 until half of the items have come again before the pause: 250 + 125 rows.
    lists = [
        request
        for request in langfuse.requests_for("/experiment-items")
        if request.parameters["fields"] == "core,metadata"
    ]
    assert len(lists) == 4


def test_source__links_of_two_runs_that_v3_cannot_tell_apart_are_a_warning(
    langfuse_v3: FakeLangfuse,
) -> None:
    add_run(langfuse_v3, timedelta(), "first")
    # The first item was not asked again.
    add_run(langfuse_v3, NIGHT, "second", items=19, first_item=1)
    collection = collect_all(langfuse_v3)
    assert len(collection.traces) == 20
    warning = collection.pages[-1].warning
    assert (warning or "").startswith("1 of 20 traces are older than a pause of 1200 ")


def test_source__growing_run_of_a_reused_name_is_waited_for(langfuse: FakeLangfuse) -> None:
    add_run(langfuse, timedelta(), "first")
    add_run(langfuse, NIGHT, "second", visible=(3, 8, 14, 20))
    # Just after its last item the run may still grow, so it is polled.
    collection = collect_all(langfuse, now=DEFAULT_TIME + NIGHT + timedelta(seconds=20 * 5))
    assert (len(collection.traces), outputs(collection.traces)) == (20, {"second"})


def set_up(service: Service, langfuse: FakeLangfuse, **fields: Any) -> None:
    service.create_agent(
        langfuseUrl=langfuse.url,
        langfusePublicKey=langfuse.public_key,
        langfuseSecretKey=langfuse.secret_key,
    )
    service.create_benchmark(source="langfuse", metrics=["ACCURACY"], **fields)


def accuracy(service: Service, run: JSON) -> float:
    [metric] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    mean: float = metric["mean"]
    return mean


@BOTH
def test_run__second_night_of_a_name_is_a_run_of_its_own(
    service: Service, some_server: FakeLangfuse
) -> None:
    set_up(service, some_server, runName="nightly")
    some_server.dataset("support", items=20, expected_of=lambda _: "Rome")
    add_run(some_server, timedelta(), "Rome")
    first = service.complete_run()
    add_run(some_server, NIGHT, "Paris")
    second, again = service.complete_run(), service.complete_run()
    assert [accuracy(service, run) for run in (first, second, again)] == [1, 0, 0]
    assert [run["sameSourceAs"] for run in (first, second, again)] == [None, None, second["id"]]
    # It is compared with the night before, and so is its repetition.
    assert [run["verdict"]["verdict"] for run in (second, again)] == ["REGRESSED"] * 2
    assert second["sourceRunAt"].startswith("2026-11-20T22:00:00")


def test_run__overlap_of_two_runs_with_one_name_is_a_warning_of_the_run(
    service: Service, langfuse: FakeLangfuse
) -> None:
    set_up(service, langfuse)
    add_run(langfuse, timedelta(), "first")
    assert service.complete_run()["sourceWarning"] is None
    add_run(langfuse, timedelta(seconds=50), "second")
    run = service.complete_run()
    assert "'dataset-1-0'" in run["sourceWarning"]
    assert (
        service.post(f"/benchmark-runs/{run['id']}/rescore")["sourceWarning"]
        == run["sourceWarning"]
    )


def test_write_back__scores_of_a_second_night_go_to_its_traces(
    service: Service, langfuse: FakeLangfuse
) -> None:
    set_up(
        service,
        langfuse,
        measures=[{"name": "right", "formula": "AVERAGE(ACCURACY)"}],
        writeBack={"kpis": True, "metrics": True},
    )
    for night, answer in enumerate(("first", "second")):
        add_run(langfuse, night * NIGHT, answer)
        run = service.complete_run()
        assert run["writeBack"]["status"] == "WRITTEN"
    scores = list(langfuse.store.scores.values())
    traces = [score.trace_id for score in scores if score.trace_id]
    assert (len(traces), len(set(traces))) == (40, 40)
    kpis = [score for score in scores if score.experiment_id]
    assert {score.experiment_id for score in kpis} == {langfuse.store.experiments[0].id}
    assert len({score.id for score in kpis}) == 2
