"""The gate of a run: which exit code its figures deserve. Both harnesses use it."""

from enum import IntEnum
from typing import NamedTuple


class HarnessExit(IntEnum):
    """Exit codes of both harness programs."""

    PASSED = 0
    BELOW = 1
    INVALID = 2
    ERRORS = 3


class GateFigures(NamedTuple):
    """The figures that the gate reads; the pass rate is None when no attempt has a verdict."""

    errored: int
    missing: int
    pass_rate: float | None


def decide_exit(figures: GateFigures, min_pass_rate: float) -> HarnessExit:
    """Errors and missing attempts outrank the pass rate; a run without verdicts passes."""
    if figures.errored or figures.missing:
        return HarnessExit.ERRORS
    if figures.pass_rate is not None and figures.pass_rate < min_pass_rate:
        return HarnessExit.BELOW
    return HarnessExit.PASSED
