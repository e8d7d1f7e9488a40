"""Judges a file of results against another one, without a server: both are measured as the runs of a comparison."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mosaico.comparison.answer_text import describe_reading
from mosaico.comparison.comparison_verdicts import FILE_SOURCE
from mosaico.comparison.pair_comparison import ComparisonSide, RunPair, compare
from mosaico.comparison.schemas import ComparedRun
from mosaico.gating.earlier_runs import (
    EarlierRuns,
    MeasuredRun,
    describe_all_runs,
    measure_earlier,
    warn_of_few,
)
from mosaico.gating.offline_metrics import (
    OfflineMetrics,
    kpi_columns,
)
from mosaico.gating.rules import GateResult, GateTerms, decide, with_remarks
from mosaico.gating.trace_attributes import attributes_of
from mosaico.items.attributes import AttributeRow, attributes_of_rows
from mosaico.items.flipped import item_means
from mosaico.items.label_counts_builder import LabelCountsBuilder
from mosaico.items.matrix import (
    ItemMatrix,
    ItemRow,
    LabelCounts,
    answer_digest,
    is_short_text,
    matrix_of_rows,
)
from mosaico.kpis.evaluate import KpiValue, evaluate_kpis, warn_of_few_trials
from mosaico.metrics.aggregate import Aggregate, with_run_value
from mosaico.metrics.metric_gaps import MetricGap, find_gaps
from mosaico.metrics.registry import column_of, provider_for
from mosaico.metrics.run_value import StoredSummary, merge_with, run_value, summarize_with
from mosaico.metrics.types import (
    ERROR_RATE,
    CountedMetric,
    MetricFailed,
    MetricRef,
    TraceMeasurements,
    note_of,
)
from mosaico.metrics.unread_texts import measured_texts, warn_of_unread
from mosaico.run_store.plan import PlannedMetric, RunPlan
from mosaico.run_store.rules import Validity, assess_validity
from mosaico.run_store.scored_trace import ScoredTrace
from mosaico.runs.metric_columns import MetricColumns
from mosaico.statistics.verdict_rules import About
from mosaico.traces.files.result_sources import ResultSource
from mosaico.traces.files.trace_file import TraceReader
from mosaico.traces.types import Trace


class _MeasuredFile(NamedTuple):
    """A file of traces with the values of all its metrics; `side` has no validity yet.

    `run_values` are the values of metrics of the whole file, by column.
    """

    side: ComparisonSide
    rows: Sequence[ScoredTrace]
    run_values: Mapping[str, float | MetricFailed | None]

    def has_values(self, column: str) -> bool:
        return bool(item_means(self.side.items, column))

    def all_columns(self) -> MetricColumns:
        """The values of all metrics of the file."""
        return _select_columns(self, self.side.plan.columns)

    def with_run_values(self, aggregates: dict[str, Aggregate]) -> dict[str, Aggregate]:
        """The aggregates of the file, those of metrics of the whole file with their values."""
        return aggregates | {
            column: with_run_value(aggregates[column], value)
            for column, value in self.run_values.items()
            if column in aggregates
        }

    def gaps(self, aggregates: Mapping[str, Aggregate]) -> dict[str, MetricGap]:
        """The metrics with values of too few traces, by column."""
        has_trials = len(self.side.items.items) < len(self.rows)
        return find_gaps(
            self.side.plan.refs, aggregates, self.side.plan.min_coverage, has_trials=has_trials,
            is_file=True,
        )  # fmt: skip

    def with_validity(self, columns: MetricColumns) -> ComparisonSide:
        """The side, valid or not by the columns that apply to the files."""
        validity = assess_validity(
            columns.tally(),
            min_coverage=self.side.plan.min_coverage,
            max_error_share=self.side.plan.max_error_share,
        )
        run = self.side.run.model_copy(update={"validity": validity.validity})
        reasons = validity.reasons if validity.validity is not Validity.VALID else ()
        return replace(self.side, run=run, invalid_reasons=reasons)


class _MeasuredTrace(NamedTuple):
    """The values of a trace, without its long texts, which need not be kept in memory.

    `is_short`: its expected answer is as short as a label; None without one. `answer` is
    the digest of its output. `summaries` are those of metrics of the whole run, by column, where the trace has a value.
    """

    attributes: AttributeRow
    trial: int
    is_short: bool | None
    answer: int | None
    row: TraceMeasurements
    summaries: Mapping[str, StoredSummary]


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
    """The gate result of two files with these metrics. Imports numpy and scipy. `announce` gets a line that says what
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
    reader: TraceReader,
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
    files = [_measure_file(path, metrics, reader) for path in (baseline, candidate)]
    if warning := _warn_of_unread(files, metrics.refs):
        warn(warning)
    named = {*judged, *kpi_columns(metrics)}
    # A metric that applies to no trace of either file says nothing about them. One that applies to
    # one file only stays: the texts that it needs are missing in the other one.
    applicable = [
        column
        for column in files[0].side.plan.columns
        if column in named or any(file.has_values(column) for file in files)
    ]
    columns = [_select_columns(file, applicable) for file in files]
    compared = [
        column
        for column in applicable
        if column in named or all(file.has_values(column) for file in files)
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
        before_it = (_measure_file(path, metrics, reader) for path in earlier)
        history = measure_earlier([_measured_run(file, metrics) for file in (*before_it, *files)])
        if few := warn_of_few(history, len(earlier)):
            warn(few)
    return RunPair(
        baseline=before, candidate=after, kpis=kpis, judged=judged, about=about,
        measured_runs=history.measured, run_sd=run_sd, over_runs=history.scans, gaps=gaps,
    )  # fmt: skip


def _measured_run(file: _MeasuredFile, metrics: OfflineMetrics) -> MeasuredRun:
    aggregates = file.with_run_values(file.all_columns().aggregates())
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


def _warn_of_unread(files: Sequence[_MeasuredFile], refs: Sequence[MetricRef]) -> str | None:
    """The warning of the file in which a metric cannot read more of the expected texts, by metric."""
    texts = (file.all_columns().measured_texts(refs) for file in files)
    return warn_of_unread(max(pair, key=lambda of: of.unread) for pair in zip(*texts, strict=True))


def _measure_file(
    path: ResultSource, metrics: OfflineMetrics, reader: TraceReader
) -> _MeasuredFile:
    plan = _plan(path, metrics)
    counted = {
        metric.column: provider
        for metric in plan.metrics
        if isinstance(provider := provider_for(metric.ref), CountedMetric)
    }
    with reader.open(path) as source:
        traces = list(_measure_traces(source, metrics, counted))
    scored = [
        ScoredTrace(
            values=list(trace.row.values),
            notes={key: note_of(missing) for key, missing in trace.row.missing.items()},
            is_lost=trace.attributes.outcome.is_missing,
            item_id=trace.attributes.item_id,
        )
        for trace in traces
    ]
    # The order of `items.queries.read_items`, which the item matrix requires.
    ordered = sorted(traces, key=lambda trace: (trace.attributes.item_id, trace.trial))
    items = (
        ItemRow(
            run_seq=0,
            item_id=trace.attributes.item_id,
            revision=trace.attributes.revision,
            tags=[*trace.attributes.tags],
            values=list(trace.row.values),
            is_short=trace.is_short,
            answer=trace.answer,
        )
        for trace in ordered
    )
    matrix = matrix_of_rows(
        items, {0: plan.columns}, plan.columns, cluster_field=plan.cluster_field
    )
    side = ComparisonSide(
        run=ComparedRun(
            id=str(path),
            benchmark_id=plan.benchmark_id,
            agent_id=plan.agent_id,
            run_name=path.name,
            created_at=None,
            validity=None,
            traces=len(traces),
        ),
        plan=plan,
        items=replace(matrix, counts=_label_counts(matrix, ordered, counted)),
        attributes=attributes_of_rows(
            [trace.attributes for trace in ordered], cluster_field=plan.cluster_field
        ),
    )
    return _MeasuredFile(side, scored, dict(_run_values(traces, counted)))


def _measure_traces(
    traces: Iterable[Trace], metrics: OfflineMetrics, counted: Mapping[str, CountedMetric]
) -> Iterator[_MeasuredTrace]:
    """The measured traces; only those that are being measured are kept in memory."""
    waiting = deque[Trace]()

    def remembered() -> Iterator[Trace]:
        for trace in traces:
            waiting.append(trace)
            yield trace

    for row in metrics.models.measure_all(remembered(), metrics.refs):
        trace = waiting.popleft()
        summaries = {
            column: summarize_with(provider, [1.0], [trace])
            for column, provider in counted.items()
            if column not in row.missing
        }
        yield _MeasuredTrace(
            attributes=attributes_of(trace),
            trial=trace.trial,
            is_short=is_short_text(trace.expected_output),
            answer=answer_digest(trace.output, trace.tool_calls),
            row=row,
            summaries=summaries,
        )


def _label_counts(
    matrix: ItemMatrix, traces: Sequence[_MeasuredTrace], columns: Iterable[str]
) -> dict[str, LabelCounts]:
    """The label counts of metrics of the whole run; a metric that failed for a trace has none."""
    counts = dict[str, LabelCounts]()
    for column in columns:
        counted = [trace for trace in traces if column in trace.summaries]
        builder = LabelCountsBuilder(matrix)
        is_added = builder.add(
            [trace.attributes.item_id for trace in counted],
            [trace.summaries[column].get("summary") for trace in counted],
        )
        if is_added and all("summary" in trace.summaries[column] for trace in counted):
            counts[column] = builder.counts
    return counts


def _run_values(
    traces: Sequence[_MeasuredTrace], counted: Mapping[str, CountedMetric]
) -> Iterator[tuple[str, float | MetricFailed | None]]:
    """The values of the whole file by column, of metrics with a value of any trace."""
    for column, provider in counted.items():
        notes = [trace.summaries[column] for trace in traces if column in trace.summaries]
        if notes:
            yield column, run_value(provider, merge_with(provider, notes))


def _select_columns(file: _MeasuredFile, columns: Sequence[str]) -> MetricColumns:
    """The values of some metrics of a file."""
    selected = MetricColumns(columns, trials=True, added=file.side.plan.added_columns)
    indexes = [file.side.plan.columns.index(column) for column in columns]
    # In one call: it counts column by column.
    selected.extend(
        [
            row._replace(
                values=[row.values[index] for index in indexes],
                notes={key: note for key, note in (row.notes or {}).items() if key in columns},
            )
            for row in file.rows
        ]
    )
    return selected


def _limit_plan(side: ComparisonSide, columns: Sequence[str]) -> ComparisonSide:
    """The side with some of its metrics."""
    metrics = tuple(metric for metric in side.plan.metrics if metric.column in columns)
    return replace(side, plan=side.plan.model_copy(update={"metrics": metrics}))


def _plan(path: ResultSource, metrics: OfflineMetrics) -> RunPlan:
    return RunPlan(
        benchmark_id="local",
        benchmark_revision=1,
        agent_id="local",
        agent_revision=1,
        source=FILE_SOURCE,
        dataset_ref=None,
        run_name=path.name,
        metrics=tuple(
            PlannedMetric(
                key=ref.key,
                options=dict(ref.options),
                column=provider_for(ref).spec.key,
                version=provider_for(ref).spec.version,
                is_added=ref.key == ERROR_RATE and metrics.has_guard,
            )
            for ref in metrics.refs
        ),
        kpis=metrics.kpis,
        min_coverage=metrics.benchmark.min_coverage,
        max_error_share=metrics.benchmark.max_error_share,
        cluster_field=metrics.benchmark.cluster_field,
    )
