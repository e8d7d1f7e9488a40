"""What a benchmark may say, decided without a database."""

from collections.abc import Sequence
from typing import Protocol

from app.core.errors import AppError, ErrorItem
from app.core.strict_json import escape_pointer
from app.formula import validate
from app.metrics.registry import METRICS, option_mistakes, options_of, plain_keys, provider_for
from app.metrics.types import MetricRef

MAX_COLUMN_CHARS = 220  # SCORE["…"] with a name of 200


class KpiInput(Protocol):
    """A KPI that somebody wants to save."""

    @property
    def name(self) -> str: ...
    @property
    def formula(self) -> str: ...
    @property
    def threshold_min(self) -> float | None: ...
    @property
    def threshold_max(self) -> float | None: ...


class IdentifiedKpiInput(KpiInput, Protocol):
    """A KPI in a list of them."""

    @property
    def id(self) -> str | None: ...


def metric_errors(refs: Sequence[MetricRef]) -> list[ErrorItem]:
    """What is wrong with a list of metrics: unknown names or options, and columns of one name."""
    errors: list[ErrorItem] = []
    seen: set[str] = set()
    for index, ref in enumerate(refs):
        at = f"/metrics/{index}"
        mistakes = _metric_errors(ref, at)
        if not mistakes:
            column = provider_for(ref).spec.key
            if len(column) > MAX_COLUMN_CHARS:
                detail = f"its name is longer than {MAX_COLUMN_CHARS} characters; shorten it"
                mistakes = [ErrorItem(pointer=at, detail=detail)]
            elif column in seen:
                detail = f"{column} is listed twice; list it once"
                mistakes = [ErrorItem(pointer=at, detail=detail)]
            seen.add(column)
        errors += mistakes
    return errors


def _metric_errors(ref: MetricRef, at: str) -> list[ErrorItem]:
    """What is wrong with one metric, each option looked at by itself."""
    factory = METRICS.find(ref.key)
    if factory is None:
        return _construction_errors(ref, at)
    if not ref.options and METRICS.name_of(ref.key) not in plain_keys():
        names = ", ".join(option.name for option in options_of(factory))
        detail = f"{ref.key} says nothing without its options; send options with {names}"
        return [ErrorItem(pointer=at, detail=detail)]
    mistakes = [
        ErrorItem(pointer=f"{at}/options/{escape_pointer(name)}", detail=mistake.detail)
        for name, mistake in option_mistakes(ref).items()
    ]
    return mistakes or _construction_errors(ref, at)


def _construction_errors(ref: MetricRef, at: str) -> list[ErrorItem]:
    """What is wrong with the options together."""
    try:
        provider_for(ref)
    except AppError as error:
        return [ErrorItem(pointer=at, detail=error.detail)]
    return []


def kpi_errors(kpi: KpiInput, at: str) -> list[ErrorItem]:
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


def kpi_list_errors(kpis: Sequence[IdentifiedKpiInput]) -> list[ErrorItem]:
    """KPIs of one list that cannot be told apart: by name, or by the id that a client gave."""
    names: set[str] = set()
    ids: set[str] = set()
    errors = []
    for index, kpi in enumerate(kpis):
        if kpi.name.casefold() in names:
            detail = f"another KPI is named {kpi.name!r}; names differ by more than case"
            errors.append(ErrorItem(pointer=f"/measures/{index}/name", detail=detail))
        if kpi.id is not None and kpi.id in ids:
            detail = f"another KPI has the id {kpi.id!r}; leave one of them out"
            errors.append(ErrorItem(pointer=f"/measures/{index}/id", detail=detail))
        names.add(kpi.name.casefold())
        ids |= {kpi.id} if kpi.id else set()
    return errors
