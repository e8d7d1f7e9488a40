"""What a benchmark redacts of the traces of Langfuse is never stored."""

from mosaico.traces.redaction import MARK
from tests.support.langfuse import FakeLangfuse, ScorePlan
from tests.support.langfuse.source_benchmarks import agent
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader


def first_trace(service: Service, run: JSON) -> JSON:
    trace: JSON = service.list_items(f"/benchmark-runs/{run['id']}/results")[0]
    return trace


def test_run__is_redacted_and_its_late_scores_are_compared_with_what_is_stored(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=10, scores=[ScorePlan(name="tone", value=0.5, items=range(10))])
    agent(service, langfuse)
    metrics = ["ROUGE", {"key": "SCORE", "options": {"name": "tone", "better": "higher"}}]
    service.create_benchmark(source="langfuse", datasetRef="support", metrics=metrics)
    plain = first_trace(service, service.complete_run())
    assert MARK not in plain["input"]
    service.patch("/benchmarks/bench-001", {"redact": {"patterns": [r"\w+"]}})
    run = service.complete_run()
    redacted = first_trace(service, run)
    assert not any(letter.isalnum() for letter in redacted["input"].replace(MARK, ""))
    assert MARK in redacted["input"]
    assert redacted["itemId"] == plain["itemId"]
    assert run["redactedTexts"] >= 20
    # The check reads the source again, and finds the data of the run.
    for _ in range(3):
        DatabaseReader(service.resources.db.url).execute(
            "UPDATE procrastinate_jobs SET scheduled_at = NULL WHERE status = 'todo'"
        )
        service.work()
    assert len(service.get("/benchmark-runs")["items"]) == 2
