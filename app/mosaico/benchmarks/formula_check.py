"""Checks the text of a formula while it is typed, for forms and the page of formulas."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from mosaico.core.web.page_text import TextPart, mark_spans
from mosaico.formula import format_formula, validate
from mosaico.formula.ast import split_filter
from mosaico.metrics.formula_direction import direction_of_formula
from mosaico.metrics.types import Direction, MetricRef


class FormulaCheck(NamedTuple):
    """A formula in parts, its mistakes marked; `text` is its canonical form, empty with mistakes.

    `added` are the metrics that the benchmark measures only for it; `direction` is the one that
    follows from the formula, None with mistakes.
    """

    parts: Sequence[TextPart]
    mistakes: Sequence[str]
    text: str
    metrics: Sequence[str]
    added: Sequence[str]
    direction: Direction | None = None


def check_formula_text(
    text: str, measured: Collection[str] | None = None, refs: Iterable[MetricRef] = ()
) -> FormulaCheck | None:
    """Check a formula; `measured` are the metrics of the benchmark, None for any, and `refs` those with their options.
    None for no text.
    """
    if not text.strip():
        return None
    checked = validate(text)
    if not checked.success:
        spans = [mistake.span for mistake in checked.errors]
        mistakes = [str(mistake) for mistake in checked.errors]
        return FormulaCheck(mark_spans(text, spans), mistakes, "", (), ())
    metrics = sorted(checked.referenced_metrics)
    added = (
        [] if measured is None else [name for name in metrics if not _is_measured(name, measured)]
    )
    return FormulaCheck(
        (), (), format_formula(text), metrics, added, direction_of_formula(text, refs)
    )


def _is_measured(metric: str, measured: Collection[str]) -> bool:
    """Return whether a benchmark measures a metric: itself, a filter of it, or a score of the
    source.
    """
    return metric in measured or split_filter(metric).key in measured or metric.endswith("]")
