"""Computes the metrics and a KPI of a file of results, without a server."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple

from mosaico.formula import CompiledFormula, FormulaValue, compile_formula
from mosaico.metrics.aggregate import Aggregate, aggregate_measured, missing_counts, with_run_value
from mosaico.metrics.metric_names import parse_metrics
from mosaico.metrics.model_metrics import is_remote
from mosaico.metrics.offline_models import OfflineModels
from mosaico.metrics.registry import (
    column_of,
    default_keys,
    default_refs,
    names_of,
    provider_for,
    providers_for,
    ref_of_column,
    score_ref,
)
from mosaico.metrics.run_value import StoredSummary, merge_with, run_value, summarize_with
from mosaico.metrics.types import MetricRef, RunMetric, TraceMeasurements
from mosaico.metrics.unread_texts import (
    MeasuredTexts,
    explain_value,
    measured_texts,
    warn_of_unread,
)
from mosaico.traces.files.result_sources import STDIN, ResultSource
from mosaico.traces.files.trace_file import TraceReader
from mosaico.traces.types import Trace

SUMMARIZED_TRACES = 1_000


class FileScores(NamedTuple):
    """The scores of a file: rows in file order, one aggregate per metric, and the KPI if requested. `warning` names
    metrics that cannot read many of the expected texts. `kpis` are those of a benchmark, by name.
    """

    rows: Sequence[TraceMeasurements]
    aggregates: Mapping[str, Aggregate]
    formula: CompiledFormula | None
    kpi: FormulaValue | None
    warning: str | None = None
    kpis: Mapping[str, FormulaValue] = MappingProxyType({})


def score_file(
    source: ResultSource,
    metrics: str | None,
    formula: str | None,
    reader: TraceReader,
    models: OfflineModels | None,
    kpis: Mapping[str, str] = MappingProxyType({}),
) -> FileScores:
    """The metrics of a list (`parse_metrics`), by default all that have a value and call no model,
    with the scores in the file, and the KPI. `kpis` are formulas by name.

    The registry of metrics must be loaded. Without any result there are no rows.
    Raises: the errors of `reader`, `NotFound` for an unknown metric, `Invalid` for a wrong option or
            formula; for metrics that call a model also those of `OfflineModels`.
    """
    models = models or OfflineModels()
    refs = _select_metrics(metrics)
    if metrics is None and source != STDIN:  # which cannot be read twice
        for ref in map(score_ref, reader.score_names(source)):
            refs[provider_for(ref).spec.key] = ref
    names = names_of(refs.values())
    compiled = None if formula is None else compile_formula(formula, names)
    compiled_kpis = {name: compile_formula(text, names) for name, text in kpis.items()}
    for each in (*compiled_kpis.values(), *([compiled] if compiled else ())):
        for reference in each.references:
            # Scores in the traces that only a formula reads.
            refs.setdefault(column_of(reference.key), ref_of_column(reference.key))
    selected = models.with_models(refs.values())
    collector = _TraceCollector(selected)
    with reader.open(source) as traces:
        rows = list(collector.collect_rows(models.measure_all(collector.collect(traces), selected)))
    aggregates = collector.aggregate(rows)
    texts = measured_texts(selected, aggregates)
    kpi = _evaluate(compiled, aggregates, texts) if compiled else None
    values = {name: _evaluate(each, aggregates, texts) for name, each in compiled_kpis.items()}
    scores = FileScores(rows, aggregates, compiled, kpi, warn_of_unread(texts), values)
    return scores if metrics else _drop_empty(scores)


def _drop_empty(scores: FileScores) -> FileScores:
    """The scores without the default metrics that have no value on any trace."""
    has_values = [aggregate.n > 0 for aggregate in scores.aggregates.values()]
    return scores._replace(
        rows=[row._replace(values=tuple(compress(row.values, has_values))) for row in scores.rows],
        aggregates=dict(compress(scores.aggregates.items(), has_values)),
    )


def _select_metrics(metrics: str | None) -> dict[str, MetricRef]:
    """The metrics by column."""
    if metrics is None:
        refs = tuple(ref for ref in default_refs(default_keys()) if not is_remote(ref))
    else:
        refs = tuple(parse_metrics(metrics).values())
    return {provider_for(ref).spec.key: ref for ref in refs}


class _TraceCollector:
    """Collects what aggregation needs: item IDs, and summaries for metrics of the whole run.

    Traces are kept until 1,000 of them are summarized, so that a large file needs little memory.
    """

    def __init__(self, refs: tuple[MetricRef, ...]) -> None:
        self._providers = providers_for(refs)
        self._run_providers = [
            (index, provider)
            for index, provider in enumerate(self._providers)
            if isinstance(provider, RunMetric)
        ]
        self._traces: list[Trace] = []
        self._rows: list[TraceMeasurements] = []
        self._items: list[str] = []
        self._summaries: dict[int, StoredSummary] = {}

    def collect(self, traces: Iterable[Trace]) -> Iterator[Trace]:
        for trace in traces:
            self._items.append(trace.item_id)
            if self._run_providers:
                self._traces.append(trace)
            yield trace

    def collect_rows(self, rows: Iterable[TraceMeasurements]) -> Iterator[TraceMeasurements]:
        """The rows of the collected traces, in their order."""
        for row in rows:
            if self._run_providers:
                self._rows.append(row)
                if len(self._rows) == SUMMARIZED_TRACES:
                    self._summarize()
            yield row

    def aggregate(self, rows: Sequence[TraceMeasurements]) -> dict[str, Aggregate]:
        self._summarize()
        aggregates = [
            aggregate_measured(
                [row.values[index] for row in rows],
                missing=missing_counts(rows, provider.spec.key),
                items=self._items,
            )
            for index, provider in enumerate(self._providers)
        ]
        for index, provider in self._run_providers:
            if aggregates[index].n:
                value = run_value(provider, self._summaries[index])
                aggregates[index] = with_run_value(aggregates[index], value)
        return dict(
            zip((provider.spec.key for provider in self._providers), aggregates, strict=True)
        )

    def _summarize(self) -> None:
        """Replace the kept traces by their summaries."""
        if not self._rows:
            return
        # The engine reads traces ahead of its rows.
        traces, self._traces = self._traces[: len(self._rows)], self._traces[len(self._rows) :]
        for index, provider in self._run_providers:
            column = [row.values[index] for row in self._rows]
            notes = [summarize_with(provider, column, traces)]
            if index in self._summaries:
                notes.insert(0, self._summaries[index])
            self._summaries[index] = merge_with(provider, notes)
        self._rows = []


def _evaluate(
    formula: CompiledFormula,
    aggregates: Mapping[str, Aggregate],
    texts: Sequence[MeasuredTexts],
) -> FormulaValue:
    values = {
        reference: aggregates[column_of(reference.key)].statistic(reference.stat)
        for reference in formula.references
    }
    result = formula.evaluate(values)
    reason = explain_value(
        result, values, texts, lambda ref: aggregates[column_of(ref.key)].explain_missing(ref.stat)
    )
    return result._replace(reason=reason)
