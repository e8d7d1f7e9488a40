"""The Python API of formulas: the parser and the formula classes of the original system, under their names.

>>> from mosaico.formula import DslParseException, KpiFormulaParser
>>> parser = KpiFormulaParser(["ACCURACY", "PRECISION", "RECALL"])
>>> result = parser.parse("WEIGHTED_SUM(ACCURACY:0.5, PRECISION:0.25, RECALL:0.25)")
>>> if not result.success:
...     raise DslParseException(result.errors_as_string())
>>> result.formula.evaluate({"ACCURACY": 0.5, "PRECISION": 1.0, "RECALL": 0.0})
0.5

Wherever a metric is named, its class is accepted too: `WeightedSumFormula({Accuracy: 0.5, Rouge: 0.5})`.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from mosaico.core.errors import Invalid
from mosaico.formula.ast import Metric, Reference, format_number, references
from mosaico.formula.check import check_formula, parse_expression
from mosaico.formula.compile import CompiledFormula, compile_formula
from mosaico.formula.errors import InvalidFormula, Mistake, UndefinedFormula
from mosaico.formula.functions import FUNCTIONS

MetricName: TypeAlias = str | type
"""The key of a metric, or its class: the attribute `key` of the class, otherwise its name."""
MetricValues: TypeAlias = Mapping[Any, float | None]
"""Values by `MetricName`; a mapping of strings is not one of `str | type` to a type checker."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z]{2})(?=\d)")
# The endings of the classes of metrics in the original.
_CLASS_ENDING = re.compile(r"(?<=.)(?:Metric(?:Key|Provider)?|MetricKey)$")
# A latency is in milliseconds; the original does not say so. `mosaico.metrics` has the same alias.
_SAME_METRIC = {"LATENCYMS": "LATENCY"}


def metric_key(metric: MetricName) -> str:
    """The key of a metric: `F1Score`, `F1ScoreMetric` and `F1ScoreMetricKey` are classes of `F1_SCORE`."""
    if isinstance(metric, str):
        return metric
    own_key = getattr(metric, "key", None)
    if isinstance(own_key, str):
        return own_key
    return _WORD_START.sub("_", _CLASS_ENDING.sub("", metric.__name__)).upper()


@dataclass(frozen=True, slots=True)
class KpiFormula:
    """A formula that reads metrics by their plain names: `ROUGE`, `BLEU.p95`, `SCORE["x"]`."""

    compiled: CompiledFormula

    @property
    def text(self) -> str:
        return self.compiled.text

    def evaluate(self, values: MetricValues) -> float:
        """The value; raises `UndefinedFormula` with the reason. Names are case-insensitive."""
        given = add_other_names(by_reference(values), self.compiled.references)
        value, reason = self.compiled.evaluate(given)
        if value is None:
            raise UndefinedFormula(
                f"{self.text} is undefined: {reason}; provide valid values for its metrics"
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseResult:
    """The result of parsing: a formula, or every mistake.

    `referenced_metrics` are the keys that could be read, also when there are mistakes.
    """

    success: bool
    formula: KpiFormula | None
    errors: tuple[Mistake, ...]
    referenced_metrics: frozenset[str]

    def errors_as_string(self) -> str:
        """One line per mistake, `line:column: what. remedy`; empty on success."""
        return "\n".join(map(str, self.errors))


class KpiFormulaParser:
    """Parses formulas against a set of metric keys; an empty set accepts any key."""

    def __init__(self, keys: Iterable[MetricName] = ()) -> None:
        self._keys: frozenset[str] = frozenset()
        self.register_metric_keys(keys)

    def parse(self, text: str) -> ParseResult:
        """Check and compile a text. Never raises: mistakes are part of the result."""
        result = self.validate(text)
        if not result.success:
            return result
        return ParseResult(
            success=True,
            formula=KpiFormula(compile_formula(text)),
            errors=(),
            referenced_metrics=result.referenced_metrics,
        )

    def validate(self, text: str) -> ParseResult:
        """Check a text without compiling it: the result holds no formula."""
        root, mistakes = check_formula(text, self._keys or None)
        read = () if root is None else references(root)
        return ParseResult(
            success=not mistakes,
            formula=None,
            errors=mistakes,
            referenced_metrics=frozenset(reference.key for reference in read),
        )

    def known_metric_keys(self) -> frozenset[str]:
        return self._keys

    def register_metric_keys(self, keys: Iterable[MetricName]) -> None:
        """Add metric keys, in any case; raises `Invalid` for one that no formula could name."""
        names = [keys] if isinstance(keys, str | type) else keys
        added = [metric_key(name) for name in names]
        for key in added:
            if not _KEY.fullmatch(key):
                raise Invalid(
                    f"no formula can name the metric {key!r}: use letters, digits and _,"
                    " with a letter or _ first"
                )
        self._keys = self._keys.union(key.upper() for key in added)


_default_parser = KpiFormulaParser()


def parse(text: str) -> ParseResult:
    """Check and compile a text against the registered metric keys."""
    return _default_parser.parse(text)


def validate(text: str) -> ParseResult:
    """Check a text against the registered metric keys without compiling it."""
    return _default_parser.validate(text)


def known_metric_keys() -> frozenset[str]:
    """The registered metric keys; an empty set accepts any key."""
    return _default_parser.known_metric_keys()


def register_metric_keys(keys: Iterable[MetricName]) -> None:
    """Register metric keys that formulas may use."""
    _default_parser.register_metric_keys(keys)


@lru_cache(maxsize=4096)
def read_reference(name: str) -> Reference | None:
    """The reference of a plain name such as `bleu.P95`; None for any other text."""
    try:
        root = parse_expression(name)
    except InvalidFormula:
        return None
    return root.reference if isinstance(root, Metric) else None


def by_reference(values: MetricValues) -> dict[Reference, float | None]:
    """The values by reference; names that no formula can use are dropped."""
    referenced_values = (
        (read_reference(metric_key(name)), value) for name, value in values.items()
    )
    return {reference: value for reference, value in referenced_values if reference is not None}


def add_other_names(
    values: Mapping[Reference, float | None], references: Iterable[Reference]
) -> dict[Reference, float | None]:
    """The values, and those of the references that were given under another spelling of the same metric:
    `LATENCY` for `LATENCY_MS`, `F1SCORE` for `F1_SCORE`.
    """
    by_spelling = {(_spelling(given.key), given.stat): value for given, value in values.items()}
    others = {
        reference: by_spelling[spelling]
        for reference in references
        if (spelling := (_spelling(reference.key), reference.stat)) in by_spelling
    }
    return {**others, **values}


def _spelling(key: str) -> str:
    """What the spellings of a metric have in common; the name of a score has one spelling."""
    if not _KEY.fullmatch(key):
        return key
    letters = key.replace("_", "").removesuffix("METRICKEY") or key
    return _SAME_METRIC.get(letters, letters)


@dataclass(frozen=True, slots=True)
class AverageFormula:
    """The arithmetic mean of all given values."""

    def evaluate(self, values: MetricValues) -> float:
        """The mean; raises `UndefinedFormula` for no values or a missing value."""
        if not values:
            raise UndefinedFormula("the average of no values is undefined; pass at least one value")
        numbers = [_number(metric_key(name), value) for name, value in values.items()]
        return _number("the average", FUNCTIONS["AVERAGE"].apply(*numbers))


@dataclass(frozen=True, slots=True)
class WeightedSumFormula:
    """The plain sum of weight times metric."""

    weights: Mapping[Any, float]

    @property
    def text(self) -> str:
        pairs = (
            f"{metric_key(name)}:{format_number(float(weight))}"
            for name, weight in self.weights.items()
        )
        return f"WEIGHTED_SUM({', '.join(pairs)})"

    def evaluate(self, values: MetricValues) -> float:
        """The sum; raises `UndefinedFormula` when a metric is missing."""
        return KpiFormula(compile_formula(self.text)).evaluate(values)


@dataclass(frozen=True, slots=True)
class ThresholdFormula:
    """1 if the metric is at least the threshold (at most, if not `greater_than`), else 0."""

    metric: MetricName
    threshold: float
    greater_than: bool = True

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise Invalid(f"the threshold {self.threshold} is not a finite number; give one")

    @property
    def text(self) -> str:
        operator = ">=" if self.greater_than else "<="
        limit = format_number(float(self.threshold))
        return f"IF {metric_key(self.metric)} {operator} {limit} THEN 1 ELSE 0"

    def evaluate(self, values: MetricValues) -> float:
        """1 or 0; raises `UndefinedFormula` when the metric is missing."""
        return KpiFormula(compile_formula(self.text)).evaluate(values)


def _number(name: str, value: float | None) -> float:
    if value is None or not math.isfinite(value):
        raise UndefinedFormula(f"{name} has no finite value; provide one or leave it out")
    return float(value)
