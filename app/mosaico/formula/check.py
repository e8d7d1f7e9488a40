"""Checks names, argument counts and expression kinds; reports all mistakes at once."""

import re
from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from mosaico.formula.advice import (
    advise_call,
    advise_metric,
    advise_pass_arguments,
    advise_statistic,
    advise_weight,
    as_condition,
)
from mosaico.formula.ast import (
    MEAN,
    Argument,
    Arithmetic,
    Call,
    Conditional,
    Expr,
    FormulaSpan,
    Logic,
    Metric,
    Negative,
    Not,
    Number,
    Reference,
    Relation,
    format_expression,
    split_filter,
    walk,
)
from mosaico.formula.errors import InvalidFormula, Mistake, mistake_at
from mosaico.formula.functions import FUNCTIONS, KEYWORDS, MAX_MISTAKES, FormulaFunction
from mosaico.formula.metric_statistics import (
    MAX_K,
    STATISTIC_FUNCTIONS,
    is_statistic,
    passes_of,
)

_STATISTICS_OF_ALL_TRACES = frozenset({"coverage"})
_MAX_PRINTED_CHARS = 60
# A formula that is the name of a metric.
_METRIC_NAME = re.compile("[A-Z_][A-Z0-9_]{0,99}")


class CheckedFormula(NamedTuple):
    """The tree of a text, if it can be parsed, and its first 20 mistakes in text order."""

    root: Expr | None
    mistakes: tuple[Mistake, ...]


class ExpressionKind(Enum):
    """The kind of value of an expression."""

    NUMBER = "a number"
    CONDITION = "a condition"


def check_formula(text: str, metric_keys: Collection[str] | None = None) -> CheckedFormula:
    """Parse a formula and find every mistake in it.

    `metric_keys` are the metric keys that may be used, in upper case; None accepts any. Scores that
    came with the traces and judges, by their names, are never checked, because they are not known
    in advance.
    """
    # lark takes 40 ms to import; `mosaico --help` and most requests never parse a formula.
    from mosaico.formula.parser import parse_text

    root, mistakes, damage = parse_text(text)
    if root is None:
        return CheckedFormula(None, _first_mistakes(mistakes))
    checker = _Checker(text, metric_keys, damage)
    checker.check_names(root)
    # A repaired tree contains placeholders: their kinds are not the mistakes of the user.
    if not damage:
        checker.check_kinds(root)
    return CheckedFormula(root, _first_mistakes([*mistakes, *checker.mistakes]))


def parse_expression(text: str) -> Expr:
    """The tree of a valid formula; raises `InvalidFormula` with every mistake otherwise."""
    if _METRIC_NAME.fullmatch(text) and advise_metric(text, None) is None and text not in KEYWORDS:
        # Comparisons test every metric as a formula: most need no parser, which takes 0.1 s to build.
        return Metric(reference=Reference(text, MEAN), span=FormulaSpan(0, len(text)))
    root, mistakes = check_formula(text)
    if root is None or mistakes:
        raise InvalidFormula(mistakes)
    return root


def unknown_metrics(root: Expr, text: str, metric_keys: Collection[str]) -> tuple[Mistake, ...]:
    """One mistake for each metric of the tree that is not in `metric_keys`."""
    checker = _Checker(text, metric_keys, ())
    checker.check_names(root)
    return _first_mistakes(checker.mistakes)


def _first_mistakes(mistakes: Sequence[Mistake]) -> tuple[Mistake, ...]:
    return tuple(sorted(mistakes, key=lambda mistake: mistake.span)[:MAX_MISTAKES])


class _Checker:
    """Walks a tree and collects its mistakes."""

    def __init__(
        self, text: str, metric_keys: Collection[str] | None, damage: Sequence[int]
    ) -> None:
        self.text = text
        self.mistakes: list[Mistake] = []
        self._known = None if metric_keys is None else frozenset(metric_keys)
        self._damage = damage

    def check_names(self, root: Expr) -> None:
        for node, _ in walk(root):
            # A formula of 256 unknown names needs no 256 messages.
            if len(self.mistakes) == MAX_MISTAKES:
                return
            if isinstance(node, Metric):
                self._check_metric(node)
            elif isinstance(node, Call):
                self._check_call(node)

    def check_kinds(self, root: Expr) -> None:
        if self._kind(root) is ExpressionKind.CONDITION:
            self._report(
                root.span,
                "a KPI is a number, but this formula gives a condition",
                f"Write IF {_printable_expression(as_condition(root))} THEN 1 ELSE 0{_limit_note(root)}.",
            )

    def _report(self, span: FormulaSpan, message: str, remedy: str) -> None:
        self.mistakes.append(mistake_at(self.text, span, message, remedy))

    def _check_metric(self, metric: Metric) -> None:
        stat = metric.reference.stat
        key, tags = split_filter(metric.reference.key)
        if not is_statistic(stat):
            span = FormulaSpan(metric.span.end - len(stat), metric.span.end)
            self._report(span, f"unknown statistic {stat}", advise_statistic(stat))
        elif tags and stat in _STATISTICS_OF_ALL_TRACES:
            remedy = f"Write {key}.{stat}, or the count of the filtered metric."
            self._report(metric.span, f"{stat} is a share of all traces, not of a filter", remedy)
        if key.endswith("]"):  # one of any number, by its name
            return
        advice = advise_metric(key, self._known)
        if advice is not None:
            written = self.text[slice(*metric.span)]
            # The metric of PASS_AT_K(METRIC, k) is inside.
            inside = re.search(rf"(?i)\b{re.escape(key)}\b", written) if passes_of(stat) else None
            start = metric.span.start + (inside.start() if inside else 0)
            self._report(FormulaSpan(start, start + len(key)), _describe_metric(key), advice)

    def _check_call(self, call: Call) -> None:
        function = FUNCTIONS.get(call.function)
        if function is None:
            span = FormulaSpan(call.span.start, call.span.start + len(call.function))
            if call.function in STATISTIC_FUNCTIONS:
                message = f"{call.function} takes a metric and a whole number from 1 to {MAX_K}"
                self._report(
                    call.span, message, advise_pass_arguments(call.function, call.arguments)
                )
            else:
                remedy = advise_call(call, self._known)
                self._report(span, f"unknown function {call.function}", remedy)
        elif not any(call.span.start <= offset <= call.span.end for offset in self._damage):
            self._check_count(function, call)
            self._check_weights(function, call)

    def _check_count(self, function: FormulaFunction, call: Call) -> None:
        count = len(call.arguments)
        if count < function.min_arguments or (
            function.max_arguments is not None and count > function.max_arguments
        ):
            message = f"{function.name} takes {function.arity}, not {count}"
            self._report(call.span, message, f"Write {function.signature}.")

    def _check_weights(self, function: FormulaFunction, call: Call) -> None:
        for argument in call.arguments:
            if function.weighted and argument.weight is None:
                message = f"{function.name} needs a weight here"
                self._report(argument.value.span, message, advise_weight(argument.value))
            elif not function.weighted and argument.weight is not None:
                remedy = "Remove the weight, or use WEIGHTED_SUM."
                self._report(argument.value.span, f"{function.name} takes no weights", remedy)

    def _kind(self, node: Expr) -> ExpressionKind:  # noqa: PLR0911 - one return per kind of node
        match node:
            case Number() | Metric():
                return ExpressionKind.NUMBER
            case Negative():
                return self._numbers("'-'", node.operand)
            case Arithmetic():
                return self._numbers(f"'{node.operator}'", node.left, node.right)
            case Relation():
                self._numbers(f"'{node.operator}'", node.left, node.right)
                return ExpressionKind.CONDITION
            case Logic():
                return self._conditions(node.operator, node.left, node.right)
            case Not():
                return self._conditions("NOT", node.operand)
            case Conditional():
                return self._choice_kind(node)
            case Call():
                return self._numbers(node.function, *map(_value, node.arguments))

    def _numbers(self, user: str, *operands: Expr) -> ExpressionKind:
        for operand in operands:
            if self._kind(operand) is ExpressionKind.CONDITION:
                message = f"{user} needs a number, but this is a condition"
                self._report(
                    operand.span,
                    message,
                    f"Write (IF {_printable_expression(operand)} THEN 1 ELSE 0).",
                )
        return ExpressionKind.NUMBER

    def _conditions(self, user: str, *operands: Expr) -> ExpressionKind:
        for operand in operands:
            if self._kind(operand) is ExpressionKind.NUMBER:
                message = f"{user} needs a condition, but this is a number"
                self._report(
                    operand.span, message, f"Compare it: {_printable_expression(operand)} > 0.5."
                )
        return ExpressionKind.CONDITION

    def _choice_kind(self, node: Conditional) -> ExpressionKind:
        self._conditions("IF", node.condition)
        then, otherwise = self._kind(node.then), self._kind(node.otherwise)
        if then is not otherwise:
            message = f"THEN gives {then.value}, but ELSE gives {otherwise.value}"
            self._report(node.otherwise.span, message, "Give a number in both.")
            return ExpressionKind.NUMBER
        return then


def _describe_metric(key: str) -> str:
    if key in FUNCTIONS or key in STATISTIC_FUNCTIONS:
        return f"{key} is a function and needs arguments"
    return "SCORE needs the name of a score" if key == "SCORE" else f"unknown metric {key}"


def _limit_note(root: Expr) -> str:
    return "" if as_condition(root) == root else ", with the limits that you want"


def _value(argument: Argument) -> Expr:
    return argument.value


def _printable_expression(node: Expr) -> str:
    text = format_expression(node)
    return text if len(text) <= _MAX_PRINTED_CHARS else "…"
