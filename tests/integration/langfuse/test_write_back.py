"""Write-back: the results of a run as scores in Langfuse."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mosaico.core.clock import utc_now
from mosaico.jobs.declarations import WriteBackScores
from mosaico.jobs.queue import enqueue
from mosaico.run_store.queries import get_run
from mosaico.runs.plan_builder import collect_lock
from mosaico.runs.retention import purge_runs_before
from tests.integration.langfuse.test_sdk_round_trip import sdk_of
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.generated import ScorePlan
from tests.support.langfuse.records import DEFAULT_TIME, Score
from tests.support.langfuse.written_scores import (
    QUALITY,
    benchmark,
    write_again,
    written,
)
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader


def without_run(scores: dict[str, Score]) -> dict[str, Any]:
    """The scores without their run."""
    return {
        score_id: (score.name, score.value, score.trace_id, score.experiment_id)
        for score_id, score in scores.items()
    }


def test_write_back__writes_kpis_to_the_run_and_metrics_to_traces(
    service: Service, langfuse: FakeLangfuse
) -> None:
    experiment = langfuse.experiment(items=30, output_of=lambda number: f"answer {number % 15}")
    benchmark(service, langfuse)
    run = service.complete_run()
    # Two metrics of 30 traces, and one KPI.
    assert run["writeBack"] == {
        "status": "WRITTEN",
        "written": 61,
        "errorCode": None,
        "error": None,
    }
    scores = list(written(langfuse).values())
    # Items 0 to 14 of 30 have the expected answer.
    [kpi] = [score for score in scores if score.trace_id is None]
    assert (kpi.name, kpi.experiment_id) == ("Quality", experiment.id)
    assert kpi.value == pytest.approx(0.5)
    assert kpi.metadata["formula"] == QUALITY["formula"]
    accuracy = {score.trace_id: score.value for score in scores if score.name == "ACCURACY"}
    assert accuracy == {experiment.trace_id(n): float(n < 15) for n in range(30)}
    # A score of another day is a new score to Langfuse: a repetition would double it.
    assert {score.timestamp.date() for score in scores} == {DEFAULT_TIME.date()}
    assert {score.metadata["run"] for score in scores} == {run["id"]}
    assert langfuse.max_in_flight <= 8


def test_write_back__sdk_reads_the_scores(service: Service, langfuse: FakeLangfuse) -> None:
    experiment = langfuse.experiment(items=2)
    langfuse.set_score_delay(1)
    benchmark(service, langfuse)
    service.complete_run()
    for sdk in sdk_of(langfuse):
        assert sdk.api.scores.get_many(trace_id=experiment.trace_id(1)).data == []
        scores = sdk.api.scores.get_many(trace_id=experiment.trace_id(1)).data
        assert {score.name: score.value for score in scores} == {"ACCURACY": 1.0, "CONTAINS": 1.0}
        ever = datetime(2020, 1, 1, tzinfo=UTC)
        [run] = sdk.api.experiments.list(from_start_time=ever, fields="core,scores").data
        assert [(score.name, score.value) for score in run.scores or []] == [("Quality", 1.0)]


def test_write_back__repetition_keeps_the_same_scores(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.complete_run()
    once = written(langfuse)
    again = write_again(service, run)
    assert again["writeBack"]["status"] == "WRITTEN"
    assert written(langfuse) == once
    # One KPI, and two metrics of five traces.
    assert len(langfuse.store.scores) == 11


def test_write_back__later_run_replaces_the_scores(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    service.complete_run()
    first = written(langfuse)
    second = service.complete_run()
    assert without_run(written(langfuse)) == without_run(first)
    assert {score.metadata["run"] for score in written(langfuse).values()} == {second["id"]}


def test_write_back__earlier_run_is_superseded(
    service: Service, langfuse: FakeLangfuse, caplog: pytest.LogCaptureFixture
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    first = service.complete_run()
    second = service.complete_run()
    late = write_again(service, first)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert (late["writeBack"]["status"], late["writeBack"]["errorCode"]) == (
        "SUPERSEDED",
        "SUPERSEDED",
    )
    assert second["id"] in late["writeBack"]["error"]
    assert {score.metadata["run"] for score in written(langfuse).values()} == {second["id"]}


def test_write_back__purged_run_is_not_an_error(
    service: Service, langfuse: FakeLangfuse, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker killed after the last score leaves its job, which runs after the purge."""
    langfuse.experiment(items=5)
    benchmark(service, langfuse)
    run = service.complete_run()
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, utc_now() + timedelta(days=1), utc_now()) == 1
        enqueue(session, WriteBackScores(run_id=run["id"]))
    service.work()
    assert service.get(f"/benchmark-runs/{run['id']}")["writeBack"] == run["writeBack"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_write_back__own_scores_are_not_read_back(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse, lateScores=True)
    service.complete_run()
    service.complete_run()
    with service.resources.db.read() as session:
        score_rows = (
            session.connection().exec_driver_sql("SELECT scores FROM collected_traces").all()
        )
    assert {scores for (scores,) in score_rows} == {None}


@pytest.mark.parametrize(
    ("expected", "count"), [({"kpis": True}, 1), ({"metrics": True}, 10), ({}, 0)]
)
def test_write_back__writes_only_the_configured_kinds(
    service: Service, langfuse: FakeLangfuse, expected: JSON, count: int
) -> None:
    langfuse.experiment(items=5)
    benchmark(service, langfuse, writeBack=expected)
    run = service.complete_run()
    assert (run["writeBack"] or {"written": 0})["written"] == count
    assert len(written(langfuse)) == count


def test_write_back__missing_values_are_not_written(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=20, expected_of=lambda number: f"answer {number}" if number else None)
    undefined = {"name": "Nothing", "formula": "ACCURACY / (ACCURACY - ACCURACY)"}
    benchmark(service, langfuse, metrics=["ACCURACY"], measures=[undefined])
    run = service.complete_run()
    assert (run["validity"], run["writeBack"]["written"]) == ("VALID", 19)


def test_write_back__kpis_of_an_invalid_run_are_not_written(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.dataset("support", items=5)
    langfuse.experiment(items=4)
    benchmark(service, langfuse, minCoverage=1)
    run = service.complete_run()
    assert run["validity"] == "INVALID"
    assert {score.name for score in written(langfuse).values()} == {"ACCURACY", "CONTAINS"}


def test_write_back__scores_of_langfuse_are_not_copied_back(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(
        items=5,
        scores=[
            ScorePlan(name="Tone", value=0.5),
            ScorePlan(name="TASK_SCORE", value=1.0),
            ScorePlan(name="Mood", value="good", data_type="CATEGORICAL"),
        ],
    )
    tone = {"key": "SCORE", "options": {"name": "Tone"}}
    mood = {"key": "SCORE", "options": {"name": "Mood", "labels": "good=1,bad=0"}}
    benchmark(
        service,
        langfuse,
        metrics=["ACCURACY", "TASK_SCORE", tone, mood],
        measures=[
            {"name": "tone", "formula": 'SCORE["Tone"]', "direction": "HIGHER_IS_BETTER"},
        ],
    )
    run = service.complete_run()
    values = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert {metric["mean"] for metric in values if "Tone" in metric["metric"]} == {0.5}
    # A mean and the number of a label are results of the service; the tone of a trace is not.
    names = [score.name for score in written(langfuse).values()]
    counts = {name: names.count(name) for name in names}
    assert {name: count for name, count in counts.items() if "SCORE" not in name} == {
        "tone": 1,
        "ACCURACY": 5,
    }
    assert [name for name in counts if "SCORE" in name and "Mood" not in name] == []
    assert sum(count for name, count in counts.items() if "Mood" in name) == 5
    assert run["writeBack"]["written"] == 11


def test_write_back__collections_do_not_wait_for_it(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=3)
    benchmark(service, langfuse)
    run_id = str(service.complete_run()["id"])
    rows = DatabaseReader(service.resources.db.url)
    lock = rows.value("SELECT lock FROM procrastinate_jobs WHERE task_name = 'runs.write_back'")
    with service.resources.db.read() as session:
        plan = get_run(session, run_id).begun_plan
        lock_of_collection = collect_lock(session, plan, service.resources)

    assert lock_of_collection
    assert lock == f"write-back:{lock_of_collection}"
