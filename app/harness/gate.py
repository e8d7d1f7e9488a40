"""Whether a run passes: the decision of both harnesses."""

from enum import IntEnum
from typing import NamedTuple


class HarnessExit(IntEnum):
    """What a command exits with."""

    PASSED = 0
    BELOW = 1
    MISTAKES = 2
    ERRORS = 3


class GateFigures(NamedTuple):
    """What the gate looks at; the rate is None where no attempt has a verdict."""

    errored: int
    missing: int
    pass_rate: float | None


def decide_exit(found: GateFigures, least: float) -> HarnessExit:
    """Errors and what was not reached come before the rate; nothing to judge is no failure."""
    if found.errored or found.missing:
        return HarnessExit.ERRORS
    if found.pass_rate is not None and found.pass_rate < least:
        return HarnessExit.BELOW
    return HarnessExit.PASSED
