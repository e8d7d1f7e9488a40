"""How often the tool was called."""

import re
from collections.abc import Iterable

from app.harness.bash.checking import CHECKS, Check, CheckEvidence, CheckResult, CheckWarning

NO_LIMIT = 2**64 - 1
_COUNT = re.compile(r"\+?[0-9]{1,19}")


def tool_calls_min(value: str, evidence: CheckEvidence) -> CheckResult:
    least, count = _count(value, 0), len(evidence.calls)
    return CheckResult(count >= least, f"expected >= {least}, got {count}")


def tool_calls_max(value: str, evidence: CheckEvidence) -> CheckResult:
    most, count = _count(value, NO_LIMIT), len(evidence.calls)
    return CheckResult(count <= most, f"expected <= {most}, got {count}")


def complaints(value: str) -> Iterable[CheckWarning]:
    if not _COUNT.fullmatch(value):
        yield CheckWarning(f"{value!r} is no number, so the check passes always")


def _count(value: str, otherwise: int) -> int:
    return int(value) if _COUNT.fullmatch(value) else otherwise


CHECKS.register(
    "tool_calls_min",
    Check(summary="at least so many calls", find=tool_calls_min, complaints=complaints),
)
CHECKS.register(
    "tool_calls_max",
    Check(summary="at most so many calls", find=tool_calls_max, complaints=complaints),
)
