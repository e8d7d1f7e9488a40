"""HTTP routes of KPI values and the formula language."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Query

from mosaico.access.deps import READ
from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.schemas import Page
from mosaico.core.strict_json import escape_pointer_step
from mosaico.core.web.deps import Res
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.formula import (
    FormulaPart,
    add_other_names,
    by_reference,
    compile_formula,
    explain_parts,
    format_formula,
    help_document,
    read_reference,
    validate,
)
from mosaico.formula.errors import InvalidFormula
from mosaico.kpis import queries
from mosaico.kpis.schemas import (
    FormulaBody,
    FormulaErrorView,
    FormulaEvaluation,
    FormulaPartView,
    FormulaValidationView,
    FormulaValueView,
    KpiValueView,
)

router = Router(tags=["KPIs"])


KpiHistoryFilter = Annotated[queries.KpiHistoryFilter, Query()]
KpiSort = Annotated[
    queries.KpiOrder, Query(description="Sort key; the prefix `-` sorts in descending order.")
]


@router.get("/kpi-history", dependencies=READ)
def list_kpi_history(
    res: Res,
    page: PageParams,
    history_filter: KpiHistoryFilter,
    sort: KpiSort = queries.DEFAULT_SORT,
) -> Page[KpiValueView]:
    """List KPI values, newest first unless sorted, each with the revision of its formula. A repeated
    filter lists those with any of its values.
    """
    with res.db.read() as session:
        rows = queries.list_kpi_history(session, page, history_filter, sort=sort)
        return rows.to_page(KpiValueView.model_validate)


@router.post("/kpi-formulas/validate", dependencies=READ)
def validate_formula(body: FormulaBody) -> FormulaValidationView:
    """Check a formula without saving it: returns all errors, or the canonical form."""
    result = validate(body.formula)
    return FormulaValidationView(
        valid=result.success,
        formula=format_formula(body.formula) if result.success else None,
        referenced_metrics=sorted(result.referenced_metrics),
        errors=[
            FormulaErrorView(
                line=mistake.line,
                column=mistake.column,
                span=(mistake.span.start, mistake.span.end),
                message=mistake.detail,
            )
            for mistake in result.errors
        ],
    )


@router.post("/kpi-formulas/evaluate", dependencies=READ)
def evaluate_formula(body: FormulaEvaluation) -> FormulaValueView:
    """Evaluate a formula with given values. A missing value makes the result undefined."""
    result = validate(body.formula)
    if not result.success:
        raise InvalidFormula(result.errors)
    _require_readable(body.values)
    formula = compile_formula(body.formula)
    values = add_other_names(by_reference(body.values), formula.references)
    value = formula.evaluate(values)
    explained = explain_parts(formula.root, formula.source, values)
    return FormulaValueView(
        value=value.value,
        undefined_reason=value.reason,
        parts=[_part_view(part) for part in explained.parts],
    )


@router.get("/kpi-formulas/help", dependencies=READ)
def describe_formulas() -> dict[str, Any]:
    """Describe the formula language: functions, statistics, operators, limits."""
    return help_document()


def _part_view(part: FormulaPart) -> FormulaPartView:
    return FormulaPartView(
        formula=part.text,
        value=part.value,
        undefined_reason=part.reason,
        parts=[_part_view(inner) for inner in part.parts],
    )


def _require_readable(names: Iterable[str]) -> None:
    """Refuse names that no formula can refer to: such a value would be ignored silently."""
    errors = [
        ErrorItem(
            pointer=f"/values/{escape_pointer_step(name)}",
            detail='is not a metric, METRIC.stat or SCORE["name"]; correct or remove it',
        )
        for name in names
        if read_reference(name) is None
    ]
    if errors:
        raise Invalid(
            "a value has a name that no formula can refer to; see `errors`", errors=errors
        )
