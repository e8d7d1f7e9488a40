"""Whether a run passes: the decision of both harnesses."""

from enum import IntEnum
from typing import NamedTuple


class Verdict(IntEnum):
    """What a command exits with."""

    PASSED = 0
    BELOW = 1
    MISTAKES = 2
    ERRORS = 3


class Figures(NamedTuple):
    """What the gate looks at; the rate is None where no attempt has a verdict."""

    errored: int
    missing: int
    pass_rate: float | None


def verdict(found: Figures, least: float) -> Verdict:
    """Errors and what was not reached come before the rate; nothing to judge is no failure."""
    if found.errored or found.missing:
        return Verdict.ERRORS
    if found.pass_rate is not None and found.pass_rate < least:
        return Verdict.BELOW
    return Verdict.PASSED
