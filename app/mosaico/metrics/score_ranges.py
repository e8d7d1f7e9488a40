"""Between which values a score of a source lies; pure."""

import math
import re
from typing import Final, NamedTuple

from mosaico.core.errors import Invalid

_RANGE: Final = re.compile(r"\s*(\S+?)\s*\.\.\s*(\S+)\s*")
_WORD: Final = re.compile(r"[A-Z]+\d*(?![a-z])|[A-Z]?[a-z]+\d*|\d+")
# Shares of something that is counted: none of it is 0, whether all of it is 1 or 100.
_SHARES: Final = frozenset(
    {
        "acc", "accuracy", "correct", "em", "f1", "match", "pass", "passed", "precision", "recall", "resolved",
        "solved", "success", "win",
    }
)  # fmt: skip
# Words beside which a share stays one.
_NEUTRAL: Final = frozenset(
    {
        "answer",
        "exact",
        "eval",
        "final",
        "mean",
        "output",
        "rate",
        "response",
        "score",
        "task",
        "test",
    }
)


class ScoreRange(NamedTuple):
    """The smallest and the largest value of a score; None where it is not known."""

    minimum: float | None
    maximum: float | None


def parse_range(text: str) -> ScoreRange:
    """A range such as `0..1` or `-1 .. 1`. Raises: `Invalid` for any other text, and for one that is empty."""
    match = _RANGE.fullmatch(text)
    try:
        low, high = (float(end) for end in match.groups()) if match else (math.nan, math.nan)
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise Invalid(f"range is {text!r}; write the smallest and the largest value, such as 0..1")
    return ScoreRange(low, high)


def is_share(name: str) -> bool:
    """Return whether a score is a share by its name, as accuracy or pass rate: then 0 is the least."""
    words = [word.lower() for word in _WORD.findall(name)]
    return bool({*words} & _SHARES) and {*words} <= _SHARES | _NEUTRAL
