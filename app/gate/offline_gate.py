"""Two files of traces as two runs, measured here: a gate without any server."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from app.comparison.flipped_items import item_means
from app.comparison.item_attributes import AttributeRow, attributes_of_rows
from app.comparison.item_matrix import ItemRow, matrix_of_rows
from app.comparison.run_pair import ComparisonSide, RunPair, compare, select_flip_metric
from app.comparison.schemas import ComparedRun, Comparison
from app.core.console.input_files import open_input
from app.core.errors import Invalid
from app.formula import compile_formula
from app.kpis.evaluate import PlannedKpi, evaluate_kpis
from app.metrics.engine import measure_all
from app.metrics.registry import (
    column_of,
    default_refs,
    names_of,
    plain_keys,
    provider_for,
    ref_of_column,
)
from app.metrics.remote import is_remote
from app.metrics.run_value import is_run_metric
from app.metrics.types import Direction, MetricRef, MetricSkipped, Missing
from app.results.plan import PlannedMetric, RunPlan
from app.results.queries import ScoredTrace
from app.results.rules import Validity, assess_validity
from app.runs.metric_columns import MetricColumns
from app.traces.ndjson import iter_traces
from app.traces.types import Trace

# What a benchmark asks for unless it says something else.
MIN_COVERAGE, MAX_ERROR_SHARE = 0.9, 0.05


class Measures(NamedTuple):
    """What is measured of both files."""

    refs: tuple[MetricRef, ...]
    kpis: tuple[PlannedKpi, ...]


class _File(NamedTuple):
    """A file after measuring."""

    side: ComparisonSide
    columns: MetricColumns


class _Light(NamedTuple):
    """A trace without its long texts."""

    traits: AttributeRow
    trial: int
    trace_id: str


def measures_of(metrics: str | None, kpis: Mapping[str, str]) -> Measures:
    """The metrics of a comma-separated list (all, when it is None) and KPIs by name.

    Raises: `Invalid` for a metric that asks a model, or is a value of the whole file.
    """
    if metrics is None:
        chosen = [
            ref
            for ref in default_refs(plain_keys())
            if not (is_remote(ref) or is_run_metric(ref) or _is_neither(ref))
        ]
    else:
        names = [name.strip().upper() for name in metrics.split(",")]
        chosen = list(default_refs(dict.fromkeys(name for name in names if name)))
    formulas = {name: compile_formula(text, names_of(tuple(chosen))) for name, text in kpis.items()}
    read = [ref_of_column(each.key) for one in formulas.values() for each in one.references]
    refs = tuple(dict.fromkeys((*chosen, *read)))
    for ref in refs:
        if is_remote(ref) or is_run_metric(ref):
            raise Invalid(
                f"{ref.key} is not made of the items of a file alone; start runs of a benchmark"
                " with it, and name their ids"
            )
    return Measures(refs, tuple(_planned(name, text) for name, text in kpis.items()))


def compare_files(base: Path, candidate: Path, measures: Measures) -> Comparison:
    """The candidate's file beside the base's. Raises: `Invalid` with the line that is no trace."""
    before, after = _file(base, measures), _file(candidate, measures)
    kept = _measured(before.side, after.side)
    sides = [_with_plan(each.side, kept) for each in (before, after)]
    aggregates = after.columns.aggregates()
    values = evaluate_kpis(
        measures.kpis, lambda key, name: aggregates[column_of(key)].statistic(name)
    )
    pair = RunPair(baseline=sides[0], candidate=sides[1], kpis=values)
    return compare(replace(pair, metric=select_flip_metric(pair, None)))


def _file(path: Path, measures: Measures) -> _File:
    light = list[_Light]()
    with open_input(path) as lines:
        rows = list(measure_all(_noted(iter_traces(lines), light), measures.refs))
    plan = _plan(path, measures)
    columns = MetricColumns(plan.columns, trials=True)
    for trace, row in zip(light, rows, strict=True):
        columns.add(
            ScoredTrace(
                outcome=trace.traits.outcome,
                values=list(row.values),
                notes={key: _note(why) for key, why in row.missing.items()},
                item_id=trace.traits.item_id,
            )
        )
    order = sorted(range(len(light)), key=lambda at: (light[at].traits.item_id, light[at].trial))
    items = (
        ItemRow(0, light[at].traits.item_id, light[at].traits.revision, [], list(rows[at].values))
        for at in order
    )
    found = assess_validity(
        columns.tally(), min_coverage=MIN_COVERAGE, max_error_share=MAX_ERROR_SHARE
    )
    side = ComparisonSide(
        run=ComparedRun(
            id=str(path),
            benchmark_id=plan.benchmark_id,
            agent_id=plan.agent_id,
            run_name=path.name,
            created_at=None,
            validity=found.validity,
            traces=len(light),
        ),
        plan=plan,
        items=matrix_of_rows(items, {0: plan.columns}, plan.columns),
        attributes=attributes_of_rows(light[at].traits for at in order),
        invalid_reasons=found.reasons if found.validity is not Validity.VALID else (),
    )
    return _File(side, columns)


def _noted(traces: Iterable[Trace], light: list[_Light]) -> Iterator[Trace]:
    for trace in traces:
        tokens = (trace.input_tokens, trace.output_tokens)
        light.append(
            _Light(
                AttributeRow(
                    item_id=trace.item_id,
                    revision=_revision(trace),
                    tags=trace.tags,
                    outcome=trace.outcome,
                    tools=[call.name for call in trace.tool_calls or ()],
                    usage=(
                        trace.latency_ms,
                        None if None in tokens else float(sum(filter(None, tokens))),
                        trace.cost_usd,
                    ),
                ),
                trace.trial,
                trace.trace_id,
            )
        )
        yield trace


def _measured(*sides: ComparisonSide) -> list[str]:
    """The metrics that both files have values of; the KPIs' are told as missing else."""
    return [
        column
        for column in sides[0].plan.columns
        if all(item_means(side.items, column) for side in sides)
    ]


def _with_plan(side: ComparisonSide, columns: Sequence[str]) -> ComparisonSide:
    read = {
        column_of(each.key)
        for kpi in side.plan.kpis
        for each in compile_formula(kpi.formula).references
    }
    kept = tuple(one for one in side.plan.metrics if one.column in {*columns, *read})
    return replace(side, plan=side.plan.model_copy(update={"metrics": kept}))


def _plan(path: Path, measures: Measures) -> RunPlan:
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
            for ref in measures.refs
        ),
        kpis=measures.kpis,
        min_coverage=MIN_COVERAGE,
        max_error_share=MAX_ERROR_SHARE,
    )


def _planned(name: str, text: str) -> PlannedKpi:
    """A KPI is better where its metrics are: lower, when all of them are."""
    specs = [
        provider_for(ref_of_column(each.key)).spec for each in compile_formula(text).references
    ]
    lower = all(spec.direction is Direction.LOWER_IS_BETTER for spec in specs)
    return PlannedKpi(
        id=name,
        revision=1,
        name=name,
        formula=text,
        direction=Direction.LOWER_IS_BETTER if lower else Direction.HIGHER_IS_BETTER,
        unit=None,
        threshold_min=None,
        threshold_max=None,
    )


def _is_neither(ref: MetricRef) -> bool:
    return provider_for(ref).spec.direction is Direction.NEITHER


def _note(why: Missing) -> dict[str, str]:
    return {"skipped": why.reason} if isinstance(why, MetricSkipped) else {"failed": why.kind}


def _revision(trace: Trace) -> str:
    """The same as `item_queries.REVISION`."""
    asked = ",".join(sorted(tag for tag in trace.tags if tag.startswith("task:")))
    known = f"{trace.expected_output or ''}{asked}"
    return hashlib.md5(known.encode(), usedforsecurity=False).hexdigest()
