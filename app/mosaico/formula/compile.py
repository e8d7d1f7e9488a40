"""A formula that is parsed and checked once, and evaluated any number of times."""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from mosaico.formula.ast import Expr, Reference, format_expression, references
from mosaico.formula.check import check_formula, parse_expression, unknown_metrics
from mosaico.formula.errors import InvalidFormula
from mosaico.formula.evaluate import FormulaValue, MetricValues, explain

# Formulas are stored with benchmarks: few texts, often evaluated.
CACHE_SIZE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFormula:
    """A formula that can be evaluated from any thread. `references` are the metrics that it reads."""

    source: str
    text: str
    references: tuple[Reference, ...]
    root: Expr = field(repr=False)

    def evaluate(self, values: MetricValues) -> FormulaValue:
        """The value for these metrics, or None with the reason; a missing metric is never 0."""
        return explain(self.root, self.source, values)


def compile_formula(text: str, metric_keys: Collection[str] | None = None) -> CompiledFormula:
    """Parse and check a formula; the last 1024 texts are cached.

    `metric_keys` are the metrics that the formula may use, in upper case; None accepts any.
    Raises `InvalidFormula` with every mistake.
    """
    try:
        compiled = _compile(text)
    except InvalidFormula:
        # Checked again with the known metrics: the user gets syntax mistakes and unknown names in
        # one answer. The cache holds valid formulas only, and does not depend on the metrics of one
        # benchmark.
        raise InvalidFormula(check_formula(text, metric_keys).mistakes) from None
    if metric_keys is not None:
        mistakes = unknown_metrics(compiled.root, text, metric_keys)
        if mistakes:
            raise InvalidFormula(mistakes)
    return compiled


@lru_cache(maxsize=CACHE_SIZE)
def _compile(text: str) -> CompiledFormula:
    root = parse_expression(text)
    return CompiledFormula(
        source=text, text=format_expression(root), references=references(root), root=root
    )
