"""`mosaico formula`: check a KPI formula, or compute it from values given by hand."""

import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from app.core.console.table import print_details
from app.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    as_json,
    print_json,
    print_result,
    print_status,
)

if TYPE_CHECKING:
    from app.formula.ast import Reference
    from app.formula.compile import CompiledFormula
    from app.formula.errors import Mistake

UNDEFINED, INVALID = 3, 65
_BEFORE, _SHOWN = 40, 78

cli = CommandGroup("formula", help="Check and compute KPI formulas.")

# A formula may start with a minus sign, which is no option.
_LENIENT = {"ignore_unknown_options": True}


Expression = Annotated[
    str, typer.Argument(metavar="EXPR", help="The formula, e.g. 'AVERAGE(ROUGE, BLEU.p95)'.")
]


class _Given(NamedTuple):
    """The values by what they refer to, or what is wrong with them."""

    values: "dict[Reference, float | None]"
    complaint: str | None = None


class _BadValues(Exception):
    """The values cannot be used; the text says which and why."""


@cli.command(context_settings=_LENIENT)
def check(
    expression: Expression,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Say whether a formula is valid, how it is written, and what it reads.

    Exit codes: 0 valid, 65 invalid (every mistake stands on stderr).
    """
    from app.formula.compile import compile_formula
    from app.formula.errors import InvalidFormula

    try:
        formula = compile_formula(expression, _known())
    except InvalidFormula as error:
        if output is OutputFormat.JSON:
            print_status(as_json(_problem(error.detail, error.mistakes), sys.stderr))
        else:
            _print_mistakes(expression, error.mistakes)
        raise typer.Exit(INVALID) from None
    _print_described(formula, output)


@cli.command("eval", context_settings=_LENIENT)
def evaluate(
    expression: Expression,
    values: Annotated[
        str,
        typer.Option(
            "--values",
            envvar="MOSAICO_FORMULA_VALUES",
            help='What the metrics are, as JSON: {"ROUGE": 0.5, "BLEU.p95": 0.1}.',
        ),
    ] = "{}",
) -> None:
    """Print the value of a formula, a bare number.

    Exit codes: 0 computed, 1 undefined (the reason stands on stderr), 65 invalid formula or values.
    """
    from app.formula.compile import compile_formula
    from app.formula.errors import InvalidFormula

    given, complaint = _read_values(values)
    try:
        formula = compile_formula(expression, _known(given))
    except InvalidFormula as error:
        _print_mistakes(expression, error.mistakes)
        _refuse_values(complaint)
        raise typer.Exit(INVALID) from None
    _refuse_values(complaint)
    value, reason = formula.evaluate(given)
    if value is None:
        print_status(f"error: the formula is undefined: {reason}")
        print_status("hint: give the values that it reads: --values '{\"METRIC\": 0.5}'")
        raise typer.Exit(UNDEFINED)
    print_result(repr(value))


def _known(given: "dict[Reference, float | None] | None" = None) -> frozenset[str] | None:
    from app.formula.handover import known_metric_keys

    registered = known_metric_keys()
    return registered.union(reference.key for reference in given or ()) if registered else None


def _print_described(formula: "CompiledFormula", output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        references = [reference._asdict() for reference in formula.references]
        print_json({"valid": True, "formula": formula.text, "references": references})
        return
    names = ", ".join(map(str, formula.references)) or "nothing"
    print_details({"formula": formula.text, "reads": names})


def _problem(detail: str, mistakes: "Sequence[Mistake]") -> dict[str, Any]:
    errors = [
        {
            "pointer": "/formula",
            "detail": mistake.detail,
            "line": mistake.line,
            "column": mistake.column,
            "span": list(mistake.span),
        }
        for mistake in mistakes
    ]
    kind, title = "/problems/invalid-formula", "Invalid formula"
    return {"type": kind, "title": title, "status": 422, "detail": detail, "errors": errors}


def _print_mistakes(text: str, mistakes: "Sequence[Mistake]") -> None:
    for mistake in mistakes:
        print_status(f"error: {mistake.line}:{mistake.column}: {mistake.message}")
        print_status(_excerpt(text, mistake))
        if mistake.remedy:
            print_status(f"hint: {mistake.remedy}")


def _excerpt(text: str, mistake: "Mistake") -> str:
    """The line of the mistake, cut to a readable width, and carets under the mistake."""
    line = text.split("\n")[mistake.line - 1]
    begin = max(0, mistake.column - 1 - _BEFORE)
    window = "".join(char if char.isprintable() else "?" for char in line[begin : begin + _SHOWN])
    indent = mistake.column - 1 - begin
    width = max(1, min(mistake.span.end - mistake.span.start, len(window) - indent))
    return f"  {window}\n  {' ' * indent}{'^' * width}"


def _refuse_values(complaint: str | None) -> None:
    if complaint is not None:
        print_status(f"error: {complaint}")
        print_status('hint: --values takes one JSON object, e.g. {"ROUGE": 0.5}')
        raise typer.Exit(INVALID)


def _read_values(text: str) -> _Given:
    try:
        return _Given(_values(text))
    except _BadValues as error:
        return _Given({}, str(error))


def _values(text: str) -> "dict[Reference, float | None]":
    from app.formula.handover import read_reference

    values: dict[Reference, float | None] = {}
    for name, value in _pairs(text):
        reference = read_reference(name)
        if reference is None:
            raise _BadValues(f"{name!r} in --values is not a metric, METRIC.stat or SCORE[…]")
        if reference in values:
            raise _BadValues(f"--values gives {reference} twice")
        values[reference] = _finite(name, value)
    return values


def _pairs(text: str) -> list[tuple[str, Any]]:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _BadValues(f"--values is not valid JSON: {error}") from None
    if not isinstance(pairs, _Pairs):
        raise _BadValues("--values is not a JSON object")
    return list(pairs)


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, duplicates included."""


def _no_constant(name: str) -> NoReturn:
    raise _BadValues(f"{name} in --values is not a number; give null for a missing value")


def _finite(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _BadValues(f"{name!r} in --values is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _BadValues(f"{name!r} in --values is too large")
    return number
