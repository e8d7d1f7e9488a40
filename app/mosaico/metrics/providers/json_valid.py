"""JSON_VALID: whether an output is valid JSON."""

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from mosaico.core.strict_json import refuse_constant
from mosaico.metrics.registry import METRICS
from mosaico.metrics.types import MetricProvider, MetricSpec, Need
from mosaico.traces.types import Trace

MAX_DEPTH: Final = 500  # levels; Python's parser fails somewhat deeper, at a depth that varies

_TEXT_OR_REST: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[^\[\]{}"]++', re.DOTALL)
_BLANKS: Final = " \t\n\r"
_BEGINNINGS: Final = '{["-0123456789tfn'
_STEPS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonValid:
    """1 when the output is one JSON text and nothing else, else 0."""

    spec: MetricSpec

    def supports(self, trace: Trace) -> bool:
        return trace.output is not None

    def compute(self, trace: Trace) -> float:
        return float(is_json(trace.output or ""))


def json_valid() -> MetricProvider:
    return JsonValid(
        spec=MetricSpec(
            key="JSON_VALID",
            description="1 when the output is one JSON text and nothing else, else 0",
            source="RFC 8259 §2",
            worst=0.0,
            needs=frozenset({Need.OUTPUT}),
        )
    )


def is_json(text: str) -> bool:
    """Return whether the text conforms to the JSON grammar and is at most 500 levels deep.

    NaN and Infinity are not JSON. The grammar allows duplicate keys, numbers of any size and an
    escaped lone surrogate.
    """
    # Most outputs are prose: an error of the parser, which counts lines, takes ten times as long.
    if text.lstrip(_BLANKS)[:1] not in _BEGINNINGS:
        return False
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        return False
    try:
        _DECODER.decode(text)
    except ValueError:
        return False
    return True


def _depth(text: str) -> int:
    brackets = _TEXT_OR_REST.sub("", text)
    return max(accumulate(_STEPS.get(sign, 0) for sign in brackets), default=0)


_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=refuse_constant)

METRICS.register("JSON_VALID", json_valid)
