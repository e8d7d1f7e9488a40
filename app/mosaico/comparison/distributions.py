"""Distributions of values of a run before and now, and its quality beside its cost over earlier runs."""

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.comparison.answer_schemas import MetricDistribution, RunCostView
from mosaico.comparison.run_answers import AnswerTrial, RunAnswers
from mosaico.kpis.models import KpiHistory
from mosaico.run_store.sql_means import sql_mean
from mosaico.statistics.verdict_rules import Scale

BINS: Final = 10
COMPARED_RUNS: Final = 60
# Means of the cost and the latency of more traces take longer than a request may.
MAX_COST_TRACES: Final = 30_000
# Of the largest value: values that differ by less are one.
_LEAST_WIDTH: Final = 1e-9
# The newest runs up to this one whose traces are still there and not too many together.
_COSTS: Final = text(
    f"""
    WITH newest AS (
        SELECT run.id, run.collection_id, run.traces_collected, kpi.value, kpi.recorded_at, kpi.id AS kpi_value
        FROM kpi_history AS kpi JOIN benchmark_runs AS run ON run.seq = kpi.run_seq
        WHERE kpi.benchmark_id = :benchmark AND kpi.agent_id = :agent AND kpi.kpi_id = :kpi
          AND kpi.validity = 'VALID' AND kpi.value IS NOT NULL AND kpi.recorded_at <= :until
          AND run.rescore_of IS NULL AND run.same_data_as IS NULL AND run.purged_at IS NULL
        ORDER BY kpi.recorded_at DESC, kpi.id DESC LIMIT :runs
    ), history AS (
        SELECT *, sum(traces_collected) OVER (ORDER BY recorded_at DESC, kpi_value DESC) AS traces FROM newest
    )
    SELECT history.id, history.value, cost.cost_usd, cost.latency_ms
    FROM history CROSS JOIN LATERAL (
        SELECT {sql_mean("cost_usd")} AS cost_usd, {sql_mean("latency_ms")} AS latency_ms
        FROM collected_traces WHERE collection_id = history.collection_id
    ) AS cost
    WHERE history.traces <= :traces AND (cost.cost_usd IS NOT NULL OR cost.latency_ms IS NOT NULL)
    ORDER BY history.recorded_at, history.kpi_value
    """  # noqa: S608 - only constants
)


class _Figure(NamedTuple):
    """A value of traces; `limits` are its smallest and largest value, None where it has none."""

    name: str
    unit: str
    before: list[float]
    now: list[float]
    limits: tuple[float, float] | None = None


def distributions_of(answers: RunAnswers) -> list[MetricDistribution]:
    """The distribution of the metric of the answers and that of their latency, as far as they have values."""
    before = [trial for item in answers.items for trial in item.before]
    now = [trial for item in answers.items for trial in item.now]
    figures = []
    if metric := answers.metric:
        limits = (0.0, 1.0) if metric.scale is Scale.RATE else None
        unit = "share" if limits else ""
        figures.append(_Figure(metric.column, unit, _values(before), _values(now), limits))
    if metric is None or metric.column != "LATENCY_MS":
        figures.append(_Figure("LATENCY_MS", "ms", _latencies(before), _latencies(now)))
    has_base = answers.baseline is not None
    return [_distribution(figure, has_base=has_base) for figure in figures if figure.now]


def list_run_costs(session: Session, kpi: KpiHistory) -> list[RunCostView]:
    """The KPI of the newest runs up to that of `kpi`, beside what their answers took, oldest first; at most 60 runs
    with 30,000 traces.
    """
    parameters = {
        "benchmark": kpi.benchmark_id,
        "agent": kpi.agent_id,
        "kpi": kpi.kpi_id,
        "until": kpi.recorded_at,
        "runs": COMPARED_RUNS,
        "traces": MAX_COST_TRACES,
    }
    return [
        RunCostView(run_id=run_id, quality=quality, cost_usd=cost, latency_ms=latency)
        for run_id, quality, cost, latency in session.execute(_COSTS, parameters)
    ]


def _values(trials: Iterable[AnswerTrial]) -> list[float]:
    return [t.value for t in trials if t.value is not None and math.isfinite(t.value)]


def _latencies(trials: Iterable[AnswerTrial]) -> list[float]:
    return [t.latency_ms for t in trials if t.latency_ms is not None]


def _distribution(figure: _Figure, *, has_base: bool) -> MetricDistribution:
    """Ten bins of equal width over the values of both runs; one value has a bin of its own in the middle."""
    values = [*figure.before, *figure.now]
    low, high = figure.limits or limits_of(values)
    # Divided first: the difference of two numbers near the largest float is not one.
    width = high / BINS - low / BINS
    edges = [low + index * width for index in range(BINS)] + [high]
    return MetricDistribution(
        metric=figure.name,
        unit=figure.unit,
        edges=edges,
        before=count_bins(figure.before, low, width) if has_base else None,
        now=count_bins(figure.now, low, width),
    )


def limits_of(values: Sequence[float]) -> tuple[float, float]:
    """The smallest and the largest value; around a single one some space."""
    low, high = min(values), max(values)
    if high / 2 - low / 2 > _LEAST_WIDTH * max(1.0, abs(low), abs(high)):
        return low, high
    space = 0.05 * abs(low) or 0.5
    return max(low - space, -sys.float_info.max), min(low + space, sys.float_info.max)


def count_bins(values: Sequence[float], low: float, width: float) -> list[int]:
    """How many values are in each of ten bins of a width, the first one from `low` on; the last bin has its end, too."""
    counts = [0] * BINS
    for value in values:
        # A tenth that is a little less than one belongs to the bin that it begins. Halved, as a difference may overflow.
        index = math.floor((value / 2 - low / 2) / (width / 2) + 1e-9)
        counts[max(0, min(index, BINS - 1))] += 1
    return counts
