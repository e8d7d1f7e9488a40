"""What a benchmark may say, decided without a database."""

from collections.abc import Sequence
from typing import Protocol

from app.core.errors import AppError, ErrorItem
from app.formula import validate
from app.metrics.registry import provider_for
from app.metrics.types import MetricRef


class KpiDraft(Protocol):
    """A KPI that somebody wants to save."""

    @property
    def name(self) -> str: ...
    @property
    def formula(self) -> str: ...
    @property
    def threshold_min(self) -> float | None: ...
    @property
    def threshold_max(self) -> float | None: ...


def metric_errors(refs: Sequence[MetricRef]) -> list[ErrorItem]:
    """What is wrong with a list of metrics: unknown names or options, and columns of one name."""
    errors, seen = [], set()
    for index, ref in enumerate(refs):
        try:
            column = provider_for(ref).spec.key
        except AppError as error:
            errors.append(ErrorItem(pointer=f"/metrics/{index}", detail=error.detail))
            continue
        if column in seen:
            detail = f"{column} is listed twice; list it once"
            errors.append(ErrorItem(pointer=f"/metrics/{index}", detail=detail))
        seen.add(column)
    return errors


def kpi_errors(kpi: KpiDraft, at: str) -> list[ErrorItem]:
    """What is wrong with a KPI; `at` is the JSON pointer of its object."""
    errors = [
        ErrorItem(pointer=f"{at}/formula", detail=str(error), span=error.span)
        for error in validate(kpi.formula).errors
    ]
    low, high = kpi.threshold_min, kpi.threshold_max
    if low is not None and high is not None and low > high:
        detail = f"thresholdMin {low:g} is above thresholdMax {high:g}; swap them"
        errors.append(ErrorItem(pointer=f"{at}/thresholdMin", detail=detail))
    return errors


def name_errors(kpis: Sequence[KpiDraft]) -> list[ErrorItem]:
    """KPIs of one benchmark that cannot be told apart by name."""
    seen: set[str] = set()
    errors = []
    for index, kpi in enumerate(kpis):
        if kpi.name.casefold() in seen:
            detail = f"another KPI is named {kpi.name!r}; names differ by more than case"
            errors.append(ErrorItem(pointer=f"/measures/{index}/name", detail=detail))
        seen.add(kpi.name.casefold())
    return errors
