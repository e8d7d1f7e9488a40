"""JSON_EQUAL: whether an output is the expected JSON value, whatever the order of its keys and its blanks."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from mosaico.core.strict_json import refuse_constant
from mosaico.metrics.registry import METRICS
from mosaico.metrics.text_metric import BOTH_TEXTS
from mosaico.metrics.types import MetricProvider, MetricSpec
from mosaico.traces.types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonEqual:
    """1 when both texts are the same JSON value, else 0; an expected text that is not JSON is skipped."""

    spec: MetricSpec

    def supports(self, trace: Trace) -> bool:
        return trace.output is not None and _parse(trace.expected_output or "") is not _NOT_JSON

    def compute(self, trace: Trace) -> float:
        output = _parse(trace.output or "")
        return float(output is not _NOT_JSON and output == _parse(trace.expected_output or ""))


def json_equal() -> MetricProvider:
    return JsonEqual(
        spec=MetricSpec(
            key="JSON_EQUAL",
            description="1 when both texts are the same JSON value, whatever the order of keys and blanks, else 0",
            source="RFC 8259 §4: the members of an object have no order",
            worst=0.0,
            needs=BOTH_TEXTS,
        )
    )


_NOT_JSON: Final = object()


class _Word:
    """true or false, which Python takes for the numbers 1 and 0."""

    def __init__(self, value: bool) -> None:  # noqa: FBT001 - the only argument
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Word) and self.value is other.value

    def __hash__(self) -> int:
        return hash(self.value)


def _parse(text: str) -> Any:
    """The value of a JSON text: 1.0 equals 1, and true does not; `_NOT_JSON` for another text."""
    try:
        value = json.loads(
            text, parse_int=Decimal, parse_float=Decimal, parse_constant=refuse_constant
        )
        return _with_words(value)
    except (ValueError, ArithmeticError, RecursionError):
        return _NOT_JSON


def _with_words(value: Any) -> Any:
    if isinstance(value, bool):
        return _Word(value)
    if isinstance(value, list):
        return [_with_words(member) for member in value]
    if isinstance(value, dict):
        return {name: _with_words(member) for name, member in value.items()}
    return value


METRICS.register("JSON_EQUAL", json_equal)
