"""A change of the ruler is no change of the agent: the baseline is measured again, or nothing is compared."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TypeAlias

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.comparison import stored_run_comparison
from mosaico.run_store.rules import TriggerType
from mosaico.runs import service as runs
from mosaico.runs.retention import purge_runs_before
from mosaico.runs.schemas import RunView
from mosaico.runs.stalled_runs import fail_runs_without_progress
from tests.support.service import JSON, Service, pair

ITEMS = 40
BENCHMARK = "/benchmarks/bench-001"
# A shouted answer contains the expected one only where case does not count.
SHOUTED = "YES, of course"
EXACT, LENIENT = {"key": "CONTAINS"}, {"key": "CONTAINS", "options": {"ignoreCase": True}}
CASE = "CONTAINS is measured differently from here on (ignoreCase its default instead of True)"

CompleteRun: TypeAlias = Callable[..., JSON]


def answers(wrong: int = 0, **more: object) -> list[JSON]:
    return [
        pair(number, "yes", "no" if number < wrong else SHOUTED) | {"latencyMs": 100.0, **more}
        for number in range(ITEMS)
    ]


def _run(service: Service, name: str, uploaded: list[JSON], **options: str) -> JSON:
    service.upload(uploaded, run_name=name, **options)
    return service.complete_run(runName=name)


@pytest.fixture
def complete_run(service: Service) -> CompleteRun:
    service.create_agent()
    service.create_benchmark(
        metrics=[LENIENT, "LATENCY_MS"],
        measures=[{"id": "right", "name": "right", "formula": "CONTAINS"}],
    )
    return partial(_run, service)


def kpi_of(service: Service, run: JSON) -> JSON:
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    row: JSON = kpi
    return row


def metrics_of(service: Service, run: JSON) -> dict[str, JSON]:
    rows = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    return {row["metric"]: row["verdict"] for row in rows}


def fired(service: Service) -> list[JSON]:
    return [alert for alert in service.list_items("/alerts") if alert["state"] == "FIRING"]


def watch_kpi(service: Service) -> None:
    service.post(
        "/alert-configs",
        {"name": "worse", "benchmarkId": "bench-001", "kpi": "right", "condition": "REGRESSED"},
    )


def test_another_option__baseline_is_measured_again_and_nothing_regressed(
    service: Service, complete_run: CompleteRun
) -> None:
    watch_kpi(service)
    for name in ("monday", "tuesday", "wednesday"):
        before = complete_run(name, answers())
    service.patch(BENCHMARK, {"metrics": [EXACT, "LATENCY_MS"]})
    first = complete_run("thursday", answers())
    # 1 by the old ruler, 0 by the new one, in both runs.
    kpi = kpi_of(service, first)
    assert (kpi["value"], kpi["verdict"]["baselineValue"]) == (0.0, 0.0)
    verdict = first["verdict"]
    assert verdict["verdict"] == "NO_EVIDENCE"
    assert verdict["measuredDifferently"] == [CASE]
    assert CASE in verdict["explanation"]
    assert CASE in verdict["differences"]
    [baseline] = verdict["baseline"]["runIds"]
    assert service.get(f"/benchmark-runs/{baseline}")["rescoreOf"] == before["id"]
    assert first["fingerprint"] != before["fingerprint"]
    assert fired(service) == []
    # Said once: the next run has a predecessor that was measured as it is.
    second = complete_run("friday", answers())
    assert second["verdict"]["measuredDifferently"] == []
    assert second["verdict"]["baseline"]["runIds"] == [first["id"]]


def test_another_option__a_fall_by_the_new_ruler_is_still_found(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", answers(5))
    service.patch(BENCHMARK, {"metrics": ["EXACT_MATCH", LENIENT | {"options": {}}, "LATENCY_MS"]})
    service.patch(f"{BENCHMARK}/kpis/right", {"formula": "CONTAINS"})
    quiet = [trace | {"output": "yes, of course"} for trace in answers()]
    service.upload(quiet, run_name="tuesday")
    better = service.complete_run(runName="tuesday")
    assert better["verdict"]["verdict"] == "IMPROVED"
    assert kpi_of(service, better)["verdict"]["baselineValue"] == 0.0


def test_purged_baseline__is_none_and_nothing_regressed(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", answers())
    now = service.resources.clock()
    with service.resources.db.begin() as session:
        purge_runs_before(session, now + timedelta(days=1), now)
    service.patch(BENCHMARK, {"metrics": [EXACT, "LATENCY_MS"]})
    assert complete_run("tuesday", answers())["verdict"]["reason"].startswith("first run")


def test_pinned_baseline__is_measured_again_once(
    service: Service, complete_run: CompleteRun
) -> None:
    pinned = complete_run("monday", answers())
    service.put(f"{BENCHMARK}/baseline", {"runId": pinned["id"]})
    service.patch(BENCHMARK, {"metrics": [EXACT, "LATENCY_MS"]})
    runs = [complete_run(name, answers()) for name in ("tuesday", "wednesday")]
    assert [run["verdict"]["verdict"] for run in runs] == ["NO_EVIDENCE"] * 2
    baselines = {run["verdict"]["baseline"]["runIds"][0] for run in runs}
    assert len(baselines) == 1
    assert baselines != {pinned["id"]}
    assert [len(run["verdict"]["measuredDifferently"]) for run in runs] == [1, 0]


def test_cancelled_measurement__run_ends_without_a_comparison_of_the_metric(
    service: Service, complete_run: CompleteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(session: Session, run_id: str, trigger: TriggerType) -> RunView:
        again = rescore_run(session, run_id, trigger)
        runs.cancel_run(session, again.id, service.resources.clock())
        return again

    complete_run("monday", answers())
    service.patch(BENCHMARK, {"metrics": [EXACT, "LATENCY_MS"]})
    rescore_run = runs.rescore_run
    monkeypatch.setattr(runs, "rescore_run", cancelled)
    run = complete_run("tuesday", answers())
    assert (run["status"], run["verdict"]["verdict"]) == ("COMPLETED", "INVALID")
    assert "was not measured again" in metrics_of(service, run)["CONTAINS"]["reason"]
    assert metrics_of(service, run)["LATENCY_MS"]["verdict"] == "NO_EVIDENCE"


def test_lost_measurement__waiting_run_ends_after_it(
    service: Service, complete_run: CompleteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(session: Session, run_id: str, trigger: TriggerType) -> RunView:
        again = rescore_run(session, run_id, trigger)
        job = "DELETE FROM procrastinate_jobs WHERE args ->> 'run_id' = :id"
        session.execute(text(job), {"id": again.id})
        return again

    complete_run("monday", answers())
    service.patch(BENCHMARK, {"metrics": [EXACT, "LATENCY_MS"]})
    rescore_run = runs.rescore_run
    monkeypatch.setattr(runs, "rescore_run", lost)
    waiting = complete_run("tuesday", answers())
    assert waiting["status"] == "RUNNING"
    # Neither has a job: only the rescored run is stalled, and its end continues the other one.
    now = service.resources.clock() + timedelta(hours=1)
    with service.resources.db.begin() as session:
        fail_runs_without_progress(session, now, timedelta())
    assert service.get(f"/benchmark-runs/{waiting['id']}")["status"] == "RUNNING"
    service.work()
    run = service.get(f"/benchmark-runs/{waiting['id']}")
    assert (run["status"], run["verdict"]["verdict"]) == ("COMPLETED", "INVALID")


def test_another_reader__only_what_it_reads_differently_is_not_compared(
    service: Service, complete_run: CompleteRun
) -> None:
    watch_kpi(service)
    complete_run("monday", answers(), reader="csv@1.1")
    read = complete_run("tuesday", answers(20), reader="csv@2.1")
    verdicts = metrics_of(service, read)
    assert verdicts["CONTAINS"]["verdict"] == "INVALID"
    assert "another version of their reader" in verdicts["CONTAINS"]["reason"]
    assert verdicts["LATENCY_MS"]["verdict"] == "NO_EVIDENCE"
    assert read["verdict"]["verdict"] == "INVALID"
    [change] = read["verdict"]["measuredDifferently"]
    assert "version 2 of the reader csv instead of 1" in change
    assert fired(service) == []
    assert not any(row["rescoreOf"] for row in service.list_items("/benchmark-runs"))
    # From here on by the same reader.
    after = complete_run("wednesday", answers(20), reader="csv@2.1")
    assert after["verdict"]["verdict"] == "NO_EVIDENCE"


def test_another_reader__of_the_usage_leaves_the_answers_comparable(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", answers(), reader="csv@1.1")
    read = complete_run("tuesday", answers(20, latencyMs=900.0), reader="csv@1.2")
    verdicts = metrics_of(service, read)
    assert read["verdict"]["verdict"] == "REGRESSED"
    assert verdicts["CONTAINS"]["verdict"] == "REGRESSED"
    assert verdicts["LATENCY_MS"]["verdict"] == "INVALID"


def test_page_and_gate__say_what_is_measured_differently(
    service: Service, complete_run: CompleteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stored_run_comparison, "compare_in_child", stored_run_comparison.compare_runs
    )
    complete_run("monday", answers())
    service.patch(BENCHMARK, {"metrics": [EXACT, "LATENCY_MS"]})
    run = complete_run("tuesday", answers())
    env = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    gated = CliRunner().invoke(cli, ["gate", "--run", run["id"]], env=env)
    assert gated.exit_code == 0, gated.output
    assert "measured differently from here on" in " ".join(gated.output.split())
    shown = CliRunner().invoke(cli, ["runs", "show", run["id"]], env=env)
    assert "measured differently from here on" in " ".join(shown.output.split())
    page = service.client.get(f"/runs/{run['id']}")
    assert "measured differently from here on" in page.text
    assert "measured again by the same rules" in page.text


def test_alert__of_the_first_run_names_the_ruler(
    service: Service, complete_run: CompleteRun
) -> None:
    service.post(
        "/alert-configs",
        {"name": "low", "benchmarkId": "bench-001", "kpi": "right", "condition": "LESS_THAN",
         "threshold": 0.5},
    )  # fmt: skip
    complete_run("monday", answers())
    service.patch(BENCHMARK, {"metrics": [EXACT, "LATENCY_MS"]})
    complete_run("tuesday", answers())
    [alert] = fired(service)
    assert CASE in service.get(f"/alerts/{alert['id']}")["details"]["changes"]
