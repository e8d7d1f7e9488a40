"""Compares two files of traces as two runs, without a server."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from app.comparison.flipped_items import item_means
from app.comparison.item_attributes import AttributeRow, attributes_of_rows
from app.comparison.item_matrix import ItemRow, matrix_of_rows
from app.comparison.pair_comparison import ComparisonSide, RunPair, compare, select_flip_metric
from app.comparison.schemas import ComparedRun, Comparison
from app.core.console.input_files import open_input
from app.core.errors import Invalid
from app.formula import compile_formula
from app.gate.rules import NothingToGate
from app.kpis.evaluate import PlannedKpi, evaluate_kpis
from app.metrics.engine import measure_all
from app.metrics.model_metrics import is_remote
from app.metrics.registry import (
    column_of,
    default_refs,
    names_of,
    plain_keys,
    provider_for,
    ref_of_column,
)
from app.metrics.run_value import is_run_metric
from app.metrics.types import Direction, MetricRef, MetricSkipped, Missing
from app.results.plan import PlannedMetric, RunPlan
from app.results.queries import ScoredTrace
from app.results.rules import Validity, assess_validity
from app.runs.metric_columns import MetricColumns
from app.traces.ndjson import iter_traces
from app.traces.types import Trace

_KEY_OF_NAME = re.compile(r"[^\[{]*")
# The defaults of a benchmark.
MIN_COVERAGE, MAX_ERROR_SHARE = 0.9, 0.05


class OfflineMetrics(NamedTuple):
    """The metrics and KPIs that are computed for both files.

    `columns` are the columns of metrics by the names that a user gave them. `requested` are the
    metrics, by column, and the KPIs, by name, that were named as such.
    """

    refs: tuple[MetricRef, ...]
    kpis: tuple[PlannedKpi, ...]
    columns: Mapping[str, str]
    requested: tuple[str, ...]


class _MeasuredFile(NamedTuple):
    """A file of traces with the values of all its metrics; `side` has no validity yet."""

    side: ComparisonSide
    rows: Sequence[ScoredTrace]

    def has_values(self, column: str) -> bool:
        return bool(item_means(self.side.items, column))

    def with_validity(self, columns: MetricColumns) -> ComparisonSide:
        """The side, valid or not by the columns that apply to the files."""
        validity = assess_validity(
            columns.tally(), min_coverage=MIN_COVERAGE, max_error_share=MAX_ERROR_SHARE
        )
        run = self.side.run.model_copy(update={"validity": validity.validity})
        reasons = validity.reasons if validity.validity is not Validity.VALID else ()
        return replace(self.side, run=run, invalid_reasons=reasons)


class _TraceSummary(NamedTuple):
    """A trace without its long texts, which need not be kept in memory."""

    attributes: AttributeRow
    trial: int


def select_metrics(
    metrics: str | None, kpis: Mapping[str, str], limited: Sequence[str] = ()
) -> OfflineMetrics:
    """The metrics of a comma-separated list, KPIs as formulas by name, and what `limited` names
    besides the KPIs; without any name all metrics with a better side.

    Raises: `NotFound` for an unknown metric, `Invalid` for one that calls a model or is a value of
            the whole run, `NothingToGate` for an empty list.
    """
    named = [] if metrics is None else _split_names(metrics)
    columns = {
        name: provider_for(ref).spec.key
        for name in (*named, *limited)
        if name not in kpis
        for ref in default_refs([_upper_key(name)])
    }
    known_names = names_of(default_refs(plain_keys()))
    formulas = [compile_formula(text, known_names) for text in kpis.values()]
    refs = [ref_of_column(column) for column in columns.values()]
    if not (refs or kpis):
        refs = _default_metrics()
    # Metrics that only a KPI reads are computed as well.
    kpi_refs = [ref_of_column(ref.key) for formula in formulas for ref in formula.references]
    all_refs = tuple(dict.fromkeys((*refs, *kpi_refs)))
    for ref in all_refs:
        if is_remote(ref) or is_run_metric(ref):
            raise Invalid(
                f"the metric {ref.key} cannot be computed from a file of traces; start runs of a"
                " benchmark with it, and name the run IDs"
            )
    return OfflineMetrics(
        all_refs,
        tuple(_plan_kpi(name, text) for name, text in kpis.items()),
        columns=columns,
        requested=(*(columns[name] for name in named if name in columns), *kpis),
    )


def _split_names(metrics: str) -> list[str]:
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    if not names:
        raise NothingToGate("--metrics is empty; leave it out to judge one primary metric")
    return names


def _upper_key(name: str) -> str:
    """The name with its key in upper case; the name of a score and a filter stay as they are."""
    key = _KEY_OF_NAME.match(name)
    return name if key is None else key[0].upper() + name[key.end() :]


def _default_metrics() -> list[MetricRef]:
    return [
        ref
        for ref in default_refs(plain_keys())
        if not (is_remote(ref) or is_run_metric(ref) or _has_no_direction(ref))
    ]


def compare_files(
    baseline: Path, candidate: Path, metrics: OfflineMetrics, judged: Sequence[str] = ()
) -> Comparison:
    """The comparison of a candidate file with a baseline file; `judged` names the KPIs and metrics
    that are judged together.

    Raises: `Invalid` with the number of the line that is not a trace.
    """
    files = [_measure_file(path, metrics) for path in (baseline, candidate)]
    named = {*judged, *_kpi_columns(metrics)}
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
    aggregates = columns[1].aggregates()
    kpis = evaluate_kpis(metrics.kpis, lambda key, name: aggregates[column_of(key)].statistic(name))
    pair = RunPair(baseline=before, candidate=after, kpis=kpis, judged=judged)
    return compare(replace(pair, metric=select_flip_metric(pair, None)))


def _measure_file(path: Path, metrics: OfflineMetrics) -> _MeasuredFile:
    traces = list[_TraceSummary]()
    with open_input(path) as lines:
        rows = list(measure_all(_summarize(iter_traces(lines), traces), metrics.refs))
    plan = _plan(path, metrics)
    scored = [
        ScoredTrace(
            outcome=trace.attributes.outcome,
            values=list(row.values),
            notes={key: _note(missing) for key, missing in row.missing.items()},
            item_id=trace.attributes.item_id,
        )
        for trace, row in zip(traces, rows, strict=True)
    ]
    # The order of `item_queries.read_items`, which the item matrix requires.
    order = sorted(
        range(len(traces)),
        key=lambda index: (traces[index].attributes.item_id, traces[index].trial),
    )
    attributes = [traces[index].attributes for index in order]
    items = (
        ItemRow(0, row.item_id, row.revision, [], list(rows[index].values))
        for index, row in zip(order, attributes, strict=True)
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
        items=matrix_of_rows(items, {0: plan.columns}, plan.columns),
        attributes=attributes_of_rows(attributes),
    )
    return _MeasuredFile(side, scored)


def _summarize(traces: Iterable[Trace], summaries: list[_TraceSummary]) -> Iterator[Trace]:
    """Passes the traces on to the metrics, and keeps a summary of each."""
    for trace in traces:
        tokens = (trace.input_tokens, trace.output_tokens)
        attributes = AttributeRow(
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
        summaries.append(_TraceSummary(attributes, trace.trial))
        yield trace


def _kpi_columns(metrics: OfflineMetrics) -> set[str]:
    """The metrics that the KPIs read."""
    return {
        column_of(ref.key)
        for kpi in metrics.kpis
        for ref in compile_formula(kpi.formula).references
    }


def _select_columns(file: _MeasuredFile, columns: Sequence[str]) -> MetricColumns:
    """The values of some metrics of a file."""
    selected = MetricColumns(columns, trials=True)
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


def _plan(path: Path, metrics: OfflineMetrics) -> RunPlan:
    return RunPlan(
        benchmark_id="local",
        benchmark_revision=1,
        agent_id="local",
        agent_revision=1,
        source="file",
        dataset_ref=None,
        run_name=path.name,
        metrics=tuple(
            PlannedMetric(
                key=ref.key,
                options=dict(ref.options),
                column=provider_for(ref).spec.key,
                version=provider_for(ref).spec.version,
            )
            for ref in metrics.refs
        ),
        kpis=metrics.kpis,
        min_coverage=MIN_COVERAGE,
        max_error_share=MAX_ERROR_SHARE,
    )


def _plan_kpi(name: str, formula: str) -> PlannedKpi:
    """A KPI whose lower values are better if that holds for all of its metrics."""
    references = compile_formula(formula).references
    is_lower_better = all(
        provider_for(ref_of_column(ref.key)).spec.direction is Direction.LOWER_IS_BETTER
        for ref in references
    )
    return PlannedKpi(
        id=name,
        revision=1,
        name=name,
        formula=formula,
        direction=Direction.LOWER_IS_BETTER if is_lower_better else Direction.HIGHER_IS_BETTER,
        unit=None,
        threshold_min=None,
        threshold_max=None,
    )


def _has_no_direction(ref: MetricRef) -> bool:
    return provider_for(ref).spec.direction is Direction.NEITHER


def _note(missing: Missing) -> dict[str, str]:
    if isinstance(missing, MetricSkipped):
        return {"skipped": missing.reason}
    return {"failed": missing.kind}


def _revision(trace: Trace) -> str:
    """The digest of an item's task, as `item_queries.REVISION` computes it."""
    task_tags = ",".join(sorted(tag for tag in trace.tags if tag.startswith("task:")))
    task = f"{trace.expected_output or ''}{task_tags}"
    return hashlib.md5(task.encode(), usedforsecurity=False).hexdigest()
