"""What a dataset whose items live here says of the traces of a run: their version, what they lack, what is missing."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.benchmarks.models import Benchmark
from mosaico.benchmarks.service import source_of
from mosaico.core.db import Database
from mosaico.core.text import count_noun
from mosaico.harness.harness_config import AgentHarnessSettings
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import RunPlan
from mosaico.traces.datasets.edit_rules import fill_trace
from mosaico.traces.datasets.queries import MAX_NAMED, find_dataset, load_version
from mosaico.traces.models import Collection
from mosaico.traces.registry import TRACE_SOURCES, CompletePage, TracePage

_COVERAGE: Final = text(
    """
    WITH item AS MATERIALIZED (
        SELECT * FROM (
            SELECT DISTINCT ON (state.position) state.*
            FROM dataset_items AS state JOIN datasets ON datasets.id = state.dataset_id
            WHERE datasets.name = :name AND state.version <= :version
            ORDER BY state.position, state.version DESC
        ) AS newest WHERE NOT is_retired
    ), trace AS MATERIALIZED (
        SELECT item_id, input, expected_output FROM collected_traces WHERE collection_id = :collection
    )
    SELECT (SELECT count(*) FROM item) AS items,
           (SELECT count(*) FROM item WHERE item_id NOT IN (SELECT item_id FROM trace)) AS absent,
           ARRAY(SELECT item_id FROM item WHERE item_id NOT IN (SELECT item_id FROM trace)
                 ORDER BY position LIMIT :named) AS absent_ids,
           (SELECT count(DISTINCT item_id) FROM trace WHERE item_id NOT IN (SELECT item_id FROM item)) AS unknown,
           (SELECT count(*) FROM trace JOIN item USING (item_id) WHERE trace.input <> item.input) AS other_questions,
           (SELECT count(*) FROM trace JOIN item USING (item_id)
            WHERE trace.expected_output <> item.expected_output) AS other_answers
    """
)


class VersionCoverage(NamedTuple):
    """The items of a version and those without a trace (the first ones by ID), the items of the run that the version
    does not have, and the traces that say another question or expected answer.
    """

    items: int
    absent: int
    absent_ids: list[str]
    unknown: int
    other_questions: int
    other_answers: int


def find_tested_version(session: Session, benchmark: Benchmark, agent: Agent) -> int | None:
    """The newest version of the dataset of a benchmark, if its items live here and the runs of the benchmark test them:
    runs of production and tasks of harness files do not.
    """
    if benchmark.dataset_ref is None or benchmark.production is not None:
        return None
    source = TRACE_SOURCES.get(source_of(benchmark, agent))
    is_of_tasks = source.runs_models and not isinstance(benchmark.harness, AgentHarnessSettings)
    if source.has_datasets or is_of_tasks:
        return None
    dataset = find_dataset(session, benchmark.dataset_ref)
    # A dataset without a version has no items to test.
    return (dataset and dataset.version) or None


def name_dataset(session: Session, run: BenchmarkRun) -> str:
    """The dataset to which a trace of a run is added as an item: that of the benchmark, if its items may live here, otherwise
    one with the name of the benchmark.
    """
    benchmark, agent = (
        session.get_one(Benchmark, run.benchmark_id),
        session.get_one(Agent, run.agent_id),
    )
    lives_elsewhere = TRACE_SOURCES.get(source_of(benchmark, agent)).has_datasets
    return (not lives_elsewhere and benchmark.dataset_ref) or benchmark.display_name


def page_completion(db: Database, plan: RunPlan) -> CompletePage:
    """What completes each page of a run: traces get what the version of their dataset says, those of retired items are
    left out. The traces of an agent that was run over the version have all of it.
    """
    if plan.dataset_version is None or TRACE_SOURCES.get(plan.source).runs_models:
        return lambda page: page
    with db.read() as session:
        version = load_version(session, plan.dataset_ref or "", plan.dataset_version)

    def complete(page: TracePage) -> TracePage:
        kept = [trace for trace in page.traces if trace.item_id not in version.retired]
        return replace(
            page,
            traces=tuple(
                fill_trace(trace, version.items[trace.item_id])
                if trace.item_id in version.items
                else trace
                for trace in kept
            ),
            # The source counts those of retired items, too; the version says how many items there are.
            total=None,
            retired_traces=len(page.traces) - len(kept),
        )

    return complete


def read_coverage(session: Session, plan: RunPlan, collection_id: int) -> VersionCoverage:
    """Compare the traces of a run with the version that it tests."""
    # A job calls this, and a large run takes longer than a request may.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    parameters = {
        "name": plan.dataset_ref,
        "version": plan.dataset_version,
        "collection": collection_id,
        "named": MAX_NAMED,
    }
    return VersionCoverage(*session.execute(_COVERAGE, parameters).one())


def describe_coverage(session: Session, run: BenchmarkRun, collection: Collection) -> str | None:
    """What the traces of a run lack of the version that it tests, and what they have besides; None if that is nothing."""
    plan = run.plan
    if plan is None or plan.dataset_version is None:
        return None
    coverage = read_coverage(session, plan, collection.id)
    remarks = list(_remarks(coverage, collection.retired_traces))
    name = f"dataset {plan.dataset_ref} v{plan.dataset_version}"
    return f"{name}: {'; '.join(remarks)}" if remarks else None


def _remarks(coverage: VersionCoverage, retired_traces: int) -> Iterator[str]:
    if coverage.absent:
        more = coverage.absent - len(coverage.absent_ids)
        names = ", ".join(f"{item_id:.80}" for item_id in coverage.absent_ids)
        rest = f" and {more} more" if more else ""
        verb = "has" if coverage.absent == 1 else "have"
        yield f"{coverage.absent} of {count_noun(coverage.items, 'item')} {verb} no trace: {names}{rest}"
    if coverage.unknown:
        yield f"{count_noun(coverage.unknown, 'item')} of the run {_be(coverage.unknown)} not in it"
    if retired_traces:
        yield f"{count_noun(retired_traces, 'trace')} of retired items {_be(retired_traces)} left out"
    if coverage.other_questions:
        yield f"{count_noun(coverage.other_questions, 'trace')} answered another question, and that one counts"
    if coverage.other_answers:
        count = coverage.other_answers
        yield f"{count_noun(count, 'trace')} came with another expected answer, and that one counts"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
