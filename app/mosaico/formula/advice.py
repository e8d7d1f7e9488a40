"""What to write instead of the names and signs of other languages: forms that work, and mean what was meant; pure."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Final

from mosaico.core.registry import suggest_names
from mosaico.formula.ast import (
    Argument,
    Arithmetic,
    Call,
    Expr,
    Logic,
    Metric,
    Not,
    Number,
    Reference,
    Relation,
    format_expression,
    format_number,
    split_filter,
)
from mosaico.formula.functions import FUNCTIONS
from mosaico.formula.metric_statistics import (
    STATISTIC_FUNCTIONS,
    STATISTICS,
    is_statistic,
    passes_of,
)

_MAX_LISTED_NAMES: Final = 20
_PASSES_OF_K: Final = re.compile("PASS_?(AT|POW|HAT)?_?([1-9][0-9]{0,2})")
_OPERAND: Final = r"(?:[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)?|[0-9.]+|\([^()]*\))"
_SUPPORTED: Final = "Formulas have + - * /, comparisons, AND, OR, NOT, IF … THEN … ELSE and functions, such as POW(x, 2)."

_NAMED_SCORE: Final = 'Write SCORE["name"], with the name of a score of the traces.'

# Statistics of a metric under the names of spreadsheets, SQL and libraries.
_STATISTIC_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SUM": "sum",
        "TOTAL": "sum",
        "COUNT": "count",
        "N": "count",
        "COVERAGE": "coverage",
        "STD": "std",
        "STDEV": "std",
        "STDDEV": "std",
        "MEDIAN": "p50",
        "MEAN": "mean",
    }
)
# Functions under other names, with the same arguments.
_FUNCTION_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AVG": "AVERAGE", "MEAN": "AVERAGE", "POWER": "POW", "LN": "LOG", "CEILING": "ROUND",
        "MINIMUM": "MIN", "MAXIMUM": "MAX", "LEAST": "MIN", "GREATEST": "MAX", "IFNULL": "COALESCE",
        "NVL": "COALESCE", "PASS_HAT_K": "PASS_POW_K",
    }
)  # fmt: skip


def advise_metric(key: str, names: Collection[str] | None) -> str | None:
    """What to write instead of a name alone that is no metric; None for one that may be a metric."""
    if row := FUNCTIONS.get(key) or STATISTIC_FUNCTIONS.get(key):
        return f"Write {row.signature}."
    if key == "SCORE":
        return _NAMED_SCORE
    if names is None or key in names:
        return None
    if key in _STATISTIC_NAMES:
        return f"Write {_sample(names)}.{_STATISTIC_NAMES[key]} for that of a metric."
    return advise_name(key, names)


def advise_name(name: str, names: Collection[str]) -> str:
    """The names that may be meant, and those that there are."""
    known = sorted(names)
    listed = ", ".join(known[:_MAX_LISTED_NAMES]) + ", …" * (len(known) > _MAX_LISTED_NAMES)
    longer = find_longer_name(name, names)
    suggestion = f" Did you mean {longer}?" if longer else suggest_names(name, known)
    return f"{suggestion} Known: {listed or 'none'}."


def find_longer_name(name: str, names: Collection[str]) -> str | None:
    """The only name that begins with the words of another one: `F1_SCORE` for `F1`."""
    longer = [known for known in names if known.startswith(f"{name}_")]
    return longer[0] if len(longer) == 1 else None


def advise_statistic(stat: str) -> str:
    """What to write instead of an unknown statistic."""
    if re.fullmatch("p(0|100)", stat):
        return f"Write {'min' if stat == 'p0' else 'max'}."
    name = _STATISTIC_NAMES.get(stat.upper())
    suggestion = f" Write {name}." if name else suggest_names(stat, list(STATISTICS))
    return f"{suggestion} Known: {', '.join(STATISTICS)}, and all percentiles from p1 to p99."


def advise_call(call: Call, names: Collection[str] | None) -> str:
    """What to write instead of a call of an unknown function."""
    if call.function == "SCORE":
        return _NAMED_SCORE
    advised = _translate_call(call, names or ())
    if advised is not None:
        return f"Write {advised}."
    functions = [*FUNCTIONS, *STATISTIC_FUNCTIONS]
    return advise_name(call.function, functions)


def _translate_call(call: Call, names: Collection[str]) -> str | None:
    """The call in this language; None where it is not known what it means."""
    statistic = _translate_to_statistic(call, names)
    if statistic is not None:
        return str(statistic)
    name, values = call.function, [argument.value for argument in call.arguments]
    has_weights = any(argument.weight is not None for argument in call.arguments)
    # In brackets: an operator may stand before or after the call.
    if name == "SUM" and values and not has_weights:
        return f"({format_expression(reduce(_plus, values))})"
    if name == "LOG10" and len(values) == 1:
        return f"(LOG({format_expression(values[0])}) / LOG(10))"
    function = "WEIGHTED_SUM" if name == "SUM" else _FUNCTION_NAMES.get(name)
    return None if function is None or not values else _renamed(call, function)


def _plus(left: Expr, right: Expr) -> Arithmetic:
    return Arithmetic(operator="+", left=left, right=right, span=left.span)


def _translate_to_statistic(call: Call, names: Collection[str]) -> Reference | None:
    """The statistic of a metric that `p95(LATENCY)` or `PERCENTILE(LATENCY, 95)` means; None for any other call."""
    values = [argument.value for argument in call.arguments]
    stat = _statistic_of_function(call.function)
    match values:
        case [Metric(reference=Reference(key=key, stat="mean")), Number(value=percent)] if (
            call.function.startswith("PERCENTILE")
        ):
            stat = f"p{percent * 100 if percent < 1 else percent:g}"
        case [Metric(reference=Reference(key=key, stat="mean"))]:
            pass
        case _:
            return None
    return Reference(_complete(key, names), stat) if stat and is_statistic(stat) else None


def _renamed(call: Call, name: str) -> str:
    return format_expression(Call(function=name, arguments=call.arguments, span=call.span))


def _statistic_of_function(name: str) -> str | None:
    """The statistic that a function of one metric means: `p95` for `P95`."""
    if is_statistic(name.lower()):
        return name.lower()
    if match := _PASSES_OF_K.fullmatch(name):
        stat = f"pass_{'at' if match[1] in (None, 'AT') else 'pow'}_{match[2]}"
        return stat if passes_of(stat) else None
    return _STATISTIC_NAMES.get(name)


def _complete(key: str, names: Collection[str]) -> str:
    """The key with the full name of its metric: `LATENCY_MS` for `LATENCY`."""
    metric = split_filter(key).key
    longer = None if metric in names else find_longer_name(metric, names)
    return key.replace(metric, longer, 1) if longer else key


def advise_sign(sign: str, text: str, start: int) -> str:
    """What to write instead of a sign that the language does not have, at a place in the text of a formula."""
    function = {"@": "PASS_AT_K", "^": "PASS_POW_K"}.get(sign)
    if function and re.search(r"(?i)\bpass\s*$", text[:start]):
        k = re.match(r"\s*([1-9][0-9]{0,2})\b", text[start + 1 :])
        return f"Write {function}(TASK_PASSED, {k[1] if k else 3}), with the metric that passes or fails."
    advise = _SIGNS.get(sign[0])
    return advise(sign, text, start) if advise else _SUPPORTED


def _advise_power(sign: str, text: str, start: int) -> str:
    base = re.search(rf"{_OPERAND}\s*$", text[:start])
    exponent = re.match(rf"\s*-?{_OPERAND}", text[start + len(sign) :])
    if base is None or exponent is None:
        return "Write POW(x, y) for x to the power of y."
    operands = [_without_brackets(part[0].strip()) for part in (base, exponent)]
    return f"Write POW({', '.join(operands)})."


def _without_brackets(text: str) -> str:
    return text[1:-1] if text.startswith("(") else text


def _advise_percent(_sign: str, text: str, start: int) -> str:
    percent = re.search(r"([0-9]+(?:\.[0-9]+)?)\s*$", text[:start])
    follows = re.match(r"\s*[A-Za-z0-9_(.]", text[start + 1 :])
    if percent and not follows:
        return f"Write ({percent[1]} / 100) for a percentage."
    return "There is no remainder of a division; x * 100 is a share in percent."


def _advise_semicolon(_sign: str, _text: str, _start: int) -> str:
    return "Write ',' between the arguments of a function; another formula is a KPI of its own."


def _advise_question(_sign: str, text: str, start: int) -> str:
    then, colon, _ = text[start + 1 :].partition(":")
    if not colon:
        return "Write IF condition THEN value ELSE value."
    # A choice reaches to the bracket or comma around it.
    condition = _part_before(text, start)
    otherwise = split_arguments(text, start + 1 + len(then) + 1)[0]
    return f"Write {_choice(condition, then, otherwise)}."


def _part_before(text: str, end: int) -> str:
    """The text before a place, from the bracket or comma that it stands behind."""
    depth = 0
    for start in range(end, 0, -1):
        char = text[start - 1]
        depth += (char == ")") - (char == "(")
        if depth < 0 or (char == "," and not depth):
            return text[start:end]
    return text[:end]


def _choice(*parts: str) -> str:
    return "IF {} THEN {} ELSE {}".format(*map(str.strip, parts))


def advise_bracketed_word(word: str, text: str, bracket: int) -> str | None:
    """What to write instead of `IF(c, a, b)` or `AND(c, d)`, whose bracket is at this place; None for other parts."""
    parts = split_arguments(text, bracket + 1)
    if word == "IF" and len(parts) == 3:  # noqa: PLR2004
        return f"Write ({_choice(*parts)})."
    return (
        f"Write ({f' {word} '.join(parts)})." if word in {"AND", "OR"} and len(parts) > 1 else None
    )


def split_arguments(text: str, start: int) -> list[str]:
    """The parts between the commas from a place to the bracket that ends them, or to the end of the text."""
    depth, parts = 0, [""]
    for char in text[start:]:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _advise_quote(_sign: str, _text: str, _start: int) -> str:
    return 'Names stand in straight double quotes: "name".'


def _advise_placeholder(_sign: str, _text: str, _start: int) -> str:
    return "A metric is its name alone, such as ROUGE: leave this out."


_SIGNS: Final[Mapping[str, Callable[[str, str, int], str]]] = MappingProxyType(
    {
        **dict.fromkeys("^*", _advise_power),
        "%": _advise_percent,
        ";": _advise_semicolon,
        "?": _advise_question,
        **dict.fromkeys("'`“”‘’„«»", _advise_quote),
        **dict.fromkeys("$@#", _advise_placeholder),
    }
)


def as_condition(node: Expr) -> Expr:
    """A condition in which each number that stands for one is compared with 0.5."""
    match node:
        case Logic():
            left, right = as_condition(node.left), as_condition(node.right)
            return Logic(operator=node.operator, left=left, right=right, span=node.span)
        case Not():
            return Not(operand=as_condition(node.operand), span=node.span)
        case Relation():
            return node
        case _:
            half = Number(value=0.5, span=node.span)
            return Relation(operator=">", left=node, right=half, span=node.span)


def advise_weight(node: Expr) -> str:
    """What to write instead of an argument without a weight; `ROUGE * 0.5` has one already."""
    match node:
        case (
            Arithmetic(operator="*", left=part, right=Number(value=weight))
            | Arithmetic(operator="*", left=Number(value=weight), right=part)
        ):
            return f"Write {format_expression(part)}:{format_number(weight)}."
        case _:
            return f"Write {format_expression(node)}:0.5, with the weight that you want."


def _sample(names: Collection[str]) -> str:
    return "ROUGE" if "ROUGE" in names or not names else min(names)


def advise_pass_arguments(name: str, arguments: Sequence[Argument]) -> str:
    """What to write instead of other arguments of PASS_AT_K or PASS_POW_K than a metric and a whole number."""
    metric = next(
        (argument.value for argument in arguments if isinstance(argument.value, Metric)), None
    )
    key = metric.reference.key if metric else "TASK_PASSED"
    return f"Write {name}({key}, 3), with a metric and a whole number k."
