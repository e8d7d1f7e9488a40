"""A file of results, measured as a run of a comparison; without a server."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple, Protocol

from mosaico.comparison.comparison_verdicts import FILE_SOURCE
from mosaico.comparison.pair_comparison import ComparisonSide
from mosaico.comparison.schemas import ComparedRun
from mosaico.gating.offline_metrics import (
    OfflineMetrics,
)
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
from mosaico.metrics.aggregate import Aggregate, with_run_value
from mosaico.metrics.metric_gaps import MetricGap, find_gaps
from mosaico.metrics.registry import provider_for
from mosaico.metrics.run_value import StoredSummary, merge_with, run_value, summarize_with
from mosaico.metrics.types import (
    ERROR_RATE,
    CountedMetric,
    MetricFailed,
    MetricSkipped,
    MetricSkipReason,
    MetricSpec,
    TraceMeasurements,
    note_of,
)
from mosaico.metrics.unread_texts import MeasuredTexts
from mosaico.run_store.plan import PlannedMetric, RunPlan
from mosaico.run_store.rules import Validity, assess_validity
from mosaico.run_store.scored_trace import ScoredTrace
from mosaico.runs.metric_columns import MetricColumns
from mosaico.traces.files.result_sources import ResultSource
from mosaico.traces.types import Trace


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


class MeasuredFile(NamedTuple):
    """A file of traces with the values of all its metrics; `side` has no validity yet.

    `run_values` are the values of metrics of the whole file, by column. `measured` are the columns with any value.
    """

    side: ComparisonSide
    traces: Sequence[_MeasuredTrace]
    run_values: Mapping[str, float | MetricFailed | None]
    measured: frozenset[str]

    def with_run_values(self, aggregates: dict[str, Aggregate]) -> dict[str, Aggregate]:
        """The aggregates of the file, those of metrics of the whole file with their values."""
        return aggregates | {
            column: with_run_value(aggregates[column], value)
            for column, value in self.run_values.items()
            if column in aggregates
        }

    def gaps(self, aggregates: Mapping[str, Aggregate]) -> dict[str, MetricGap]:
        """The metrics with values of too few traces, by column."""
        has_trials = len(self.side.items.items) < len(self.traces)
        return find_gaps(
            self.side.plan.refs, aggregates, self.side.plan.min_coverage, has_trials=has_trials,
            is_file=True,
        )  # fmt: skip

    def measured_texts(self, spec: MetricSpec) -> MeasuredTexts:
        """The expected texts that a metric reads, of the traces that its filter selects."""
        reasons = Counter(trace.row.missing.get(spec.key) for trace in self.traces)
        traces = len(self.traces) - reasons[MetricSkipped(MetricSkipReason.NOT_SELECTED)]
        return MeasuredTexts(spec, traces, reasons[MetricSkipped(MetricSkipReason.NOT_APPLICABLE)])

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


class TraceOpener(Protocol):
    """Opens files of results: a `TraceReader`, or what looks at the traces as well."""

    def open(self, path: ResultSource) -> AbstractContextManager[Iterator[Trace]]: ...


def measure_file(path: ResultSource, metrics: OfflineMetrics, reader: TraceOpener) -> MeasuredFile:
    plan = _plan(path, metrics)
    counted = {
        metric.column: provider
        for metric in plan.metrics
        if isinstance(provider := provider_for(metric.ref), CountedMetric)
    }
    with reader.open(path) as source:
        traces = list(_measure_traces(source, metrics, counted))
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
    values = zip(*(trace.row.values for trace in traces), strict=True)
    measured = frozenset(
        column
        for column, of_column in zip(plan.columns, values, strict=False)
        # Most columns without a value have none at all: no items are looked at.
        if any(value is not None for value in of_column) and item_means(matrix, column)
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
    return MeasuredFile(side, traces, dict(_run_values(traces, counted)), measured)


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


def select_columns(file: MeasuredFile, columns: Sequence[str]) -> MetricColumns:
    """The values of some metrics of a file."""
    selected = MetricColumns(columns, trials=True, added=file.side.plan.added_columns)
    indexes = [file.side.plan.columns.index(column) for column in columns]
    # In one call: it counts column by column.
    selected.extend([_score(trace, indexes, {*columns}) for trace in file.traces])
    return selected


def _score(trace: _MeasuredTrace, indexes: Sequence[int], columns: Collection[str]) -> ScoredTrace:
    """The values of some metrics of a trace."""
    missing = trace.row.missing
    return ScoredTrace(
        values=[trace.row.values[index] for index in indexes],
        notes={key: note_of(reason) for key, reason in missing.items() if key in columns},
        is_lost=trace.attributes.outcome.is_missing,
        item_id=trace.attributes.item_id,
    )


def _plan(path: ResultSource, metrics: OfflineMetrics) -> RunPlan:
    # Not validated: the values are typed here, and the schema of a plan takes long to build.
    return RunPlan.model_construct(
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
