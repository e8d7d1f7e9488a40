"""Formulas made in Python instead of text, under the names of the original system."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.errors import Invalid
from app.formula.compile import compile_formula
from app.formula.dsl import KpiFormula
from app.formula.errors import UndefinedFormula
from app.formula.format import format_number
from app.formula.functions import FUNCTIONS

Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class AverageFormula:
    """The arithmetic mean of all values that are given."""

    def evaluate(self, values: Values) -> float:
        """The mean; raises `UndefinedFormula` when nothing is given or a value is missing."""
        if not values:
            raise UndefinedFormula("the average of nothing is undefined; give at least one value")
        given = [_number(name, value) for name, value in values.items()]
        return _number("the average", FUNCTIONS["AVERAGE"].apply(*given))


@dataclass(frozen=True, slots=True)
class WeightedSumFormula:
    """The plain sum of weight times metric."""

    weights: Mapping[str, float]

    @property
    def text(self) -> str:
        pairs = (f"{name}:{format_number(float(weight))}" for name, weight in self.weights.items())
        return f"WEIGHTED_SUM({', '.join(pairs)})"

    def evaluate(self, values: Values) -> float:
        """The sum; raises `UndefinedFormula` when a metric is missing."""
        return KpiFormula(compile_formula(self.text)).evaluate(values)


@dataclass(frozen=True, slots=True)
class ThresholdFormula:
    """1 if the metric is at least the threshold (at most, if not `greater_than`), else 0."""

    metric: str
    threshold: float
    greater_than: bool = True

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise Invalid(f"the threshold {self.threshold} is not a finite number; give one")

    @property
    def text(self) -> str:
        operator = ">=" if self.greater_than else "<="
        limit = format_number(float(self.threshold))
        return f"IF {self.metric} {operator} {limit} THEN 1 ELSE 0"

    def evaluate(self, values: Values) -> float:
        """1 or 0; raises `UndefinedFormula` when the metric is missing."""
        return KpiFormula(compile_formula(self.text)).evaluate(values)


def _number(name: str, value: float | None) -> float:
    if value is None or not math.isfinite(value):
        raise UndefinedFormula(f"{name} has no finite value; provide one or leave it out")
    return float(value)
