"""Request and response bodies of KPI values and formulas."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from mosaico.core.schemas import WireModel
from mosaico.kpis.judge_types import KpiCorrection
from mosaico.kpis.series_types import RunsEvidence
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.metrics.types import Direction


class KpiValueView(WireModel):
    """The value of one KPI in one run. It is null when the KPI is undefined, for `undefinedReason`.
    `coverage` is that of the least covered metric, `missing` counts the traces without a value by
    metric, and `intervalLow` to `intervalHigh` is the 95 % confidence interval. `verdict` compares the
    value with the baseline, `overRuns` the last runs with the runs before them.
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
    direction: Direction
    within_thresholds: bool | None
    validity: Literal["VALID", "INVALID"]
    gate: bool
    coverage: float | None
    missing: dict[str, int]
    interval_low: float | None
    interval_high: float | None
    verdict: ValueVerdict | None
    over_runs: RunsEvidence | None
    correction: Annotated[
        KpiCorrection | None,
        Field(
            description="What annotations made of the value; null for a KPI that they do not correct."
        ),
    ]
    recorded_at: datetime


FormulaText = Annotated[
    str, Field(min_length=1, max_length=4096, examples=["WEIGHTED_SUM(ROUGE:0.7, BLEU:0.3)"])
]


class FormulaBody(WireModel):
    """A formula to check."""

    formula: FormulaText


class FormulaEvaluation(FormulaBody):
    """A formula to evaluate; `values` maps `METRIC` or `METRIC.stat` to a number, null if missing."""

    values: Annotated[
        dict[str, float | None],
        Field(max_length=1000, examples=[{"ROUGE": 0.5, "BLEU": 0.25, "LATENCY_MS.p95": 900}]),
    ]


class FormulaErrorView(WireModel):
    """An error in a formula; `span` is its start and end offset."""

    line: int
    column: int
    span: Annotated[list[int], Field(min_length=2, max_length=2)]
    message: str


class FormulaValidationView(WireModel):
    """The result of a check; `formula` is the canonical form of a valid formula."""

    valid: bool
    formula: str | None
    referenced_metrics: list[str]
    errors: list[FormulaErrorView]


class FormulaPartView(WireModel):
    """A part of a formula: its number or the truth of its condition, and what it is computed from."""

    formula: str
    value: float | bool | None
    undefined_reason: str | None
    parts: list["FormulaPartView"]


class FormulaValueView(WireModel):
    """The value of a formula; null when it is undefined, for `undefinedReason`. `parts` are what it is computed
    from.
    """

    value: float | None
    undefined_reason: str | None
    parts: list[FormulaPartView]
