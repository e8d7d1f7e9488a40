"""SCORE: scores that the source delivered with the traces."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mosaico.core.errors import Invalid
from mosaico.metrics.registry import METRICS, version_with
from mosaico.metrics.score_directions import direction_of_score
from mosaico.metrics.score_ranges import ScoreRange, is_share, parse_range
from mosaico.metrics.types import Direction, MetricProvider, MetricSpec, worst_of_range
from mosaico.traces.types import Trace

ANY_LABEL: Final = "*"


@dataclass(frozen=True, slots=True)
class TraceScore:
    """A score by name; a trace without it is skipped, unless the agent failed."""

    name: str
    spec: MetricSpec

    def supports(self, trace: Trace) -> bool:
        return self.name in trace.scores

    def compute(self, trace: Trace) -> float:
        return trace.scores[self.name]


@dataclass(frozen=True, slots=True)
class LabelScore:
    """A categorical score, which is an attribute of the trace, as a number.

    `numbers` has the number of each label; that of `*` counts for any other label. A trace without
    the score, or with a label that has no number, is skipped.
    """

    name: str
    numbers: Mapping[str, float]
    spec: MetricSpec

    def supports(self, trace: Trace) -> bool:
        label = trace.attributes.get(self.name)
        return label is not None and (label in self.numbers or ANY_LABEL in self.numbers)

    def compute(self, trace: Trace) -> float:
        label = trace.attributes[self.name]
        return self.numbers.get(label, self.numbers.get(ANY_LABEL, 0.0))


def score(
    *,
    name: str = "",
    labels: str = "",
    better: Literal["", "higher", "lower"] = "",
    range: str = "",  # noqa: A002 - the name of the option
    stated: Literal["", "higher", "lower"] = "",
) -> MetricProvider:
    numbers = _parse_labels(labels) if labels else None
    direction = direction_of_score(name, better, stated).direction
    ends = parse_range(range) if range else ScoreRange(None, None)
    spec = MetricSpec(
        key=f"SCORE[{json.dumps(name, ensure_ascii=False)}]",
        description=(
            "Score of the trace with the name in the option `name`. The option `labels` maps "
            "the labels of a categorical score to numbers. The option `better` says which values are"
            " better, `higher` or `lower`; without it `stated` does, the direction that the source states, and without"
            " both the name, where it means one thing everywhere. The option `range`, such as 0..1, says between which"
            " values it lies"
        ),
        source="the trace itself",
        version=version_with("2", labels=labels, better=better, range=range),
        unit="score",
        minimum=ends.minimum,
        maximum=ends.maximum,
        direction=direction,
        worst=_worst(name, ends, numbers, direction),
        measures_failures=True,
        is_delivered=True,
    )
    return TraceScore(name, spec) if numbers is None else LabelScore(name, numbers, spec)


def _worst(
    name: str, ends: ScoreRange, numbers: Mapping[str, float] | None, direction: Direction
) -> float | None:
    """The worst value of a score: of its range, otherwise of the numbers of its labels, otherwise by its name."""
    if ends.maximum is None and numbers:
        ends = ScoreRange(min(numbers.values()), max(numbers.values()))
    if ends.maximum is None and is_share(name):
        ends = ScoreRange(0.0, None)
    return worst_of_range(*ends, direction)


def _parse_labels(text: str) -> dict[str, float]:
    """The numbers of labels, such as `good=1, bad=0, *=0.5`. Raises: `Invalid`."""
    numbers: dict[str, float] = {}
    for part in text.split(","):
        label, _, number_text = part.rpartition("=")
        try:
            number = float(number_text)
        except ValueError:
            number = math.nan
        if not label.strip() or not math.isfinite(number):
            raise Invalid(
                f"labels has {part.strip()!r}, which is not label=number; write for example"
                " good=1,bad=0,*=0.5"
            )
        numbers[label.strip()] = number
    return numbers


METRICS.register("SCORE", score)
