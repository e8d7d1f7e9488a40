"""The number of tool calls."""

import re
from collections.abc import Iterable

from mosaico.harness.bash.check_registry import (
    CHECKS,
    Check,
    CheckEvidence,
    CheckResult,
    CheckWarning,
)

NO_LIMIT = 2**64 - 1
_COUNT = re.compile(r"\+?[0-9]{1,19}")


def tool_calls_min(value: str, evidence: CheckEvidence) -> CheckResult:
    minimum, count = _number(value, default=0), len(evidence.calls)
    return CheckResult(count >= minimum, f"expected >= {minimum}, got {count}")


def tool_calls_max(value: str, evidence: CheckEvidence) -> CheckResult:
    maximum, count = _number(value, default=NO_LIMIT), len(evidence.calls)
    return CheckResult(count <= maximum, f"expected <= {maximum}, got {count}")


def count_warnings(value: str) -> Iterable[CheckWarning]:
    if not _COUNT.fullmatch(value):
        yield CheckWarning(f"{value!r} is not a number, so the check always passes")


def _number(value: str, *, default: int) -> int:
    return int(value) if _COUNT.fullmatch(value) else default


CHECKS.register(
    "tool_calls_min",
    Check(summary="at least N calls", evaluate=tool_calls_min, warnings=count_warnings),
)
CHECKS.register(
    "tool_calls_max",
    Check(summary="at most N calls", evaluate=tool_calls_max, warnings=count_warnings),
)
