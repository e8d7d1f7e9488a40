"""The page of formulas: what a formula means, and what it gives with the values of a run and typed ones."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, NamedTuple

from fastapi import Query, Request, Response

from mosaico.access.deps import READ
from mosaico.agents.queries import list_agent_names
from mosaico.benchmarks.formula_check import check_formula_text
from mosaico.benchmarks.queries import list_benchmark_names
from mosaico.core.keyset import PageQuery
from mosaico.core.resources import Resources
from mosaico.core.text import format_number
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import number_or_text
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.page_text import format_instant
from mosaico.core.web.pages import ComputedRequest, reader_zone, render_page
from mosaico.core.web.routes import Router
from mosaico.formula import (
    CompiledFormula,
    FormulaPart,
    Reference,
    add_other_names,
    by_reference,
    compile_formula,
    explain_parts,
    help_document,
    read_reference,
)
from mosaico.metrics.registry import column_of
from mosaico.run_store.models import RunMetricAggregate
from mosaico.run_store.queries import get_run, list_run_metrics
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.run_history import aggregate_of
from mosaico.run_store.run_list import DEFAULT_SORT, LISTED_COLUMNS, RunListFilter, search_runs

router = Router()

LISTED_RUNS = 30


class ShownPart(NamedTuple):
    """A part of a formula in a run, as the page shows it: its value, or the reason why it has none."""

    text: str
    value: str | None
    reason: str | None
    parts: list["ShownPart"]


@router.get("/formulas", dependencies=READ)
def show_formulas(
    request: Request,
    res: Res,
    formula: Annotated[str, Query(max_length=4096)] = "",
    run: Annotated[str, Query(max_length=200)] = "",
    values: Annotated[str, Query(max_length=4096)] = "",
    run_id: Annotated[str, Query(alias="runId", max_length=200)] = "",
) -> Response:
    """The check of a formula, its value in a run or with typed values, and the functions of the language."""
    check = check_formula_text(formula)
    run = run_id.strip() or run
    typed, mistakes = _read_values(values)
    with res.db.read() as session:
        completed = RunListFilter(statuses=[RunStatus.COMPLETED])
        recent = search_runs(
            session, completed, DEFAULT_SORT, PageQuery(LISTED_RUNS), columns=LISTED_COLUMNS
        ).rows
        names = list_agent_names(session) | list_benchmark_names(session)
        metrics = list_run_metrics(session, get_run(session, run).seq) if run else []
    # As it was typed: the reason for a missing value names a column.
    compiled = compile_formula(formula) if check and check.text and (run or values) else None
    inputs = (
        {**_values_of(compiled, metrics), **add_other_names(typed, compiled.references)}
        if compiled
        else {}
    )
    return render_page(
        request,
        "formulas.html",
        title="Formulas",
        nav="/formulas",
        api="/kpi-formulas/help",
        api_question=_question(formula, inputs if compiled else None),
        formula=formula,
        run=run,
        values=values,
        mistakes=mistakes,
        check=check,
        metrics=[metric.metric for metric in metrics],
        runs=[
            ("", "none: check only"),
            *([(run, run)] if run and all(row["id"] != run for row in recent) else []),
            *((row["id"], _name_run(row, names, request, res)) for row in recent),
        ],
        result=compiled and _show_part(explain_parts(compiled.root, compiled.source, inputs)),
        run_url=run and path_of("runs", run),
        help=help_document(),
    )  # fmt: skip


def _name_run(
    run: Mapping[str, Any], names: Mapping[str, str], request: Request, res: Resources
) -> str:
    owners = " on ".join(names.get(id_, id_) for id_ in (run["agent_id"], run["benchmark_id"]))
    return f"{owners}, {format_instant(run['created_at'], reader_zone(request), res.clock())}"


def _read_values(text: str) -> tuple[dict[Reference, float | None], list[str]]:
    """The values of a text with one `NAME=number` in each line, and the lines that have none. Without a number, the
    value is missing.
    """
    values: dict[Reference, float | None] = {}
    mistakes = []
    for line in map(str.strip, filter(str.strip, text.splitlines())):
        name, _, number = line.rpartition("=")
        value = number_or_text(number.strip())
        if isinstance(value, str) or not isfinite(value or 0) or read_reference(name) is None:
            mistakes.append(line)
        else:
            values |= by_reference({name: value})
    return values, mistakes


def _question(text: str, values: Mapping[Reference, float | None] | None) -> ComputedRequest | None:
    """By what the API gives the check of a formula, or its value with some values."""
    if not text.strip():
        return None
    if values is None:
        return ComputedRequest("/kpi-formulas/validate", {"formula": text})
    named = {str(reference): value for reference, value in values.items()}
    return ComputedRequest("/kpi-formulas/evaluate", {"formula": text, "values": named})


def _values_of(
    formula: CompiledFormula, metrics: Sequence[RunMetricAggregate]
) -> dict[Reference, float | None]:
    """The values that a formula refers to, in a run."""
    row_of = {metric.metric: metric for metric in metrics}
    values: dict[Reference, float | None] = {}
    for reference in formula.references:
        row = row_of.get(column_of(reference.key))
        values[reference] = None if row is None else aggregate_of(row).statistic(reference.stat)
    return values


def _show_part(part: FormulaPart) -> ShownPart:
    if isinstance(part.value, bool):
        value: str | None = str(part.value).lower()
    else:
        value = None if part.value is None else format_number(part.value)
    return ShownPart(part.text, value, part.reason, list(map(_show_part, part.parts)))
