"""Every completed valid run is judged by every rule: repeated, late, retried and rescored ones, and by new rules."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.integration.alerts.conftest import (
    RuleMaker,
    RunMaker,
    notified_states,
    open_incident,
)
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import JSON, Service, pair
from tests.support.stored import DatabaseReader

Upload = Callable[..., None]
BELOW = {"condition": "LESS_THAN", "threshold": 0.85, "severity": "CRITICAL"}


@pytest.fixture
def upload(benchmark_service: Service) -> Upload:
    def make(name: str, right: int, *, items: int = 10, replace: bool = False) -> None:
        traces = [pair(number, "yes", "yes" if number < right else "no") for number in range(items)]
        for trace in traces:
            trace["traceId"] += f"-{name}"
        options = {"replace": "true"} if replace else {}
        benchmark_service.upload(traces, run_name=name, **options)

    return make


@contextmanager
def held_jobs(rows: DatabaseReader, run: JSON) -> Iterator[None]:
    """The jobs of a run that other runs overtake."""
    held = "UPDATE procrastinate_jobs SET scheduled_at = {} WHERE args ->> 'run_id' = %s"
    rows.execute(held.format("now() + interval '1 day'"), run["id"])
    yield
    rows.execute(held.format("NULL"), run["id"])


def evaluations(service: Service, run: JSON) -> list[JSON]:
    items: list[JSON] = service.get(f"/benchmark-runs/{run['id']}/evaluations")["items"]
    return items


def evaluation(service: Service, run: JSON) -> JSON:
    [only] = evaluations(service, run)
    return only


def rule_state(service: Service) -> str:
    [state] = service.get("/alert-configs/rule-1")["states"]
    return str(state["state"])


def test_repeated_run__tells_what_the_rule_makes_of_its_data(
    benchmark_service: Service, upload: Upload, create_rule: RuleMaker
) -> None:
    """Fault 1: the fixed run name of the handover; the rule is made after the first run."""
    upload("nightly", 5)
    first = benchmark_service.complete_run(runName="nightly")
    assert evaluations(benchmark_service, first) == []
    create_rule(**BELOW)
    repeated = [benchmark_service.complete_run(runName="nightly") for _ in range(2)]
    assert {run["sameDataAs"] for run in repeated} == {first["id"]}
    for run in repeated:
        stored = evaluation(benchmark_service, run)
        assert (stored["result"], stored["sameDataAs"]) == ("SAME_DATA", first["id"])
        assert (stored["outcome"], stored["value"], stored["state"]) == ("BREACH", 0.5, "FIRING")
    # Told once, about the first run.
    assert notified_states(benchmark_service) == ["FIRING"]
    incident = open_incident(benchmark_service)
    assert (incident["startedRunId"], incident["openedRunId"]) == (first["id"], repeated[0]["id"])
    assert incident["runs"] == 2
    assert rule_state(benchmark_service) == "FIRING"
    # What the rule made of the run outlives the rule, and so leads nowhere.
    page = f"/runs/{repeated[0]['id']}"
    assert 'href="/alerts/rule-1"' in benchmark_service.client.get(page).text
    benchmark_service.delete("/alert-configs/rule-1")
    html = benchmark_service.client.get(page).text
    assert ("quality falls" in html, 'href="/alerts/rule-1"' in html) == (True, False)


def test_repeated_run__adds_nothing_and_keeps_the_state(
    benchmark_service: Service, upload: Upload, create_rule: RuleMaker
) -> None:
    create_rule(**BELOW, forRuns=2)
    upload("nightly", 5)
    runs = [benchmark_service.complete_run(runName="nightly") for _ in range(3)]
    results = [evaluation(benchmark_service, run)["result"] for run in runs]
    assert results == ["PENDING", *["SAME_DATA"] * 2]
    # Three runs, one night: the rule waits for another one.
    assert (notified_states(benchmark_service), rule_state(benchmark_service)) == ([], "PENDING")
    # Other data under the same name are new, and so is the second night.
    upload("nightly", 6, replace=True)
    run = benchmark_service.complete_run(runName="nightly")
    assert (run["sameDataAs"], evaluation(benchmark_service, run)["result"]) == (None, "FIRED")


def test_repeated_run__of_a_run_from_before_the_upgrade_is_recognized(
    benchmark_service: Service, upload: Upload, rows: DatabaseReader
) -> None:
    upload("nightly", 5)
    first = benchmark_service.complete_run(runName="nightly")
    # As migration 0008 leaves it.
    rows.execute("UPDATE benchmark_runs SET data_digest = NULL")
    again = benchmark_service.complete_run(runName="nightly")
    assert (again["sameDataAs"], again["hasNewData"]) == (first["id"], False)
    # Another formula is other data, also than those of the first run.
    rows.execute("UPDATE benchmark_runs SET data_digest = NULL")
    benchmark_service.patch("/benchmarks/bench-001/kpis/k-1", {"formula": "EXACT_MATCH - 0.5"})
    other = benchmark_service.complete_run(runName="nightly")
    assert (other["sameDataAs"], other["hasNewData"]) == (None, True)


def test_repeated_run__is_no_history(
    benchmark_service: Service, upload: Upload, create_rule: RuleMaker
) -> None:
    """Three repetitions of a good night are not three good nights: the mean of 1.0 and 0.5 is 0.75."""
    create_rule(condition="PERCENTAGE_DROP", threshold=30, baselineRuns=2)
    upload("one", 5)
    upload("two", 10)
    for name in ("one", "two", "two", "two"):
        benchmark_service.complete_run(runName=name)
    upload("three", 7)
    stored = evaluation(benchmark_service, benchmark_service.complete_run(runName="three"))
    assert (stored["result"], stored["baseline"]) == ("NO_BREACH", 0.75)


def test_equal_outputs_of_new_traces__are_new_data(
    benchmark_service: Service, upload: Upload, create_rule: RuleMaker
) -> None:
    create_rule(**BELOW, forRuns=2)
    for name in ("monday", "tuesday"):
        upload(name, 5)
        run = benchmark_service.complete_run(runName=name)
        assert run["sameDataAs"] is None
    assert notified_states(benchmark_service) == ["FIRING"]


def test_other_formula__is_judged_over_the_same_traces(
    benchmark_service: Service, upload: Upload, create_rule: RuleMaker
) -> None:
    upload("nightly", 9)
    create_rule(**BELOW)
    benchmark_service.complete_run(runName="nightly")
    benchmark_service.patch("/benchmarks/bench-001/kpis/k-1", {"formula": "EXACT_MATCH - 0.5"})
    run = benchmark_service.complete_run(runName="nightly")
    assert (run["sameDataAs"], evaluation(benchmark_service, run)["result"]) == (None, "FIRED")


def test_late_run__is_judged_for_its_own_night(
    benchmark_service: Service, upload: Upload, create_rule: RuleMaker, rows: DatabaseReader
) -> None:
    """Fault 2: the first run starts first and ends last."""
    create_rule(**BELOW)
    upload("large", 5)
    upload("small", 10)
    late = benchmark_service.start_run(runName="large")
    with held_jobs(rows, late):
        small = benchmark_service.complete_run(runName="small")
    benchmark_service.work()
    late = benchmark_service.get(f"/benchmark-runs/{late['id']}")
    assert (late["status"], late["isLate"], small["isLate"]) == ("COMPLETED", True, False)
    stored = evaluation(benchmark_service, late)
    assert (stored["result"], stored["outcome"], stored["value"]) == ("LATE", "BREACH", 0.5)
    [alert] = benchmark_service.list_items("/alerts")
    assert (alert["state"], alert["severity"], alert["runId"]) == ("LATE", "CRITICAL", late["id"])
    # The newer night stays as it is.
    assert (rule_state(benchmark_service), stored["state"]) == ("OK", "OK")
    assert benchmark_service.list_items("/incidents") == []
    backtest = benchmark_service.post("/alert-configs/backtest", {"alertConfigId": "rule-1"})
    assert {run["runId"]: run["notified"] for run in backtest["runs"]} == {
        small["id"]: None,
        late["id"]: "LATE",
    }
    # It is no history either: the next night is compared with the good one alone.
    upload("next", 10)
    after = benchmark_service.complete_run(runName="next")
    assert evaluation(benchmark_service, after)["result"] == "NO_BREACH"


def test_rescored_run__says_what_it_would_have_been_and_alerts_nobody(
    benchmark_service: Service, upload: Upload, create_rule: RuleMaker
) -> None:
    upload("monday", 9)
    run = benchmark_service.complete_run(runName="monday")
    create_rule(**BELOW)
    same = benchmark_service.post(f"/benchmark-runs/{run['id']}/rescore")
    benchmark_service.work()
    assert evaluation(benchmark_service, same)["result"] == "SAME_DATA"
    benchmark_service.patch("/benchmarks/bench-001/kpis/k-1", {"formula": "EXACT_MATCH - 0.5"})
    other = benchmark_service.post(f"/benchmark-runs/{run['id']}/rescore")
    benchmark_service.work()
    stored = evaluation(benchmark_service, other)
    assert (stored["result"], stored["outcome"]) == ("LATE", "BREACH")
    assert notified_states(benchmark_service) == []


def test_items_that_change_each_night__are_judged_alike_live_and_in_a_backtest(
    benchmark_service: Service, create_regressed: RuleMaker
) -> None:
    """Each run is compared on its own items: a backtest has the levels that the run had when it ended."""
    create_regressed(id="regressed")
    create_regressed(id="anomaly", condition="ANOMALY_DETECTED")
    live = []
    for night, right in enumerate((18, 17, 18, 16, 18, 9, 8)):
        # One of twenty items is new.
        items = range(night, night + 20)
        answers = ["yes" if place < right else "no" for place in range(20)]
        traces = [pair(item, "yes", answer) for item, answer in zip(items, answers, strict=True)]
        for trace in traces:
            trace["traceId"] += f"-{night}"
        benchmark_service.upload(traces, run_name=f"night {night}")
        run = benchmark_service.complete_run(runName=f"night {night}")
        live += [
            (each["alertConfigId"], run["id"], each["state"], each["explanation"])
            for each in evaluations(benchmark_service, run)
        ]
    assert {state for _, _, state, _ in live} >= {"WARMUP", "OK", "FIRING"}
    again = []
    for rule_id in ("regressed", "anomaly"):
        backtest = benchmark_service.post("/alert-configs/backtest", {"alertConfigId": rule_id})
        again += [
            (rule_id, run["runId"], run["state"], run["explanation"]) for run in backtest["runs"]
        ]
    assert sorted(live) == sorted(again)


def test_new_regressed_rule__does_not_take_the_bad_runs_as_its_reference(
    benchmark_service: Service, run_with: RunMaker, create_regressed: RuleMaker
) -> None:
    """Fault 3: a good night, bad nights, the rule, and another bad night."""
    run_with(10)
    first_bad = run_with(1)
    run_with(1)
    create_regressed()
    run = run_with(1)
    assert notified_states(benchmark_service) == ["FIRING"]
    incident = open_incident(benchmark_service)
    assert (incident["startedRunId"], incident["openedRunId"]) == (first_bad["id"], run["id"])
    assert evaluation(benchmark_service, run)["result"] == "FIRED"
    backtest = benchmark_service.post("/alert-configs/backtest", {"alertConfigId": "rule-1"})
    assert backtest["runs"][-1]["state"] == rule_state(benchmark_service) == "FIRING"


def test_new_rule__counts_the_breaches_of_the_stored_runs(
    benchmark_service: Service, complete: RunHistoryMaker, create_rule: RuleMaker
) -> None:
    complete(1.0, 0.5, 0.5)
    create_rule(**BELOW, forRuns=3)
    complete(0.5)
    assert notified_states(benchmark_service) == ["FIRING"]


def test_new_rule__says_nothing_of_an_incident_that_is_over(
    benchmark_service: Service, complete: RunHistoryMaker, create_rule: RuleMaker
) -> None:
    complete(1.0, 0.5)
    create_rule(**BELOW, keepFiringForRuns=0)
    complete(1.0)
    assert (notified_states(benchmark_service), rule_state(benchmark_service)) == ([], "RESOLVED")


def test_edited_rule__starts_again_from_the_stored_runs(
    benchmark_service: Service, complete: RunHistoryMaker, create_rule: RuleMaker
) -> None:
    create_rule(**BELOW)
    complete(0.9, 0.9)
    benchmark_service.patch("/alert-configs/rule-1", {"threshold": 0.95, "forRuns": 3})
    complete(0.9)
    assert notified_states(benchmark_service) == ["FIRING"]


def test_retry__is_for_the_night_of_the_attempt_that_failed(
    benchmark_service: Service, upload: Upload, create_rule: RuleMaker
) -> None:
    create_rule(**BELOW)
    failed = benchmark_service.start_run(runName="monday")
    benchmark_service.work()
    assert benchmark_service.get(f"/benchmark-runs/{failed['id']}")["status"] == "FAILED"
    upload("tuesday", 10)
    benchmark_service.complete_run(runName="tuesday")
    # Monday's traces came at last.
    upload("monday", 5)
    retry = benchmark_service.post(f"/benchmark-runs/{failed['id']}/retry")
    benchmark_service.work()
    assert evaluation(benchmark_service, retry)["result"] == "LATE"
    assert rule_state(benchmark_service) == "OK"
