"""Traces and values of earlier runs are neither stored nor computed again."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from sqlalchemy.orm import Session

from app.core.clock import utc_now
from app.core.resources import Resources
from app.jobs.handlers import NO_JOB, JobContext, WorkerStopping
from app.jobs.process_pool import CallTimeout, ProcessPool
from app.metrics.engine import score_within_limits
from app.metrics.run_value import summarize_traces
from app.runs import pipeline, retention, shards
from app.runs.collection import append_page
from app.runs.leases import RunLease, acquire_run_lease
from app.traces.registry import TRACE_SOURCES, SourceSpec, TracePage, TraceQuery
from app.traces.sources import local
from app.traces.types import Trace
from tests.support.processes import until
from tests.support.service import JSON, Service, pair
from tests.support.stored import DatabaseReader

R = TypeVar("R")
RUNS = "/benchmark-runs"
WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()
"""
MACRO = {"key": "F1_SCORE", "options": {"labels": "macro"}}
STEMMED = {"key": "ROUGE", "options": {"useStemmer": True}}
PAIRS = [
    pair(1, "the boats sail", "boats sailed"),
    pair(2, "a", "a"),
    pair(3, "a", "b"),
    pair(4, "b", None),
    pair(5, "b", "b"),
]


class CountingPool(ProcessPool):
    """A pool without child processes that counts computed values by metric; `lost` metrics hang."""

    def __init__(self) -> None:
        self.computed: Counter[str] = Counter()
        self.summarized: Counter[str] = Counter()
        self.lost: set[tuple[str, str]] = set()

    def run(self, function: Callable[..., R], *arguments: Any, timeout_s: float) -> R:
        if function is score_within_limits:
            traces, refs = arguments
            calls = {(ref.key, trace.trace_id) for ref in refs for trace in traces}
            if calls & self.lost:
                raise CallTimeout(f"no answer within {timeout_s:g} s")
            self.computed.update(key for key, _ in calls)
        if function is summarize_traces:
            self.summarized[arguments[0].key] += 1
        return function(*arguments)

    def take_counts(self) -> dict[str, int]:
        """What was computed since this was asked last."""
        computed, self.computed = self.computed, Counter()
        return dict(computed)


@pytest.fixture
def pool() -> CountingPool:
    return CountingPool()


@pytest.fixture
def counting_service(service: Service, pool: CountingPool) -> Service:
    """A service with an agent and an upload that computes metrics in this process."""
    service.create_agent()
    service.upload(PAIRS)
    return dataclasses.replace(service, pool=pool)


@pytest.fixture
def rows(service: Service) -> DatabaseReader:
    return DatabaseReader(service.resources.db.url)


def measure(service: Service, *metrics: object) -> None:
    service.patch("/benchmarks/bench-001", {"metrics": list(metrics)})


def mean(service: Service, run: JSON, metric: str) -> float:
    aggregates = service.get(f"{RUNS}/{run['id']}/metrics")["items"]
    [value] = [aggregate["mean"] for aggregate in aggregates if aggregate["metric"] == metric]
    return float(value)


def counts(run: JSON) -> tuple[int, int]:
    return run["metricsComputed"], run["metricsReused"]


def test_metric_cache__an_unchanged_run_computes_nothing_and_equals_to_the_last_bit(
    counting_service: Service, pool: CountingPool, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(
        metrics=["ROUGE", "BLEU", MACRO],
        measures=[{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.3, BLEU:0.2) + F1_SCORE"}],
    )
    first = counting_service.complete_run()
    # All five traces are asked, and the four that have an output have three values each.
    assert pool.take_counts() == {"ROUGE": 5, "BLEU": 5, "F1_SCORE": 5}
    assert counts(first) == (12, 0)

    second = counting_service.complete_run()

    assert (pool.take_counts(), pool.summarized) == ({}, {"F1_SCORE": 1})
    assert counts(second) == (0, 12)
    first_stored, other = rows.stored_run(first["id"]), rows.stored_run(second["id"])
    assert first_stored.results == other.results
    assert first_stored.metrics == other.metrics
    assert first_stored.kpis == other.kpis
    assert rows.value("SELECT count(*) FROM collections") == 1
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_metric_cache__only_an_added_metric_is_computed(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE", "BLEU"])
    before = counting_service.complete_run()
    pool.take_counts()

    # In another order, so that its values stand elsewhere in the rows.
    measure(counting_service, "EXACT_MATCH", "BLEU", "ROUGE")
    run = counting_service.complete_run()

    assert pool.take_counts() == {"EXACT_MATCH": 5}
    assert counts(run) == (4, 8)
    assert mean(counting_service, run, "ROUGE") == mean(counting_service, before, "ROUGE")
    assert mean(counting_service, run, "BLEU") == mean(counting_service, before, "BLEU")
    assert mean(counting_service, run, "EXACT_MATCH") == 2 / 4
    results = counting_service.list_items(f"{RUNS}/{run['id']}/results")
    assert results[3]["missing"]["BLEU"]["skipped"] == "NO_OUTPUT"


def test_metric_cache__combines_values_of_several_runs(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    rouge = mean(counting_service, counting_service.complete_run(), "ROUGE")
    measure(counting_service, "EXACT_MATCH")
    counting_service.complete_run()
    pool.take_counts()

    measure(counting_service, "EXACT_MATCH", "ROUGE")
    run = counting_service.complete_run()

    assert pool.take_counts() == {}
    assert (mean(counting_service, run, "ROUGE"), mean(counting_service, run, "EXACT_MATCH")) == (
        rouge,
        2 / 4,
    )


def test_metric_cache__only_a_new_metric_version_is_computed(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE", "BLEU"])
    plain = counting_service.complete_run()
    pool.take_counts()

    measure(counting_service, STEMMED, "BLEU")
    run = counting_service.complete_run()

    assert pool.take_counts() == {"ROUGE": 5}
    # Stemmed, "boats sailed" has the words of "the boats sail": F1 = 2·1·(2/3) / (5/3) = 0.8
    # instead of 2·(1/2)·(1/3) / (5/6) = 0.4, in one of four values.
    gained = mean(counting_service, run, "ROUGE") - mean(counting_service, plain, "ROUGE")
    assert gained == pytest.approx((0.8 - 0.4) / 4)


@pytest.mark.parametrize("shard_traces", [2000, 2])
def test_metric_cache__keeps_the_run_value_of_labels(
    counting_service: Service,
    pool: CountingPool,
    monkeypatch: pytest.MonkeyPatch,
    shard_traces: int,
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE", MACRO])
    first = counting_service.complete_run()
    # Shards of another length have other summaries, made of the same values.
    monkeypatch.setattr(shards, "SHARD_TRACES", shard_traces)
    pool.take_counts()
    pool.summarized.clear()

    measure(counting_service, MACRO)
    second = counting_service.complete_run()

    assert pool.take_counts() == {}
    assert pool.summarized == ({} if shard_traces == 2000 else {"F1_SCORE": 3})
    assert mean(counting_service, second, "F1_SCORE") == mean(counting_service, first, "F1_SCORE")


def test_metric_cache__only_failed_values_are_tried_again(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE", MACRO], maxErrorShare=1)
    pool.lost = {("ROUGE", "t-2"), ("F1_SCORE", "t-5")}
    broken = counting_service.complete_run()
    # t-2 and t-5 are lost for one metric each; expected a and b, given b and nothing else.
    assert counts(broken) == (6, 0)
    pool.take_counts()
    pool.lost.clear()

    complete_run = counting_service.complete_run()

    assert pool.take_counts() == {"ROUGE": 1, "F1_SCORE": 1}
    assert counts(complete_run) == (2, 6)
    measure(counting_service, "EXACT_MATCH")
    fresh = counting_service.complete_run()
    assert mean(counting_service, fresh, "EXACT_MATCH") == 2 / 4
    # Right, expected, given: a is (1, 2, 1), b is (1, 1, 2), "the boats sail" and "boats sailed"
    # are never right: macro F1 is (2/3 + 2/3 + 0 + 0) / 4.
    assert mean(counting_service, complete_run, "F1_SCORE") == pytest.approx(1 / 3)


def test_metric_cache__values_outlive_the_run_they_came_from(
    counting_service: Service, pool: CountingPool, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    donor, heir = counting_service.complete_run(), counting_service.complete_run()
    before = rows.stored_run(heir["id"])

    counting_service.delete(f"{RUNS}/{donor['id']}")
    counting_service.work()

    assert rows.stored_run(heir["id"]) == before
    pool.take_counts()
    third = counting_service.complete_run()
    assert (pool.take_counts(), counts(third)) == ({}, (0, 4))
    for run in (heir, third):
        counting_service.delete(f"{RUNS}/{run['id']}")
    counting_service.work()
    for table in ("collections", "collected_traces", "trace_results"):
        assert rows.value(f"SELECT count(*) FROM {table}") == 0


def test_collection__traces_about_to_be_deleted_are_not_taken_over(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    old = counting_service.complete_run()
    counting_service.delete(f"{RUNS}/{old['id']}")
    # Its traces are still there: the job that deletes them waits beside the new run's.
    assert rows.value("SELECT count(*) FROM collected_traces") == 5

    run = counting_service.complete_run()

    assert (run["status"], counts(run)) == ("COMPLETED", (4, 0))
    assert rows.value("SELECT count(*) FROM collected_traces") == 5
    assert rows.value("SELECT count(*) FROM collections") == 1


@dataclass(frozen=True, slots=True)
class Race:
    """A run that takes over the traces of another run while that is deleted."""

    service: Service
    donor: JSON
    heir: JSON
    lease: RunLease
    page: TracePage

    @classmethod
    def of(cls, service: Service) -> "Race":
        donor, heir = service.complete_run(), service.start_run()
        job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
        pipeline.begin(job, heir["id"])
        lease = acquire_run_lease(service.resources.db, heir["id"], NO_JOB)
        assert lease is not None
        query = TraceQuery(dataset_ref="support", run_name=None)
        [page] = TRACE_SOURCES.get("local").open(service.resources).pages(query, None)
        return cls(service, donor, heir, lease, page)

    def delete(self, session: Session) -> None:
        retention.delete_run(session, self.donor["id"])

    def take_over(self, session: Session) -> None:
        append_page(session, self.lease, self.page, utc_now())

    def run(self, first: Callable[[Session], None], second: Callable[[Session], None]) -> JSON:
        """Both at once, the second waiting for the first; the heir when all is done."""
        db, rows = self.service.resources.db, DatabaseReader(self.service.resources.db.url)

        def do_second() -> None:
            with db.begin() as session:
                second(session)

        with ThreadPoolExecutor() as threads:
            with db.begin() as session:
                first(session)
                other = threads.submit(do_second)
                until(lambda: rows.value(WAITING) > 0)
            other.result()
        self.service.work()
        return self.service.get(f"{RUNS}/{self.heir['id']}")


def test_collection__traces_being_taken_over_are_not_deleted(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    race = Race.of(counting_service)
    collection_id = rows.value("SELECT min(id) FROM collections")
    heir = race.run(race.take_over, race.delete)
    assert (heir["status"], counts(heir)) == ("COMPLETED", (4, 0))
    assert rows.all("SELECT id FROM collections") == [(collection_id,)]
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_collection__traces_being_deleted_are_not_taken_over(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    race = Race.of(counting_service)
    collection_id = rows.value("SELECT max(id) FROM collections")
    heir = race.run(race.delete, race.take_over)
    assert (heir["status"], counts(heir)) == ("COMPLETED", (4, 0))
    assert rows.all("SELECT id FROM collections") == [(collection_id,)]
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_delete_in_batches__resumes_after_an_interruption(
    counting_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_PER_BATCH", 2)
    counting_service.create_benchmark(metrics=["ROUGE"])
    run = counting_service.complete_run()
    collection_id = rows.value("SELECT id FROM collections")
    counting_service.delete(f"{RUNS}/{run['id']}")
    stops: Iterator[bool] = iter([False, True])
    job = JobContext(
        resources=counting_service.resources,
        pool=counting_service.pool,
        is_stopping=lambda: next(stops),
    )

    with pytest.raises(WorkerStopping):
        retention.drop_traces(job, collection_id)

    assert rows.value("SELECT count(*) FROM collected_traces") == 3
    counting_service.work()
    for table in ("collections", "collected_traces", "trace_results"):
        assert rows.value(f"SELECT count(*) FROM {table}") == 0


def test_collection__equal_traces_under_another_name_are_stored_once(
    counting_service: Service,
    pool: CountingPool,
    rows: DatabaseReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "PAGE_SIZE", 3)
    counting_service.create_benchmark(metrics=["ROUGE"])
    counting_service.complete_run()
    monkeypatch.setattr(local, "PAGE_SIZE", 2)  # pages do not matter, only what is on them
    counting_service.upload(PAIRS, run_name="run-2")
    pool.take_counts()

    run = counting_service.complete_run()

    assert (pool.take_counts(), run["runName"]) == ({}, "run-2")
    assert rows.value("SELECT count(*) FROM collected_traces") == 5
    assert rows.value("SELECT count(*) FROM collections") == 1


def test_collection__traces_with_any_difference_are_stored_separately(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    counting_service.complete_run()
    changes: list[JSON] = [{"input": "?"}, {"latencyMs": 1}, {"traceId": "t-0"}]
    for name, change in enumerate(changes):
        counting_service.upload([*PAIRS[:4], {**PAIRS[4], **change}], run_name=f"changed-{name}")
        pool.take_counts()
        counting_service.complete_run()
        assert pool.take_counts() == {"ROUGE": 5}
    counting_service.upload(PAIRS[::-1], run_name="backwards")
    counting_service.complete_run()
    assert pool.take_counts() == {"ROUGE": 5}


class ImmutableSource:
    """A source whose second page is never read when the service holds the traces already."""

    reads = 0

    def pages(self, _query: TraceQuery, _cursor: str | None) -> Iterator[TracePage]:
        for cursor in ("more", None):
            ImmutableSource.reads += 1
            traces = (Trace(trace_id=f"t-{cursor}", item_id="i", output="x", expected_output="x"),)
            yield TracePage(traces=traces, cursor=cursor, total=2, revision="v1")


def _open_immutable(_: Resources) -> ImmutableSource:
    return ImmutableSource()


def test_collection__an_immutable_source_is_not_read_again(
    counting_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImmutableSource, "reads", 0)
    monkeypatch.setattr(TRACE_SOURCES, "get", lambda _: SourceSpec(open=_open_immutable))
    counting_service.create_benchmark(metrics=["ROUGE"])
    counting_service.complete_run()
    assert ImmutableSource.reads == 2
    run = counting_service.complete_run()
    assert (ImmutableSource.reads, run["tracesTotal"], counts(run)) == (3, 2, (0, 2))
    assert rows.value("SELECT count(*) FROM collections") == 1


def fail_after_collecting(service: Service) -> JSON:
    run = service.start_run()
    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
    pipeline.begin(job, run["id"])
    pipeline.collect_traces(job, run["id"])
    pipeline.on_failure(job, run["id"], "POISON", "the job ended its workers; see their logs")
    service.work()
    return run


def test_retry_run__takes_over_the_collected_traces(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    failed = fail_after_collecting(counting_service)
    [upload] = counting_service.get("/local-datasets")["items"]
    counting_service.delete(f"/local-datasets/{upload['id']}")

    again = counting_service.post(f"{RUNS}/{failed['id']}/retry")
    counting_service.work()

    run = counting_service.get(f"{RUNS}/{again['id']}")
    assert (run["status"], run["tracesProcessed"], run["runName"]) == ("COMPLETED", 5, "run-1")
    assert rows.value("SELECT count(*) FROM collections") == 1
    counting_service.delete(f"{RUNS}/{failed['id']}")
    counting_service.work()
    assert len(counting_service.list_items(f"{RUNS}/{run['id']}/results")) == 5


@pytest.mark.parametrize(
    ("path", "change"),
    [("/agents/agent-001", {"name": "Heron"}), ("/benchmarks/bench-001", {"datasetRef": "other"})],
)
def test_retry_run__collects_again_when_the_selection_changed(
    counting_service: Service, path: str, change: JSON
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    failed = fail_after_collecting(counting_service)
    [upload] = counting_service.get("/local-datasets")["items"]
    counting_service.delete(f"/local-datasets/{upload['id']}")
    counting_service.patch(path, change)

    again = counting_service.post(f"{RUNS}/{failed['id']}/retry")
    counting_service.work()

    run = counting_service.get(f"{RUNS}/{again['id']}")
    assert (run["status"], run["errorCode"]) == ("FAILED", "DATASET_NOT_FOUND")
