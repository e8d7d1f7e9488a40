from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.schemas import WireModel
from app.kpis.verdicts import ValueVerdict


class KpiValueView(WireModel):
    """One KPI of one run. `value` is null when the KPI is undefined; the reason says why. `coverage`
    is that of its least covered metric, `missing` counts the traces without a value by metric; the
    interval is of 95 %. `verdict` compares it with the baseline, and explains itself.
    """

    run_id: str
    benchmark_id: str
    agent_id: str
    kpi_id: str
    kpi_revision: int
    name: str
    formula: str
    value: float | None
    undefined_reason: str | None
    unit: str | None
    direction: str
    within_thresholds: bool | None
    validity: str
    gate: bool
    coverage: float | None
    missing: dict[str, int]
    interval_low: float | None
    interval_high: float | None
    verdict: ValueVerdict | None
    recorded_at: datetime


FormulaText = Annotated[
    str, Field(min_length=1, max_length=4096, examples=["WEIGHTED_SUM(ROUGE:0.7, BLEU:0.3)"])
]


class FormulaBody(WireModel):
    formula: FormulaText


class FormulaEvaluation(FormulaBody):
    """`values` maps a metric, or `METRIC.stat`, to a number; null is a missing one."""

    values: Annotated[
        dict[str, float | None],
        Field(max_length=1000, examples=[{"ROUGE": 0.5, "BLEU": 0.25, "LATENCY_MS.p95": 900}]),
    ]


class FormulaErrorView(WireModel):
    """`span` gives start and end offset in the formula."""

    line: int
    column: int
    span: tuple[int, int]
    message: str


class FormulaValidationView(WireModel):
    """What the checker says of a formula; `formula` is its canonical form when it is valid."""

    valid: bool
    formula: str | None
    referenced_metrics: list[str]
    errors: list[FormulaErrorView]


class FormulaValueView(WireModel):
    """`value` is null when the KPI is undefined; `undefinedReason` says why."""

    value: float | None
    undefined_reason: str | None
