"""Validation of metrics and KPIs of a benchmark; pure."""

from collections.abc import Sequence
from typing import Protocol

from mosaico.core.errors import AppError, ErrorItem, Invalid
from mosaico.core.strict_json import escape_pointer_step
from mosaico.formula import read_reference, validate
from mosaico.formula.ast import split_filter
from mosaico.metrics.judgements import judgement_of
from mosaico.metrics.registry import METRICS, option_errors, options_of, plain_keys, provider_for
from mosaico.metrics.types import MetricRef

MAX_COLUMN_CHARS = 220  # SCORE["…"] with a name of 200


class KpiInput(Protocol):
    """The fields of a KPI that are validated."""

    @property
    def name(self) -> str: ...
    @property
    def formula(self) -> str: ...
    @property
    def threshold_min(self) -> float | None: ...
    @property
    def threshold_max(self) -> float | None: ...
    @property
    def corrected(self) -> bool: ...


class IdentifiedKpiInput(KpiInput, Protocol):
    """A KPI with the id that a client may have given."""

    @property
    def id(self) -> str | None: ...


def metric_errors(refs: Sequence[MetricRef]) -> list[ErrorItem]:
    """The errors of a list of metrics: unknown names or options, and duplicate columns."""
    errors: list[ErrorItem] = []
    column_names: set[str] = set()
    for index, ref in enumerate(refs):
        pointer = f"/metrics/{index}"
        ref_errors = _metric_errors(ref, pointer)
        # Only a valid metric has a column.
        if not ref_errors:
            column = provider_for(ref).spec.key
            if len(column) > MAX_COLUMN_CHARS:
                detail = f"the name is longer than {MAX_COLUMN_CHARS} characters; shorten it"
                ref_errors = [ErrorItem(pointer=pointer, detail=detail)]
            elif column in column_names:
                detail = f"{column} is listed twice; list it once"
                ref_errors = [ErrorItem(pointer=pointer, detail=detail)]
            column_names.add(column)
        errors += ref_errors
    return errors


def _metric_errors(ref: MetricRef, pointer: str) -> list[ErrorItem]:
    """The errors of one metric: of each option first, then of all options together."""
    key = split_filter(ref.key).key
    factory = METRICS.find(key)
    if factory is None:
        return _construction_errors(ref, pointer)
    if not ref.options and METRICS.canonical_name(key) not in plain_keys():
        names = ", ".join(option.name for option in options_of(factory))
        detail = f"{ref.key} requires options; send options with {names}"
        return [ErrorItem(pointer=pointer, detail=detail)]
    errors = [
        ErrorItem(pointer=f"{pointer}/options/{escape_pointer_step(name)}", detail=mistake.detail)
        for name, mistake in option_errors(ref).items()
    ]
    return errors or _construction_errors(ref, pointer)


def _construction_errors(ref: MetricRef, pointer: str) -> list[ErrorItem]:
    """The errors of the options together."""
    try:
        provider_for(ref)
    except AppError as error:
        return [ErrorItem(pointer=pointer, detail=error.detail)]
    return []


def kpi_errors(kpi: KpiInput, pointer: str) -> list[ErrorItem]:
    """The errors of a KPI; `pointer` is the JSON pointer of its object."""
    errors = [
        ErrorItem(pointer=f"{pointer}/formula", detail=str(error), span=error.span)
        for error in validate(kpi.formula).errors
    ]
    low, high = kpi.threshold_min, kpi.threshold_max
    if low is not None and high is not None and low > high:
        detail = f"thresholdMin {low:g} is above thresholdMax {high:g}; swap them"
        errors.append(ErrorItem(pointer=f"{pointer}/thresholdMin", detail=detail))
    if kpi.corrected and not errors and not _is_mean_of_judge(kpi.formula):
        detail = (
            "people correct the mean of one judge: the formula should be nothing but LLM_JUDGE or a SCORE, or corrected"
            " false"
        )
        errors.append(ErrorItem(pointer=f"{pointer}/corrected", detail=detail))
    return errors


def _is_mean_of_judge(formula: str) -> bool:
    reference = read_reference(formula)
    if reference is None or reference.stat != "mean" or split_filter(reference.key).tags:
        return False
    return judgement_of(reference.key) is not None


def kpi_list_errors(kpis: Sequence[IdentifiedKpiInput]) -> list[ErrorItem]:
    """The duplicate names and duplicate ids in a list of KPIs."""
    names: set[str] = set()
    ids: set[str] = set()
    errors = []
    for index, kpi in enumerate(kpis):
        # Alerts and reports name KPIs; a reader does not distinguish two that differ in case only.
        if kpi.name.casefold() in names:
            detail = f"another KPI has the name {kpi.name!r}; names must differ in more than case"
            errors.append(ErrorItem(pointer=f"/measures/{index}/name", detail=detail))
        if kpi.id is not None and kpi.id in ids:
            detail = f"another KPI has the id {kpi.id!r}; remove one of them"
            errors.append(ErrorItem(pointer=f"/measures/{index}/id", detail=detail))
        names.add(kpi.name.casefold())
        ids |= {kpi.id} if kpi.id else set()
    return errors


def raise_if_any(errors: Sequence[ErrorItem]) -> None:
    if errors:
        raise Invalid(
            "the request is not valid; `errors` lists each field to correct", errors=errors
        )
