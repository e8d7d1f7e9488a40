"""Values of traces with several expected answers: the best of them, or the worst where an answer must fit all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mosaico.metrics.types import Direction, Measurement, MetricSpec, Need
from mosaico.traces.types import Trace

_ONE_IS_ENOUGH: Final = "One of these answers is enough:"
_ALL_ARE_NEEDED: Final = "The answer must fit all of these:"


def has_references(trace: Trace, spec: MetricSpec) -> bool:
    """Return whether a metric has to choose among the expected answers of a trace."""
    if not (trace.expected_any or trace.expected_all):
        return False
    return Need.EXPECTED_OUTPUT in spec.needs


def with_each_reference(trace: Trace) -> list[Trace]:
    """The trace once for each of its expected answers; at least one."""
    texts = trace.expected_any or trace.expected_all or (trace.expected_output,)
    return [
        replace(trace, expected_output=text, expected_any=(), expected_all=()) for text in texts
    ]


def with_reference_list(trace: Trace) -> Trace:
    """The trace with its expected answers as one text, for a model that reads them."""
    texts = trace.expected_any or trace.expected_all
    title = _ONE_IS_ENOUGH if trace.expected_any else _ALL_ARE_NEEDED
    listed = "\n".join((title, *(f"- {text}" for text in texts)))
    return replace(trace, expected_output=listed, expected_any=(), expected_all=())


def choose_reference(trace: Trace, spec: MetricSpec, measurements: Sequence[Measurement]) -> int:
    """The position of the expected answer whose measurement is that of the trace: the best one of `expected_any`, the
    worst one of `expected_all`, the first without a value.
    """
    values = [(m, position) for position, m in enumerate(measurements) if isinstance(m, float)]
    if not values:
        return 0
    is_lower_better = spec.direction is Direction.LOWER_IS_BETTER
    # Of equal values the first reference decides.
    low = min(values)
    high = max(values, key=lambda pair: (pair[0], -pair[1]))
    return (low if is_lower_better is bool(trace.expected_any) else high)[1]
