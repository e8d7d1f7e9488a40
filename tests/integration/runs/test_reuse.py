"""What an earlier run collected and measured is neither stored nor computed again."""

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
from app.jobs.handlers import JobContext, WorkerStopping
from app.jobs.pool import CallTimeout, ProcessPool
from app.metrics.engine import score_within_limits
from app.metrics.run_value import summarize_traces
from app.runs import pipeline, retention, shards
from app.runs.collect import append_page
from app.runs.leases import RunLease, acquire_run
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
    """A pool without children that counts what it computes, by metric; those `lost` hang."""

    def __init__(self) -> None:
        self.computed: Counter[str] = Counter()
        self.summarized: Counter[str] = Counter()
        self.lost: set[tuple[str, str]] = set()

    def run(self, function: Callable[..., R], *arguments: Any, timeout_s: float) -> R:
        if function is score_within_limits:
            traces, refs = arguments
            asked = {(ref.key, trace.trace_id) for ref in refs for trace in traces}
            if asked & self.lost:
                raise CallTimeout(f"no answer within {timeout_s:g} s")
            self.computed.update(key for key, _ in asked)
        if function is summarize_traces:
            self.summarized[arguments[0].key] += 1
        return function(*arguments)

    def told(self) -> dict[str, int]:
        """What was computed since this was asked last."""
        computed, self.computed = self.computed, Counter()
        return dict(computed)


@pytest.fixture
def pool() -> CountingPool:
    return CountingPool()


@pytest.fixture
def counted(service: Service, pool: CountingPool) -> Service:
    """The service with an agent and an upload; its metrics are computed in this process."""
    service.agent()
    service.upload(PAIRS)
    return dataclasses.replace(service, pool=pool)


@pytest.fixture
def rows(service: Service) -> DatabaseReader:
    return DatabaseReader(service.resources.db.url)


def measure(service: Service, *metrics: object) -> None:
    service.patch("/benchmarks/bench-001", {"metrics": list(metrics)})


def mean(service: Service, run: JSON, metric: str) -> float:
    found = service.get(f"{RUNS}/{run['id']}/metrics")["items"]
    [value] = [each["mean"] for each in found if each["metric"] == metric]
    return float(value)


def counts(run: JSON) -> tuple[int, int]:
    return run["metricsComputed"], run["metricsReused"]


def test_an_unchanged_run_computes_nothing_and_finds_the_same_to_the_last_bit(
    counted: Service, pool: CountingPool, rows: DatabaseReader
) -> None:
    counted.benchmark(
        metrics=["ROUGE", "BLEU", MACRO],
        measures=[{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.3, BLEU:0.2) + F1_SCORE"}],
    )
    first = counted.completed()
    # All five traces are asked, and the four that have an output have three values each.
    assert pool.told() == {"ROUGE": 5, "BLEU": 5, "F1_SCORE": 5}
    assert counts(first) == (12, 0)

    second = counted.completed()

    assert (pool.told(), pool.summarized) == ({}, {"F1_SCORE": 1})
    assert counts(second) == (0, 12)
    one, other = rows.stored(first["id"]), rows.stored(second["id"])
    assert one.results == other.results
    assert one.metrics == other.metrics
    assert one.kpis == other.kpis
    assert rows.value("SELECT count(*) FROM collections") == 1
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_one_more_metric_is_the_only_one_that_is_computed(
    counted: Service, pool: CountingPool
) -> None:
    counted.benchmark(metrics=["ROUGE", "BLEU"])
    before = counted.completed()
    pool.told()

    # In another order, so that its values stand elsewhere in the rows.
    measure(counted, "EXACT_MATCH", "BLEU", "ROUGE")
    run = counted.completed()

    assert pool.told() == {"EXACT_MATCH": 5}
    assert counts(run) == (4, 8)
    assert mean(counted, run, "ROUGE") == mean(counted, before, "ROUGE")
    assert mean(counted, run, "BLEU") == mean(counted, before, "BLEU")
    assert mean(counted, run, "EXACT_MATCH") == 2 / 4
    results = counted.listed(f"{RUNS}/{run['id']}/results")
    assert results[3]["missing"]["BLEU"]["skipped"] == "NO_OUTPUT"


def test_values_of_several_runs_come_together(counted: Service, pool: CountingPool) -> None:
    counted.benchmark(metrics=["ROUGE"])
    rouge = mean(counted, counted.completed(), "ROUGE")
    measure(counted, "EXACT_MATCH")
    counted.completed()
    pool.told()

    measure(counted, "EXACT_MATCH", "ROUGE")
    run = counted.completed()

    assert pool.told() == {}
    assert (mean(counted, run, "ROUGE"), mean(counted, run, "EXACT_MATCH")) == (rouge, 2 / 4)


def test_another_version_of_a_metric_is_computed_and_the_others_are_not(
    counted: Service, pool: CountingPool
) -> None:
    counted.benchmark(metrics=["ROUGE", "BLEU"])
    plain = counted.completed()
    pool.told()

    measure(counted, STEMMED, "BLEU")
    run = counted.completed()

    assert pool.told() == {"ROUGE": 5}
    # Stemmed, "boats sailed" has the words of "the boats sail": F1 = 2·1·(2/3) / (5/3) = 0.8
    # instead of 2·(1/2)·(1/3) / (5/6) = 0.4, in one of four values.
    gained = mean(counted, run, "ROUGE") - mean(counted, plain, "ROUGE")
    assert gained == pytest.approx((0.8 - 0.4) / 4)


@pytest.mark.parametrize("shard_traces", [2000, 2])
def test_the_value_of_a_run_by_its_labels_stays_right(
    counted: Service, pool: CountingPool, monkeypatch: pytest.MonkeyPatch, shard_traces: int
) -> None:
    counted.benchmark(metrics=["ROUGE", MACRO])
    first = counted.completed()
    # Shards of another length have other summaries, made of the same values.
    monkeypatch.setattr(shards, "SHARD_TRACES", shard_traces)
    pool.told()
    pool.summarized.clear()

    measure(counted, MACRO)
    second = counted.completed()

    assert pool.told() == {}
    assert pool.summarized == ({} if shard_traces == 2000 else {"F1_SCORE": 3})
    assert mean(counted, second, "F1_SCORE") == mean(counted, first, "F1_SCORE")


def test_what_could_not_be_measured_is_tried_again_and_nothing_else(
    counted: Service, pool: CountingPool
) -> None:
    counted.benchmark(metrics=["ROUGE", MACRO], maxErrorShare=1)
    pool.lost = {("ROUGE", "t-2"), ("F1_SCORE", "t-5")}
    broken = counted.completed()
    # t-2 and t-5 are lost for one metric each; expected a and b, given b and nothing else.
    assert counts(broken) == (6, 0)
    pool.told()
    pool.lost.clear()

    whole = counted.completed()

    assert pool.told() == {"ROUGE": 1, "F1_SCORE": 1}
    assert counts(whole) == (2, 6)
    measure(counted, "EXACT_MATCH")
    fresh = counted.completed()
    assert mean(counted, fresh, "EXACT_MATCH") == 2 / 4
    # Right, expected, given: a is (1, 2, 1), b is (1, 1, 2), "the boats sail" and "boats sailed"
    # are never right: macro F1 is (2/3 + 2/3 + 0 + 0) / 4.
    assert mean(counted, whole, "F1_SCORE") == pytest.approx(1 / 3)


def test_a_run_outlives_the_one_that_it_took_its_values_from(
    counted: Service, pool: CountingPool, rows: DatabaseReader
) -> None:
    counted.benchmark(metrics=["ROUGE"])
    donor, heir = counted.completed(), counted.completed()
    before = rows.stored(heir["id"])

    counted.delete(f"{RUNS}/{donor['id']}")
    counted.work()

    assert rows.stored(heir["id"]) == before
    pool.told()
    third = counted.completed()
    assert (pool.told(), counts(third)) == ({}, (0, 4))
    for run in (heir, third):
        counted.delete(f"{RUNS}/{run['id']}")
    counted.work()
    for table in ("collections", "collected_traces", "trace_results"):
        assert rows.value(f"SELECT count(*) FROM {table}") == 0


def test_traces_that_are_about_to_be_deleted_are_not_taken_over(
    counted: Service, rows: DatabaseReader
) -> None:
    counted.benchmark(metrics=["ROUGE"])
    old = counted.completed()
    counted.delete(f"{RUNS}/{old['id']}")
    # Its traces are still there: the job that deletes them waits beside the new run's.
    assert rows.value("SELECT count(*) FROM collected_traces") == 5

    run = counted.completed()

    assert (run["status"], counts(run)) == ("COMPLETED", (4, 0))
    assert rows.value("SELECT count(*) FROM collected_traces") == 5
    assert rows.value("SELECT count(*) FROM collections") == 1


@dataclass(frozen=True, slots=True)
class Race:
    """A run that is about to take over the traces of another one, which is about to be deleted."""

    service: Service
    donor: JSON
    heir: JSON
    lease: RunLease
    page: TracePage

    @classmethod
    def of(cls, service: Service) -> "Race":
        donor, heir = service.completed(), service.start()
        job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
        pipeline.begin(job, heir["id"])
        with service.resources.db.begin() as session:
            lease = acquire_run(session, heir["id"])
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


def test_traces_that_are_being_taken_over_are_not_deleted(
    counted: Service, rows: DatabaseReader
) -> None:
    counted.benchmark(metrics=["ROUGE"])
    race = Race.of(counted)
    collection_id = rows.value("SELECT min(id) FROM collections")
    heir = race.run(race.take_over, race.delete)
    assert (heir["status"], counts(heir)) == ("COMPLETED", (4, 0))
    assert rows.all("SELECT id FROM collections") == [(collection_id,)]
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_traces_that_are_being_deleted_are_not_taken_over(
    counted: Service, rows: DatabaseReader
) -> None:
    counted.benchmark(metrics=["ROUGE"])
    race = Race.of(counted)
    collection_id = rows.value("SELECT max(id) FROM collections")
    heir = race.run(race.delete, race.take_over)
    assert (heir["status"], counts(heir)) == ("COMPLETED", (4, 0))
    assert rows.all("SELECT id FROM collections") == [(collection_id,)]
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_a_deletion_that_is_interrupted_goes_on_where_it_stopped(
    counted: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_PER_BATCH", 2)
    counted.benchmark(metrics=["ROUGE"])
    run = counted.completed()
    collection_id = rows.value("SELECT id FROM collections")
    counted.delete(f"{RUNS}/{run['id']}")
    stops: Iterator[bool] = iter([False, True])
    job = JobContext(
        resources=counted.resources, pool=counted.pool, is_stopping=lambda: next(stops)
    )

    with pytest.raises(WorkerStopping):
        retention.drop_traces(job, collection_id)

    assert rows.value("SELECT count(*) FROM collected_traces") == 3
    counted.work()
    for table in ("collections", "collected_traces", "trace_results"):
        assert rows.value(f"SELECT count(*) FROM {table}") == 0


def test_the_same_traces_under_another_name_are_stored_once(
    counted: Service, pool: CountingPool, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PAGE_SIZE", 3)
    counted.benchmark(metrics=["ROUGE"])
    counted.completed()
    monkeypatch.setattr(local, "PAGE_SIZE", 2)  # pages do not matter, only what is on them
    counted.upload(PAIRS, run_name="night-2")
    pool.told()

    run = counted.completed()

    assert (pool.told(), run["runName"]) == ({}, "night-2")
    assert rows.value("SELECT count(*) FROM collected_traces") == 5
    assert rows.value("SELECT count(*) FROM collections") == 1


def test_traces_that_differ_in_anything_are_other_traces(
    counted: Service, pool: CountingPool
) -> None:
    counted.benchmark(metrics=["ROUGE"])
    counted.completed()
    changes: list[JSON] = [{"input": "?"}, {"latencyMs": 1}, {"traceId": "t-0"}]
    for name, change in enumerate(changes):
        counted.upload([*PAIRS[:4], {**PAIRS[4], **change}], run_name=f"changed-{name}")
        pool.told()
        counted.completed()
        assert pool.told() == {"ROUGE": 5}
    counted.upload(PAIRS[::-1], run_name="backwards")
    counted.completed()
    assert pool.told() == {"ROUGE": 5}


class Once:
    """A source whose second page is never read when the service holds the traces already."""

    reads = 0

    def pages(self, _query: TraceQuery, _cursor: str | None) -> Iterator[TracePage]:
        for cursor in ("more", None):
            Once.reads += 1
            traces = (Trace(trace_id=f"t-{cursor}", item_id="i", output="x", expected_output="x"),)
            yield TracePage(traces=traces, cursor=cursor, total=2, revision="v1")


def _open_once(_: Resources) -> Once:
    return Once()


def test_traces_that_never_change_are_not_read_again(
    counted: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Once, "reads", 0)
    monkeypatch.setattr(TRACE_SOURCES, "get", lambda _: SourceSpec(open=_open_once))
    counted.benchmark(metrics=["ROUGE"])
    counted.completed()
    assert Once.reads == 2
    run = counted.completed()
    assert (Once.reads, run["tracesTotal"], counts(run)) == (3, 2, (0, 2))
    assert rows.value("SELECT count(*) FROM collections") == 1


def fail_after_collecting(service: Service) -> JSON:
    run = service.start()
    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
    pipeline.begin(job, run["id"])
    pipeline.collect_traces(job, run["id"])
    pipeline.on_failure(job, run["id"], "POISON", "the job ended its workers; see their logs")
    service.work()
    return run


def test_a_retry_goes_on_with_the_traces_that_were_collected(
    counted: Service, rows: DatabaseReader
) -> None:
    counted.benchmark(metrics=["ROUGE"])
    failed = fail_after_collecting(counted)
    [upload] = counted.get("/local-datasets")["items"]
    counted.delete(f"/local-datasets/{upload['id']}")

    again = counted.post(f"{RUNS}/{failed['id']}/retry")
    counted.work()

    run = counted.get(f"{RUNS}/{again['id']}")
    assert (run["status"], run["tracesProcessed"], run["runName"]) == ("COMPLETED", 5, "night-1")
    assert rows.value("SELECT count(*) FROM collections") == 1
    counted.delete(f"{RUNS}/{failed['id']}")
    counted.work()
    assert len(counted.listed(f"{RUNS}/{run['id']}/results")) == 5


@pytest.mark.parametrize(
    ("path", "change"),
    [("/agents/agent-001", {"name": "Heron"}), ("/benchmarks/bench-001", {"datasetRef": "other"})],
)
def test_a_retry_that_asks_for_something_else_collects_anew(
    counted: Service, path: str, change: JSON
) -> None:
    counted.benchmark(metrics=["ROUGE"])
    failed = fail_after_collecting(counted)
    [upload] = counted.get("/local-datasets")["items"]
    counted.delete(f"/local-datasets/{upload['id']}")
    counted.patch(path, change)

    again = counted.post(f"{RUNS}/{failed['id']}/retry")
    counted.work()

    run = counted.get(f"{RUNS}/{again['id']}")
    assert (run["status"], run["errorCode"]) == ("FAILED", "DATASET_NOT_FOUND")
