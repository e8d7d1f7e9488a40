"""Levels and changes of a series on the scale of its value: those of times, costs and tokens are logarithms; pure."""

import math
import sys
from typing import Final, NamedTuple

from mosaico.kpis.number_text import format_amount
from mosaico.kpis.series_types import RunsEvidence

# Means of the same level differ by rounding.
ZERO_TOLERANCE: Final = 1e-9
# The exponential of a larger number is no float.
LARGEST_LOGARITHM: Final = math.log(sys.float_info.max)


def is_zero_level(level: float, zero_level: float | None) -> bool:
    """Return whether a level stands for the value 0: whether all runs behind it have this value."""
    return zero_level is not None and level <= zero_level + ZERO_TOLERANCE


def value_of_level(level: float, evidence: RunsEvidence, *, is_relative: bool) -> float:
    """The value that has a level of this evidence; `is_relative` marks levels that are logarithms."""
    if is_zero_level(level, evidence.zero_level):
        return 0.0
    return math.exp(min(level, LARGEST_LOGARITHM)) if is_relative else level


def amount_of_change(change: float, *, is_relative: bool) -> float:
    """A change of a level: a difference of values, or a fraction where levels are logarithms."""
    return math.expm1(min(change, LARGEST_LOGARITHM)) if is_relative else change


class EvidenceText(NamedTuple):
    """A change with the range in which it likely is, each with its sign, such as "+12.5 %"."""

    change: str
    low: str
    high: str
    is_typical: bool = False

    @classmethod
    def of(
        cls, evidence: RunsEvidence | None, *, is_share: bool, is_relative: bool
    ) -> "EvidenceText | None":
        """None where the evidence has no change."""
        if (
            evidence is None
            or evidence.effect is None
            or evidence.low is None
            or evidence.high is None
        ):
            return None
        texts = (
            format_amount(
                amount_of_change(amount, is_relative=is_relative),
                is_share=is_share,
                is_relative=is_relative,
                has_sign=True,
            )
            for amount in (evidence.effect, evidence.low, evidence.high)
        )
        change, low, high = texts
        return cls(change, low, high, evidence.is_typical)

    def __str__(self) -> str:
        item = " of a typical item" if self.is_typical else ""
        return f"change {self.change}{item}, likely {self.low} to {self.high}"
