"""`mosaico formula`: check a KPI formula, or evaluate it with given values."""

import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from mosaico.core.console.table import print_details
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    encode_json,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.strict_json import float_of, is_number

if TYPE_CHECKING:
    from mosaico.formula.ast import Reference
    from mosaico.formula.compile import CompiledFormula
    from mosaico.formula.errors import Mistake

EXIT_UNDEFINED, EXIT_INVALID = 3, 65
# Width of an excerpt, and of its part before the mistake.
_EXCERPT_CHARS, _CONTEXT_CHARS = 78, 40

cli = CommandGroup("formula", help="Check and evaluate KPI formulas.")

# A formula may start with a minus sign, which must not be parsed as an option.
_CONTEXT = {"ignore_unknown_options": True}


Expression = Annotated[
    str, typer.Argument(metavar="EXPR", help="Formula, such as 'AVERAGE(ROUGE, BLEU.p95)'.")
]


class _InputValues(NamedTuple):
    """The values of --values by reference, or the reason why they are invalid."""

    values: "dict[Reference, float | None]"
    error: str | None = None


class _InvalidValuesError(Exception):
    """The text of --values is invalid; the message contains the place and the reason."""


@cli.command(context_settings=_CONTEXT)
def check(
    expression: Expression,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Check a formula and print its normal form and the metrics that it reads. A metric of the service is known
    where its plugin is installed.

    Exit codes: 0 valid, 65 invalid; every mistake is printed to standard error.
    """
    from mosaico.formula.compile import compile_formula
    from mosaico.formula.errors import InvalidFormula

    try:
        formula = compile_formula(expression, _measurable_keys())
    except InvalidFormula as error:
        if output is OutputFormat.JSON:
            print_status(encode_json(_problem(error.detail, error.mistakes), sys.stderr))
        else:
            _print_mistakes(expression, error.mistakes)
        raise typer.Exit(EXIT_INVALID) from None
    _print_formula(formula, output)


@cli.command("eval", context_settings=_CONTEXT)
def evaluate(
    expression: Expression,
    values: Annotated[
        str,
        typer.Option(
            "--values",
            metavar="JSON",
            help='Metric values as a JSON object: {"ROUGE": 0.5, "BLEU.p95": 0.1}.',
        ),
    ] = "{}",
) -> None:
    """Evaluate a formula and print its value as a bare number.

    Exit codes: 0 evaluated, 3 undefined, 65 invalid formula or values; the reason is printed to
    standard error.
    """
    from mosaico.formula.compile import compile_formula
    from mosaico.formula.errors import InvalidFormula
    from mosaico.formula.python_api import add_other_names

    inputs, values_error = _read_values(values)
    try:
        formula = compile_formula(expression, _known_keys(inputs))
    except InvalidFormula as error:
        _print_mistakes(expression, error.mistakes)
        _reject_values(values_error)
        raise typer.Exit(EXIT_INVALID) from None
    _reject_values(values_error)
    known_values = add_other_names(inputs, formula.references)
    value, reason = formula.evaluate(known_values)
    if value is None:
        print_status(f"error: the formula is undefined: {reason}")
        missing = {str(key): 0.5 for key in formula.references if key not in known_values}
        if missing:
            print_status(f"hint: add the values that it reads: --values '{json.dumps(missing)}'")
        raise typer.Exit(EXIT_UNDEFINED)
    print_result(repr(value))


def _measurable_keys() -> frozenset[str]:
    """The registered metrics of callers, and those that this installation measures."""
    from mosaico.formula.python_api import known_metric_keys
    from mosaico.metrics.registry import METRICS, load_metrics

    load_metrics()
    return known_metric_keys().union(METRICS.names(), METRICS.aliases)


def _known_keys(inputs: "dict[Reference, float | None] | None" = None) -> frozenset[str] | None:
    from mosaico.formula.python_api import known_metric_keys

    registered = known_metric_keys()
    return registered.union(reference.key for reference in inputs or ()) if registered else None


def _print_formula(formula: "CompiledFormula", output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        references = [reference._asdict() for reference in formula.references]
        print_json({"valid": True, "formula": formula.text, "references": references})
        return
    names = ", ".join(map(str, formula.references)) or "no metric"
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
    return {
        "type": "/problems/invalid-formula",
        "title": "Invalid formula",
        "status": 422,
        "detail": detail,
        "errors": errors,
    }


def _print_mistakes(text: str, mistakes: "Sequence[Mistake]") -> None:
    for mistake in mistakes:
        print_status(f"error: {mistake.line}:{mistake.column}: {mistake.message}")
        print_status(_excerpt(text, mistake))
        if mistake.remedy:
            print_status(f"hint: {mistake.remedy}")


def _excerpt(text: str, mistake: "Mistake") -> str:
    """The line of the mistake, cut to a readable width, with carets below the mistake."""
    line = text.split("\n")[mistake.line - 1]
    begin = max(0, mistake.column - 1 - _CONTEXT_CHARS)
    window = "".join(
        char if char.isprintable() else "?" for char in line[begin : begin + _EXCERPT_CHARS]
    )
    indent = mistake.column - 1 - begin
    width = max(1, min(mistake.span.end - mistake.span.start, len(window) - indent))
    return f"  {window}\n  {' ' * indent}{'^' * width}"


def _reject_values(values_error: str | None) -> None:
    if values_error is not None:
        print_status(f"error: {values_error}")
        print_status('hint: --values takes one JSON object, e.g. {"ROUGE": 0.5}')
        raise typer.Exit(EXIT_INVALID)


def _read_values(text: str) -> _InputValues:
    try:
        return _InputValues(_values(text))
    except _InvalidValuesError as error:
        return _InputValues({}, str(error))


def _values(text: str) -> "dict[Reference, float | None]":
    from mosaico.formula.python_api import read_reference

    values: dict[Reference, float | None] = {}
    for name, value in _pairs(text):
        reference = read_reference(name)
        if reference is None:
            raise _InvalidValuesError(
                f"{name!r} in --values is not a metric, METRIC.stat or SCORE[…]"
            )
        if reference in values:
            raise _InvalidValuesError(f"--values gives {reference} twice")
        values[reference] = _finite(name, value)
    return values


def _pairs(text: str) -> list[tuple[str, Any]]:
    try:
        pairs = json.loads(text, object_pairs_hook=_JsonMembers, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise _InvalidValuesError(f"--values is not valid JSON: {error}") from None
    if not isinstance(pairs, _JsonMembers):
        raise _InvalidValuesError("--values is not a JSON object")
    return list(pairs)


class _JsonMembers(list[tuple[str, Any]]):
    """The members of a JSON object in order, including duplicate names."""


def _reject_constant(name: str) -> NoReturn:
    raise _InvalidValuesError(f"{name} in --values is not a number; give null for a missing value")


def _finite(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if not is_number(value):
        raise _InvalidValuesError(f"{name!r} in --values is not a number")
    number = float_of(value)
    if not math.isfinite(number):
        raise _InvalidValuesError(f"{name!r} in --values is too large")
    return number
