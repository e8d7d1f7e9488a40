"""Compares stored runs: reads them in short transactions and computes in a child process."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from sqlalchemy import Text, column
from sqlalchemy.orm import Session

from mosaico.comparison.baseline_runs import BaselineRun
from mosaico.comparison.child_process import query_in_child
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.measured_runs import read_measured_runs
from mosaico.comparison.pair_comparison import (
    MAX_FLIPS,
    ComparisonSide,
    RunPair,
    compare,
    flips_of,
    select_flip_metric,
)
from mosaico.comparison.peers import list_peers, load_peer_means, view_peers
from mosaico.comparison.schemas import (
    CategoryMetric,
    CategoryPage,
    ComparedRun,
    Comparison,
    TraceLink,
)
from mosaico.core.db import Database
from mosaico.core.errors import AppError, Conflict, Invalid
from mosaico.core.keyset import PageQuery, encode_cursor, read_cursor
from mosaico.formula import compile_formula
from mosaico.items.label_counts import with_label_counts
from mosaico.items.queries import (
    has_tag_field,
    list_trace_links,
    read_attributes,
    read_items,
)
from mosaico.kpis.evaluate import KpiValue
from mosaico.kpis.queries import get_kpis_of_run
from mosaico.metrics.metric_gaps import MetricGap, find_gaps
from mosaico.metrics.registry import column_of, provider_for
from mosaico.run_store.models import BenchmarkRun, RunMetricAggregate
from mosaico.run_store.plan import PlannedMetric, RunPlan
from mosaico.run_store.queries import get_run, list_run_metrics
from mosaico.run_store.rules import RunStatus, Validity, require_traces
from mosaico.run_store.run_history import aggregate_of
from mosaico.run_store.run_series import list_points
from mosaico.statistics.sequential import RunLevel
from mosaico.statistics.verdict_rules import About

R = TypeVar("R")

MAX_CATEGORY_CHARS: Final = 4096
MAX_BASELINE_RUNS: Final = 30
MAX_JUDGED: Final = 100
FIRST_PAGE: Final = PageQuery()
# Categories are not a column of a table.
CATEGORY_KEYS: Final = (column("category", Text),)


class RunNotComparable(Conflict):
    """The run is not completed, so it cannot be compared; wait for it, or name another run."""


class ComparisonRequest(NamedTuple):
    """What is compared: a candidate with baseline runs.

    `metric` is the metric of the flipped items, `judged` names the KPIs and metrics that are judged
    together, `about` the question that decides, and `run_sd` states how much whole runs vary. Of many categories the
    first 50 after `categories_after` are compared.
    """

    baseline_ids: tuple[str, ...]
    candidate_id: str
    metric: str | None = None
    judged: tuple[str, ...] = ()
    categories_after: str | None = None
    about: About | None = None
    run_sd: float | None = None


def compare_in_child(db: Database, request: ComparisonRequest) -> Comparison:
    """`compare_runs` in a process that ends afterwards and so releases its memory.

    Raises: `ComparisonBusy`, `ComparisonFailed`, and the errors of `compare_runs`.
    """
    with db.read() as session:
        # Invalid requests are refused before a process is started.
        get_requested_runs(session, request)
    return query_in_child(db, compare_runs, request)


class ComparableRuns(NamedTuple):
    """Comparable runs in their order, by sequence number; the levels are those of the runs from `first` on."""

    run_seqs: Sequence[int]
    first: int = 0


def series_levels_in_child(
    db: Database, series: str, groups: Sequence[ComparableRuns]
) -> dict[int, dict[int, RunLevel]]:
    """By run, the levels of a series in the runs up to it, each on the items of that run. Runs without stored items
    are left out.

    Raises: `ComparisonBusy`, `ComparisonFailed`.
    """
    return query_in_child(db, _load_levels, series, groups)


def _load_levels(
    db: Database, series: str, groups: Sequence[ComparableRuns]
) -> dict[int, dict[int, RunLevel]]:
    # Imports numpy: only a child process may.
    from mosaico.comparison.series_levels import levels_by_run

    levels: dict[int, dict[int, RunLevel]] = {}
    for group in groups:
        with db.read() as session:
            stored = {
                point.run_seq: point for point in list_points(session, series, group.run_seqs)
            }
        points = [stored[seq] for seq in group.run_seqs if seq in stored]
        first = sum(seq in stored for seq in group.run_seqs[: group.first])
        levels |= levels_by_run(points, first)
    return levels


def compare_runs(db: Database, request: ComparisonRequest) -> Comparison:
    """The comparison of a candidate with baseline runs, item by item.

    Several baseline runs are combined as for a stored verdict: each item's mean over all of them.
    Raises: `RunNotComparable`, `MetricNotCompared`, `Invalid` for runs of two benchmarks.
    """
    with db.read() as session:
        runs = get_requested_runs(session, request)
        baseline = _load_side(session, runs.baseline)
        candidate = _load_side(session, [runs.candidate])
        kpis = _kpi_values(session, runs.candidate, candidate.plan)
        measured = read_measured_runs(session, runs.candidate.seq)
        stored_metrics = list_run_metrics(session, runs.candidate.seq)
        gaps = _find_gaps(stored_metrics, candidate)
        agreements = {row.metric: row.agreement for row in stored_metrics if row.agreement}
    count_metrics = RunComparison(plan=candidate.plan, kpis=(), baseline=None).count_metrics
    # Outside of the transaction: the texts of all traces are read and summarized again.
    baseline, candidate = (
        replace(
            side,
            items=with_label_counts(side.items, db, _metric_keys(side_runs), count_metrics),
        )
        for side_runs, side in ((runs.baseline, baseline), ([runs.candidate], candidate))
    )
    pair = RunPair(
        baseline=baseline, candidate=candidate, kpis=kpis, judged=request.judged,
        categories_after=request.categories_after, about=request.about, measured_runs=measured,
        run_sd=request.run_sd, gaps=gaps, agreements=agreements,
    )  # fmt: skip
    flip_metric = select_flip_metric(pair, request.metric)
    if flip_metric is None:
        return compare(pair)
    flips = flips_of(pair, flip_metric)[:MAX_FLIPS]
    with db.read() as session:
        peers = list_peers(session, runs.candidate)
        means = load_peer_means(session, peers, flip_metric)
        links = _trace_links(session, runs, [flip.item_id for flip in flips])
    return compare(
        replace(
            pair, metric=flip_metric, peer_runs=view_peers(peers), peer_means=means, links=links
        )
    )


def categories_in_child(
    db: Database, run_id: str, field: str, query: PageQuery = FIRST_PAGE
) -> CategoryPage:
    """`read_categories` in a process that ends afterwards and so releases its memory.

    Raises: `ComparisonBusy`, `ComparisonFailed`, `BadCursor`, and the errors of `get_comparable_run`.
    """
    after = str(read_cursor(CATEGORY_KEYS, query.cursor)[0]) if query.cursor else None
    with db.read() as session:
        run = get_comparable_run(session, run_id)
        # Most runs have no categories: they need no process of their own.
        if not has_tag_field(session, run, field):
            return CategoryPage(items=[], total=0)
    return query_in_child(db, read_categories, run_id, field, after, query.limit)


def read_categories(
    db: Database, run_id: str, field: str, after: str | None, limit: int
) -> CategoryPage:
    """The metrics and KPIs of a completed run by category: the tags `field:…` of its items. Imports
    numpy.

    Raises: the errors of `get_comparable_run`.
    """
    from mosaico.comparison.category_values import (
        categories_of,
        select_categories,
        values_by_category,
    )

    with db.read() as session:
        run = get_comparable_run(session, run_id)
        side = _load_side(session, [run])
        kpis = _kpi_values(session, run, side.plan)
    comparison = RunComparison(plan=side.plan, kpis=kpis, baseline=None)
    items = with_label_counts(side.items, db, _metric_keys([run]), comparison.count_metrics)
    categories = categories_of([side.attributes.features], field)
    selection = select_categories(categories, after, limit)
    lost = [CategoryMetric.lost(column) for column in side.lost]
    return CategoryPage(
        items=[
            values.model_copy(update={"metrics": [*values.metrics, *lost]})
            for values in values_by_category(run_id, comparison, items, selection.categories)
        ],
        next_cursor=encode_cursor([selection.last]) if selection.last is not None else None,
        total=len(categories),
    )


class RequestedRuns(NamedTuple):
    """The runs of a comparison, with at least one baseline run."""

    baseline: list[BenchmarkRun]
    candidate: BenchmarkRun


def get_requested_runs(session: Session, request: ComparisonRequest) -> RequestedRuns:
    """The runs of a comparison. Raises: `Invalid` for runs of two benchmarks, and the errors of `get_comparable_run`."""
    baseline_ids = dict.fromkeys(request.baseline_ids)
    baseline = [get_comparable_run(session, run_id) for run_id in baseline_ids]
    candidate = get_comparable_run(session, request.candidate_id)
    for run in baseline:
        if run.benchmark_id != candidate.benchmark_id:
            raise Invalid(
                f"{run.id} is a run of {run.benchmark_id!r} and {candidate.id} of"
                f" {candidate.benchmark_id!r}; name runs of one benchmark"
            )
    return RequestedRuns(baseline, candidate)


def get_comparable_pair(
    session: Session, baseline_id: str, candidate_id: str
) -> tuple[BenchmarkRun, BenchmarkRun]:
    """Two completed runs of one benchmark. Raises: `Invalid`, and the errors of `get_comparable_run`."""
    runs = get_requested_runs(session, ComparisonRequest((baseline_id,), candidate_id))
    return runs.baseline[0], runs.candidate


def get_comparable_run(session: Session, run_id: str) -> BenchmarkRun:
    """A completed run whose traces exist. Raises: `RunNotComparable`, and the errors of `get_run`."""
    run = get_run(session, run_id)
    if run.status != RunStatus.COMPLETED:
        raise RunNotComparable(
            f"the run {run_id} is {run.status}; wait until it is COMPLETED, or name another run"
        )
    require_traces(run.id, run.purged_at)
    return run


def _load_side(session: Session, runs: Sequence[BenchmarkRun]) -> ComparisonSide:
    run, baseline_runs = runs[0], [_baseline_run(run) for run in runs]
    plan = _without_lost_metrics(baseline_runs[0].plan)
    lost = set(baseline_runs[0].plan.columns) - {*plan.columns}
    kept_kpis = {kpi.id for kpi in plan.kpis}
    comparison = RunComparison(plan=plan, kpis=(), baseline=None)
    return ComparisonSide(
        run=ComparedRun(
            id=run.id,
            benchmark_id=run.benchmark_id,
            agent_id=run.agent_id,
            run_name=run.run_name,
            created_at=run.created_at,
            validity=run.validity,
            traces=run.traces_total or 0,
        ),
        plan=plan,
        items=read_items(
            session,
            _metric_keys(runs),
            comparison.item_columns,
            cluster_field=plan.cluster_field,
            is_sample=plan.is_sample,
            has_answers=comparison.has_judgements,
        ),
        attributes=read_attributes(
            session,
            [run.seq for run in runs],
            cluster_field=plan.cluster_field,
            is_sample=plan.is_sample,
        ),
        invalid_reasons=[reason for run in runs for reason in _invalid_reasons(run)],
        further_runs=baseline_runs[1:],
        lost=sorted(lost),
        lost_kpis=[kpi for kpi in baseline_runs[0].plan.kpis if kpi.id not in kept_kpis],
    )


def _without_lost_metrics(plan: RunPlan) -> RunPlan:
    """The plan without metrics that are no longer installed, and without the KPIs that read them."""
    lost = [metric.column for metric in plan.metrics if not _is_installed(metric)]
    if not lost:
        return plan
    metrics = tuple(metric for metric in plan.metrics if metric.column not in lost)
    kpis = tuple(
        kpi
        for kpi in plan.kpis
        if not {column_of(ref.key) for ref in compile_formula(kpi.formula).references} & {*lost}
    )
    return plan.model_copy(update={"metrics": metrics, "kpis": kpis})


def lost_columns(runs: RequestedRuns) -> list[str]:
    """The metrics of some runs that are no longer installed."""
    metrics = {
        metric.column: metric
        for run in (runs.candidate, *runs.baseline)
        for metric in run.begun_plan.metrics
    }
    return sorted(column for column, metric in metrics.items() if not _is_installed(metric))


def _is_installed(metric: PlannedMetric) -> bool:
    try:
        provider_for(metric.ref)
    except AppError:
        return False
    return True


def _baseline_run(run: BenchmarkRun) -> BaselineRun:
    return BaselineRun(run.seq, run.id, run.begun_plan)


def _metric_keys(runs: Sequence[BenchmarkRun]) -> dict[int, Sequence[str]]:
    """The stored metrics of each run, by its seq."""
    return {run.seq: run.metric_keys or [] for run in runs}


def _invalid_reasons(run: BenchmarkRun) -> Sequence[str]:
    if run.validity == Validity.VALID:
        return ()
    return run.validity_reasons or ("it is not valid",)


def _kpi_values(session: Session, run: BenchmarkRun, plan: RunPlan) -> list[KpiValue]:
    stored = {kpi.kpi_id: kpi for kpi in get_kpis_of_run(session, run.seq)}
    return [
        KpiValue(
            kpi=kpi,
            value=stored[kpi.id].value,
            reason=stored[kpi.id].undefined_reason,
            is_incomplete=stored[kpi.id].validity == Validity.INVALID,
        )
        for kpi in plan.kpis
        if kpi.id in stored
    ]


def _find_gaps(rows: Sequence[RunMetricAggregate], side: ComparisonSide) -> dict[str, MetricGap]:
    """The metrics that a run has values of too few traces of, by column."""
    aggregates = {row.metric: aggregate_of(row) for row in rows}
    has_trials = len(side.items.items) < len(side.items.item_index)
    return find_gaps(side.plan.refs, aggregates, side.plan.min_coverage, has_trials=has_trials)


def _trace_links(
    session: Session, runs: RequestedRuns, items: Sequence[str]
) -> dict[str, list[TraceLink]]:
    """The trace links of the items: of the candidate, then of the newest baseline run."""
    links: dict[str, list[TraceLink]] = {}
    for link in list_trace_links(session, runs.candidate, items):
        view = TraceLink(side="candidate", trace_id=link.trace_id, url=link.url)
        links.setdefault(link.item_id, []).append(view)
    for link in list_trace_links(session, runs.baseline[0], items):
        view = TraceLink(side="baseline", trace_id=link.trace_id, url=link.url)
        links.setdefault(link.item_id, []).append(view)
    return links
