"""Judges a file of results against another one, without a server: both are measured as the runs of a comparison."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mosaico.comparison.answer_text import describe_reading
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.pair_comparison import ComparisonSide, RunPair, compare
from mosaico.gating.earlier_runs import (
    EarlierRuns,
    MeasuredRun,
    describe_all_runs,
    measure_earlier,
    warn_of_few,
)
from mosaico.gating.measured_file import MeasuredFile, TraceOpener, measure_file, select_columns
from mosaico.gating.offline_metrics import (
    OfflineMetrics,
    kpi_columns,
)
from mosaico.gating.rules import GateResult, GateTerms, decide, with_remarks
from mosaico.items.matrix import (
    pair_items,
)
from mosaico.kpis.evaluate import KpiValue, evaluate_kpis, warn_of_few_trials
from mosaico.metrics.aggregate import Aggregate
from mosaico.metrics.metric_gaps import MetricGap
from mosaico.metrics.registry import column_of, provider_for
from mosaico.metrics.types import (
    MetricRef,
)
from mosaico.metrics.unread_texts import measured_texts, warn_of_unread
from mosaico.statistics.verdict_rules import About
from mosaico.traces.files.result_sources import ResultSource
from mosaico.traces.files.trace_file import TraceReader


def gate_files(
    baseline: ResultSource,
    candidate: ResultSource,
    selected: OfflineMetrics,
    terms: GateTerms,
    reader: TraceReader,
    announce: Callable[[str], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
    earlier: Sequence[ResultSource] = (),
) -> GateResult:
    """The gate result of two files with these metrics. Imports numpy. `announce` gets a line that says what
    was read and what decides, `warn` the warning of `pair_files`, which reads the `earlier` runs.

    Raises: the errors of `reader`, and `NothingToGate`.
    """
    requested = terms.with_columns(selected.columns, selected.requested)
    pair = pair_files(
        baseline, candidate, selected, reader, requested.names, warn, about=terms.about,
        earlier=earlier, run_sd=terms.run_sd,
    )  # fmt: skip
    comparison = compare(pair)
    result = with_remarks(decide(comparison, requested), is_file=True)
    over_runs = describe_all_runs(result, pair, len(earlier) + 2)
    result = replace(result, remarks=[*result.remarks, *over_runs])
    announce(describe_reading(comparison, selected.refs, reader.columns))
    return result


def pair_files(
    baseline: ResultSource,
    candidate: ResultSource,
    metrics: OfflineMetrics,
    reader: TraceOpener,
    judged: Sequence[str] = (),
    warn: Callable[[str], None] = lambda _: None,
    *,
    about: About | None = None,
    earlier: Sequence[ResultSource] = (),
    run_sd: float | None = None,
) -> RunPair:
    """Two files, measured, as the input of a comparison; `judged` names the KPIs and metrics that
    are judged together, `about` is the question that decides. `earlier` are files of earlier runs of the unchanged agent,
    oldest first, which tell how much whole runs vary; `run_sd` states it. `warn` gets a line about metrics that cannot read many of the expected texts.

    Raises: the errors of `reader`, which name the file and the line.
    """
    files = [measure_file(path, metrics, reader) for path in (baseline, candidate)]
    if metrics.spare and not _are_settled(files, metrics.spare):
        metrics = metrics.with_spare()
        files = [measure_file(path, metrics, reader) for path in (baseline, candidate)]
    if warning := _warn_of_unread(files, metrics.refs):
        warn(warning)
    named = {*judged, *kpi_columns(metrics)}
    # A metric that applies to no trace of either file says nothing about them. One that applies to
    # one file only stays: the texts that it needs are missing in the other one.
    applicable = [
        column
        for column in files[0].side.plan.columns
        if column in named or any(column in file.measured for file in files)
    ]
    columns = [select_columns(file, applicable) for file in files]
    compared = [
        column
        for column in applicable
        if column in named or all(column in file.measured for file in files)
    ]
    before, after = (
        _limit_plan(file.with_validity(selected), compared)
        for file, selected in zip(files, columns, strict=True)
    )
    aggregates = files[1].with_run_values(columns[1].aggregates())
    gaps = files[1].gaps(aggregates)
    kpis = _kpi_values(metrics, aggregates, gaps)
    if few_trials := warn_of_few_trials(metrics.kpis, lambda key: aggregates[column_of(key)]):
        warn(few_trials)
    history = EarlierRuns()
    if earlier:
        before_it = (measure_file(path, metrics, reader) for path in earlier)
        history = measure_earlier([_measured_run(file, metrics) for file in (*before_it, *files)])
        if few := warn_of_few(history, len(earlier)):
            warn(few)
    return RunPair(
        baseline=before, candidate=after, kpis=kpis, judged=judged, about=about,
        measured_runs=history.measured, run_sd=run_sd, over_runs=history.scans, gaps=gaps,
    )  # fmt: skip


def _are_settled(files: Sequence[MeasuredFile], spare: Sequence[MetricRef]) -> bool:
    """Return whether what decides about two files is measured: see `deciders.are_settled`."""
    baseline, candidate = files
    # A metric without a value in one of them decides nothing.
    side = _limit_plan(candidate.side, [*baseline.measured & candidate.measured])
    comparison = RunComparison(plan=side.plan, kpis=(), baseline=None)
    return comparison.are_settled(pair_items(baseline.side.items, side.items), spare)


def list_spared(pair: RunPair, spare: Sequence[MetricRef]) -> list[str]:
    """The columns of the metrics that could compare the answers of two files, and were not measured."""
    columns = [column_of(ref.key) for ref in spare]
    measured = {metric.column for metric in pair.candidate.plan.metrics}
    have_expected = all(
        any(short is not None for short in side.items.short)
        for side in (pair.baseline, pair.candidate)
    )
    return columns if have_expected and measured.isdisjoint(columns) else []


def _measured_run(file: MeasuredFile, metrics: OfflineMetrics) -> MeasuredRun:
    columns = select_columns(file, file.side.plan.columns)
    aggregates = file.with_run_values(columns.aggregates())
    kpis = _kpi_values(metrics, aggregates, file.gaps(aggregates))
    return MeasuredRun(file.side.plan, file.side.items, kpis)


def _kpi_values(
    metrics: OfflineMetrics,
    aggregates: Mapping[str, Aggregate],
    gaps: Mapping[str, MetricGap],
) -> list[KpiValue]:
    return evaluate_kpis(
        metrics.kpis,
        lambda key, name: aggregates[column_of(key)].statistic(name),
        measured_texts(metrics.refs, aggregates),
        {column: gap.describe() for column, gap in gaps.items()},
        lambda ref: aggregates[column_of(ref.key)].explain_missing(ref.stat),
    )


def _warn_of_unread(files: Sequence[MeasuredFile], refs: Sequence[MetricRef]) -> str | None:
    """The warning of the file in which a metric cannot read more of the expected texts, by metric."""
    specs = [spec for ref in refs if (spec := provider_for(ref).spec).readable]
    texts = [[file.measured_texts(spec) for file in files] for spec in specs]
    return warn_of_unread(max(of_files, key=lambda of: of.unread) for of_files in texts)


def _limit_plan(side: ComparisonSide, columns: Sequence[str]) -> ComparisonSide:
    """The side with some of its metrics."""
    metrics = tuple(metric for metric in side.plan.metrics if metric.column in columns)
    return replace(side, plan=side.plan.model_copy(update={"metrics": metrics}))
