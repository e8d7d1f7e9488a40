"""Charts of a run: distributions of its values before and now, and its quality against cost and latency over runs."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup
from sqlalchemy.orm import Session

from mosaico.comparison.answer_schemas import MetricDistribution, RunCostView
from mosaico.comparison.distributions import distributions_of, list_run_costs
from mosaico.comparison.run_answers import RunAnswers
from mosaico.core.text import format_number
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.small_charts import ChartValue, distribution_chart, points_chart
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.number_text import FigureFormat

# A single run has nothing to be compared with.
_MIN_RUNS = 2


class SmallChart(NamedTuple):
    """A chart with its values as a table; `note` says what it shows."""

    title: str
    svg: Markup
    note: str
    columns: str
    rows: Sequence[Sequence[str]]


def list_distribution_charts(answers: RunAnswers) -> list[SmallChart]:
    """A chart for each distribution of a run, and of its baseline."""
    return [_distribution(values) for values in distributions_of(answers)]


def load_cost_charts(session: Session, kpi: KpiHistory | None) -> list[SmallChart]:
    """Two charts: the KPI against the cost, and against the latency; those of fewer than two runs are left out."""
    costs = list_run_costs(session, kpi) if kpi else []
    if kpi is None:
        return []
    scale = kpi.verdict.scale if kpi.verdict else None
    figures = FigureFormat.of([run.quality for run in costs], kpi.unit, scale)
    return list(_cost_charts(kpi.name, costs, figures))


def _distribution(values: MetricDistribution) -> SmallChart:
    unit = f" in {values.unit}" if values.unit and values.unit != "share" else ""
    title = f"{values.metric}{unit}"
    svg = distribution_chart(title, values.edges, values.before, values.now)
    before = values.before or [0] * len(values.now)
    rows = [
        (
            f"{format_number(low)} to {format_number(high)}",
            "–" if values.before is None else f"{earlier:,}",
            f"{later:,}",
        )
        for (low, high), earlier, later in zip(
            pairwise(values.edges), before, values.now, strict=True
        )
    ]
    note = (
        "Traces of the baseline (outlined) and of this run (filled)"
        if values.before is not None
        else "Traces of this run; there is no baseline with traces"
    )
    return SmallChart(
        title,
        Markup(svg),  # noqa: S704 - our own SVG, which escapes its texts
        note,
        "Bin|#Before|#Now",
        rows,
    )


def _cost_charts(
    kpi: str, costs: Sequence[RunCostView], figures: FigureFormat
) -> Iterator[SmallChart]:
    for name, unit in (("Cost", "USD"), ("Latency", "ms")):
        measured = [
            (run, value)
            for run in costs
            if (value := run.cost_usd if unit == "USD" else run.latency_ms) is not None
        ]
        if len(measured) < _MIN_RUNS:
            continue
        amounts = FigureFormat.of([value for _, value in measured], unit)
        points = [
            ChartValue(
                value,
                run.quality,
                f"{kpi} {figures.write(run.quality)}, {amounts.write(value)}",
                path_of("runs", run.run_id),
            )
            for run, value in measured
        ]
        title = f"{kpi} against {name.lower()} of an answer"
        svg = points_chart(title, f"{name} of an answer, {unit}", kpi, points)
        rows = [(figures.write(point.y), amounts.write(point.x)) for point in points]
        yield SmallChart(
            title,
            Markup(svg),  # noqa: S704 - our own SVG, which escapes its texts
            f"{len(points)} runs up to this one, which is the large point",
            f"#{kpi.replace('|', '/')}|#{name} in {unit}",
            rows,
        )
