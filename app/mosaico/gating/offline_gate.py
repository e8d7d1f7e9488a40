"""Judges a file of results against another one, without a server: both are measured as the runs of a comparison."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from mosaico.comparison.answer_text import describe_reading
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.comparison_verdicts import FILE_SOURCE
from mosaico.comparison.deciders import ExpectedAnswers, may_decide
from mosaico.comparison.pair_comparison import ComparisonSide, RunPair, compare
from mosaico.comparison.schemas import ComparedRun
from mosaico.comparison.value_failures import ValueFailures
from mosaico.comparison.whole_run_text import describe_over_runs
from mosaico.core.defaults import MAX_ERROR_SHARE, MIN_COVERAGE
from mosaico.gating.offline_metrics import (
    OfflineMetrics,
    ScoreOptions,
    add_scores,
    judge_kpis,
    kpi_columns,
    select_metrics,
    with_guard,
    with_score_options,
)
from mosaico.gating.rules import GateResult, GateTerms, decide, with_remarks
from mosaico.items.attributes import AttributeRow, attributes_of_rows
from mosaico.items.flipped import item_means
from mosaico.items.label_counts import LabelCountsBuilder
from mosaico.items.matrix import (
    ItemMatrix,
    ItemRow,
    LabelCounts,
    answer_digest,
    is_short_text,
    matrix_of_rows,
)
from mosaico.kpis.evaluate import KpiValue, evaluate_kpis
from mosaico.metrics.aggregate import Aggregate, with_run_value
from mosaico.metrics.formula_direction import KpiFormulaText
from mosaico.metrics.metric_gaps import MetricGap, find_gaps
from mosaico.metrics.offline_models import OfflineModels
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
from mosaico.run_store.queries import ScoredTrace
from mosaico.run_store.rules import Validity, assess_validity
from mosaico.run_store.run_series import kpi_series, metric_series
from mosaico.runs.metric_columns import MetricColumns
from mosaico.statistics.sequential import MAX_REFERENCE, Scan
from mosaico.statistics.verdict_rules import About, Side
from mosaico.statistics.whole_runs import MeasuredRuns
from mosaico.traces.files.result_sources import ResultSource
from mosaico.traces.files.trace_file import TraceReader
from mosaico.traces.types import Trace


@dataclass(frozen=True)
class FileInputs:
    """The two files, and what the user said of their scores."""

    sources: tuple[ResultSource, ResultSource]
    reader: TraceReader
    scores: ScoreOptions = field(default_factory=ScoreOptions)

    @cached_property
    def names_by_file(self) -> list[list[str]]:
        """The names of the scores in the first traces of each file."""
        return [self.reader.score_names(source) for source in self.sources]

    def stated_directions(self) -> dict[str, str]:
        """The better direction of the scores that the files state one of, by name."""
        _ = self.names_by_file
        return self.reader.directions

    def expected_answers(self) -> ExpectedAnswers:
        """The expected answers of both files, without the pairing of their items."""
        items = short = 0
        texts = set[int]()
        for source in self.sources:
            with self.reader.open(source) as traces:
                for trace in traces:
                    is_short = is_short_text(trace.expected_output)
                    if is_short is None:
                        continue
                    items += 1
                    short += is_short
                    # Hashes, because the answers may be long.
                    texts.add(hash(trace.expected_output))
        return ExpectedAnswers(items=items, short=short, distinct=len(self.sources) * len(texts))

    def score_names(self) -> list[str]:
        """The names of the scores in the first traces of both files."""
        return list(dict.fromkeys(chain.from_iterable(self.names_by_file)))


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
            self.side.plan.refs, aggregates, MIN_COVERAGE, has_trials=has_trials, is_file=True
        )

    def with_validity(self, columns: MetricColumns) -> ComparisonSide:
        """The side, valid or not by the columns that apply to the files."""
        validity = assess_validity(
            columns.tally(), min_coverage=MIN_COVERAGE, max_error_share=MAX_ERROR_SHARE
        )
        run = self.side.run.model_copy(update={"validity": validity.validity})
        reasons = validity.reasons if validity.validity is not Validity.VALID else ()
        return replace(self.side, run=run, invalid_reasons=reasons)


class EarlierRuns(NamedTuple):
    """How much whole runs vary, and the evidence of all runs together, by series."""

    measured: Mapping[str, MeasuredRuns] = MappingProxyType({})
    scans: Mapping[str, Scan] = MappingProxyType({})


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


def select_gated(
    metrics: str | None,
    kpis: Mapping[str, KpiFormulaText],
    terms: GateTerms,
    files: FileInputs,
    models: OfflineModels | None = None,
) -> OfflineMetrics:
    """The metrics and KPIs that the terms and the user name, by default those that may decide.

    Raises as `select_metrics` and `with_score_options`, and the errors of the reader.
    """
    limited = [*terms.max_drop, *terms.non_inferiority_margins]
    selected = select_metrics(metrics, kpis, limited=limited, models=models)
    if metrics is not None or kpis or limited:
        return with_guard(_with_directions(selected, files, kpis))
    selected = _with_directions(add_scores(selected, files.score_names()), files, kpis)
    return selected._replace(
        refs=tuple(may_decide(selected.refs, files.names_by_file, files.expected_answers))
    )


def _with_directions(
    selected: OfflineMetrics, files: FileInputs, kpis: Mapping[str, KpiFormulaText]
) -> OfflineMetrics:
    # Without a score no file is read for the directions.
    has_scores = any(ref.key.startswith("SCORE") for ref in selected.refs)
    stated = files.stated_directions() if has_scores else {}
    return with_score_options(selected, files.scores, kpis, stated)


def select_all(
    metrics: str | None,
    files: FileInputs,
    models: OfflineModels | None = None,
    kpis: Mapping[str, KpiFormulaText] = MappingProxyType({}),
) -> OfflineMetrics:
    """The metrics and KPIs that the user names, by default all metrics that files allow, with the scores in the
    files. KPIs decide.

    The registry of metrics must be loaded. Raises as `select_gated`.
    """
    selected = select_metrics(metrics, kpis, models=models)
    if metrics is None and not kpis:
        selected = add_scores(selected, files.score_names())
    selected = with_guard(_with_directions(selected, files, kpis))
    return judge_kpis(selected) if kpis else selected


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
    over_runs = _over_runs(result, pair, len(earlier) + 2)
    result = replace(result, remarks=[*result.remarks, *over_runs])
    announce(describe_reading(comparison, selected.refs, reader.columns))
    return result


def _over_runs(result: GateResult, pair: RunPair, runs: int) -> list[str]:
    """What all runs together say of the checked metrics and KPIs, in sentences."""
    kpis = {value.kpi.name: kpi_series(value.kpi.id) for value in pair.kpis}
    sentences = []
    for check in result.checks:
        scan = pair.over_runs.get(kpis.get(check.name, metric_series(check.name)))
        if scan is not None and check.verdict is not None:
            side = check.verdict.side or Side.BOTH
            sentences.append(describe_over_runs(check.name, scan, side, runs))
    return [sentence for sentence in dict.fromkeys(sentences) if sentence]


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
    history = EarlierRuns()
    if earlier:
        before_it = [_measure_file(path, metrics, reader) for path in earlier]
        history = _measure_earlier([*before_it, *files], metrics)
        used = max((runs.runs for runs in history.measured.values()), default=0)
        if used <= min(len(earlier), MAX_REFERENCE - 1):
            warn(_warn_of_earlier(len(earlier), used))
    return RunPair(
        baseline=before, candidate=after, kpis=kpis, judged=judged, about=about,
        measured_runs=history.measured, run_sd=run_sd, over_runs=history.scans, gaps=gaps,
    )  # fmt: skip


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
    )


def _measure_earlier(files: Sequence[_MeasuredFile], metrics: OfflineMetrics) -> EarlierRuns:
    """What files tell as the stored runs of a series do; the candidate, which is the last one, does not tell how unchanged
    runs vary.
    """
    # Imports numpy, as the comparison does.
    from mosaico.comparison.series_levels import measure_series, points_of_run, scan_series

    runs = []
    for file in files:
        aggregates = file.with_run_values(file.all_columns().aggregates())
        kpis = _kpi_values(metrics, aggregates, file.gaps(aggregates))
        comparison = RunComparison(plan=file.side.plan, kpis=kpis, baseline=None)
        values = {kpi.kpi.id: kpi.value for kpi in kpis if kpi.value is not None}
        # A value without a level has no variation either: it is assumed, as without history.
        runs.append(points_of_run(comparison.spec(file.side.items, None), values, ValueFailures()))
    return EarlierRuns(measure_series(runs[:-1]), scan_series(runs))


def _warn_of_earlier(given: int, used: int) -> str:
    return (
        f"{used} of the {given + 1} runs (baseline and earlier ones) tell how much whole runs vary: the others share too few"
        " items with the baseline, or have no value; give results of the same items"
    )


def _warn_of_unread(files: Sequence[_MeasuredFile], refs: Sequence[MetricRef]) -> str | None:
    """The warning of the file in which a metric cannot read more of the expected texts, by metric."""
    texts = (measured_texts(refs, file.all_columns().aggregates()) for file in files)
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
            tags=[],
            values=list(trace.row.values),
            is_short=trace.is_short,
            answer=trace.answer,
        )
        for trace in ordered
    )
    matrix = matrix_of_rows(items, {0: plan.columns}, plan.columns)
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
        attributes=attributes_of_rows([trace.attributes for trace in ordered]),
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
            attributes=_attributes(trace),
            trial=trace.trial,
            is_short=is_short_text(trace.expected_output),
            answer=answer_digest(trace.output, trace.tool_calls),
            row=row,
            summaries=summaries,
        )


def _attributes(trace: Trace) -> AttributeRow:
    tokens = (trace.input_tokens, trace.output_tokens)
    return AttributeRow(
        item_id=trace.item_id,
        revision=_revision(trace),
        tags=trace.all_tags,
        outcome=trace.outcome,
        tools=[call.name for call in trace.tool_calls or ()],
        usage=(
            trace.latency_ms,
            None if None in tokens else float(sum(filter(None, tokens))),
            trace.cost_usd,
        ),
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
    for row in file.rows:
        notes = {key: note for key, note in (row.notes or {}).items() if key in columns}
        values = [row.values[index] for index in indexes]
        selected.add(row._replace(values=values, notes=notes))
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
        min_coverage=MIN_COVERAGE,
        max_error_share=MAX_ERROR_SHARE,
    )


def _revision(trace: Trace) -> str:
    """The digest of an item's task, as `items.queries.REVISION` computes it."""
    task_tags = ",".join(sorted(tag for tag in trace.tags if tag.startswith("task:")))
    references = "\n".join((*trace.expected_any, *trace.expected_all))
    task = f"{trace.expected_output or ''}{references}{task_tags}"
    return hashlib.md5(task.encode(), usedforsecurity=False).hexdigest()
