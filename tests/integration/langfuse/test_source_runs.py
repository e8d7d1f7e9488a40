"""Runs of benchmarks whose traces lie in Langfuse, from the API to the numbers."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.langfuse import ScorePlan, StandIn
from tests.support.langfuse.mishaps import ALWAYS, Changed, RateLimited, Says
from tests.support.service import JSON, Service, pair

ROWS = "/experiment-items"


def agent(service: Service, langfuse: StandIn, **fields: Any) -> JSON:
    given = {
        "langfuseUrl": langfuse.url,
        "langfusePublicKey": langfuse.public_key,
        "langfuseSecretKey": langfuse.secret_key,
        **fields,
    }
    return service.agent(**given)


def benchmark(service: Service) -> None:
    service.benchmark(source="langfuse", metrics=["ACCURACY"])


def value(service: Service, query: str) -> Any:
    with service.resources.db.read() as session:
        return session.scalar(text(query))


def test_a_run_reads_its_traces_from_langfuse(service: Service, langfuse: StandIn) -> None:
    langfuse.experiment(items=120, errors={3}, output_of=lambda number: f"answer {number % 60}")
    agent(service, langfuse)
    benchmark(service)
    run = service.completed()
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 120, "VALID")
    [accuracy] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    # Items 0 to 59 are answered as expected, except for number 3, which failed: 59 of 120.
    assert accuracy["mean"] == pytest.approx(59 / 120)
    assert value(service, "SELECT as_of <= completed_at FROM collections") is True


def test_what_is_wrong_is_the_error_of_the_run(service: Service, langfuse: StandIn) -> None:
    agent(service, langfuse, langfuseSecretKey="wrong")
    benchmark(service)
    run = service.completed()
    assert (run["status"], run["errorCode"]) == ("FAILED", "LANGFUSE_AUTH")
    assert "secret key" in run["errorMessage"]


def test_traces_that_langfuse_counts_and_does_not_give_make_a_run_invalid(
    service: Service, langfuse: StandIn
) -> None:
    def hide(answer: JSON) -> None:
        del answer["data"][:10]

    langfuse.experiment(items=30)
    langfuse.inject(Changed(change=hide), path=ROWS)
    agent(service, langfuse)
    benchmark(service)
    run = service.completed()
    assert (run["status"], run["validity"]) == ("COMPLETED", "INVALID")
    assert run["coverage"] == pytest.approx(20 / 30)
    [accuracy] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert (accuracy["n"], accuracy["expected"]) == (20, 30)
    assert accuracy["missing"] == {"NOT_COLLECTED": 10}


def test_attempts_at_one_item_are_numbered(service: Service, langfuse: StandIn) -> None:
    langfuse.experiment(items=30, trials=3)
    agent(service, langfuse)
    benchmark(service)
    assert service.completed()["tracesTotal"] == 90
    trials = "SELECT count(DISTINCT (item_id, trial)) FROM collected_traces WHERE trial < 3"
    assert value(service, trials) == 90


def test_attempts_that_say_which_they_are_keep_their_number(
    service: Service, langfuse: StandIn
) -> None:
    def numbered(answer: JSON) -> None:
        for place, row in enumerate(answer["data"]):
            row["metadata"]["trial"] = str(7 + place % 2)

    langfuse.experiment(items=5, trials=2)
    langfuse.inject(Changed(change=numbered), path=ROWS)
    agent(service, langfuse)
    benchmark(service)
    service.completed()
    assert value(service, "SELECT array_agg(DISTINCT trial) FROM collected_traces") == [7, 8]


def test_a_run_that_waits_for_langfuse_can_be_cancelled(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=120)
    langfuse.inject(RateLimited(retry_after_s=300), path=ROWS, on=ALWAYS)
    agent(service, langfuse)
    benchmark(service)
    run = service.start()
    worker = threading.Thread(target=service.work)
    worker.start()
    try:
        _until_refused(langfuse)
        service.post(f"/benchmark-runs/{run['id']}/cancel")
    finally:
        worker.join(timeout=60)  # liveness: the wait that was asked for is five times as long
    assert not worker.is_alive()
    assert service.get(f"/benchmark-runs/{run['id']}")["status"] == "CANCELLED"


def _until_refused(langfuse: StandIn) -> None:
    deadline = time.monotonic() + 60
    while not any(one.status == 429 for one in langfuse.asked):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_agents_keys_can_be_tried(service: Service, langfuse: StandIn) -> None:
    agent(service, langfuse)
    assert service.post("/agents/agent-001/check") == {
        "ok": True,
        "langfuseUrl": langfuse.url,
        "api": "v4",
        "version": "4.16.0",
        "project": "Support agent",
        "errorCode": None,
        "detail": None,
    }


def test_an_older_server_is_known_by_what_it_offers(service: Service, langfuse_v3: StandIn) -> None:
    agent(service, langfuse_v3)
    found = service.post("/agents/agent-001/check")
    assert (found["ok"], found["api"], found["version"]) == (True, "v3", "3.140.0")


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"langfuseSecretKey": "wrong"}, "LANGFUSE_AUTH", "belong together"),
        ({"langfuseSecretKey": None}, "LANGFUSE_AUTH", "no secret key"),
        ({"langfusePublicKey": None}, "LANGFUSE_AUTH", "no public key"),
        ({"langfuseUrl": "http://127.0.0.1:1"}, "LANGFUSE_UNAVAILABLE", "langfuseUrl"),
        ({"langfuseUrl": "http://169.254.169.254"}, "REFUSED_ADDRESS", "another server"),
    ],
)
def test_a_check_says_what_is_wrong(
    service: Service, langfuse: StandIn, fields: JSON, code: str, said: str
) -> None:
    agent(service, langfuse, **fields)
    found = service.post("/agents/agent-001/check")
    assert (found["ok"], found["errorCode"], found["project"]) == (False, code, None)
    assert said in found["detail"]
    assert langfuse.secret_key not in str(found)


def test_an_agent_that_is_not_there_cannot_be_checked(service: Service) -> None:
    service.refused(404, "POST", "/agents/absent/check")


def refused_at(service: Service) -> str | None:
    found: str | None = service.get("/agents/agent-001")["credentialsRefusedAt"]
    return found


def test_an_agent_whose_keys_are_refused_says_since_when(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=3)
    agent(service, langfuse, langfuseSecretKey="wrong")
    benchmark(service)
    assert refused_at(service) is None
    service.completed()
    first = refused_at(service)
    assert first is not None
    service.completed()
    assert refused_at(service) == first
    service.patch("/agents/agent-001", {"name": "Pelican 2", "langfuseUrl": langfuse.url})
    assert refused_at(service) == first
    service.patch("/agents/agent-001", {"langfuseSecretKey": langfuse.secret_key})
    assert refused_at(service) is None


def test_keys_that_are_taken_again_are_not_refused_any_more(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=3)
    agent(service, langfuse)
    benchmark(service)
    for by_check in (True, False):
        langfuse.inject(Says(status=401, content={"message": "no"}), on=ALWAYS)
        assert service.post("/agents/agent-001/check")["errorCode"] == "LANGFUSE_AUTH"
        assert refused_at(service) is not None
        langfuse.mend()
        _ = service.post("/agents/agent-001/check") if by_check else service.completed()
        assert refused_at(service) is None


def test_a_run_that_asks_nobody_says_nothing_of_the_keys(
    service: Service, langfuse: StandIn
) -> None:
    agent(service, langfuse, langfuseSecretKey="wrong")
    service.post("/agents/agent-001/check")
    service.upload([pair(1)])
    service.benchmark(metrics=["ACCURACY"])
    assert service.completed()["status"] == "COMPLETED"
    assert refused_at(service) is not None


def test_keys_that_are_changed_while_a_run_reads_are_read_once_more(
    service: Service, langfuse: StandIn
) -> None:
    langfuse.experiment(items=350)
    agent(service, langfuse, langfusePublicKey="pk-lf-old", langfuseSecretKey="sk-lf-old")
    benchmark(service)
    old, new = ("pk-lf-old", "sk-lf-old"), (langfuse.public_key, langfuse.secret_key)
    langfuse.server.public_key, langfuse.server.secret_key = old

    def rotate(_: JSON) -> None:
        langfuse.server.public_key, langfuse.server.secret_key = new
        keys = {"langfusePublicKey": new[0], "langfuseSecretKey": new[1]}
        service.patch("/agents/agent-001", keys)

    langfuse.inject(Changed(change=rotate), path=ROWS, on={3})
    run = service.completed()
    assert (run["status"], run["tracesTotal"]) == ("COMPLETED", 350)
    assert [one.status for one in langfuse.asked_for(ROWS)] == [200, 200, 200, 401, 200]
    assert refused_at(service) is None


def test_scores_given_late_are_read_where_a_benchmark_wants_them(
    service: Service, langfuse: StandIn
) -> None:
    late = ScorePlan(name="Late", value=0.75, after=timedelta(days=3))
    langfuse.experiment(items=4, scores=[late])
    agent(service, langfuse)
    service.benchmark(source="langfuse", metrics=[{"key": "SCORE", "options": {"name": "Late"}}])
    assert service.get("/benchmarks/bench-001")["lateScores"] is False
    service.completed()
    assert langfuse.asked_for("/v3/scores") == []
    assert service.patch("/benchmarks/bench-001", {"lateScores": True})["lateScores"] is True
    [found] = service.get(f"/benchmark-runs/{service.completed()['id']}/metrics")["items"]
    assert (found["n"], found["mean"]) == (4, 0.75)
