"""How often the tool was called."""

import re
from collections.abc import Iterable

from app.harness.bash.checking import CHECKS, Check, Complaint, Evidence, Found

NO_LIMIT = 2**64 - 1
_COUNT = re.compile(r"\+?[0-9]{1,19}")


def tool_calls_min(value: str, evidence: Evidence) -> Found:
    least, count = _count(value, 0), len(evidence.calls)
    return Found(count >= least, f"expected >= {least}, got {count}")


def tool_calls_max(value: str, evidence: Evidence) -> Found:
    most, count = _count(value, NO_LIMIT), len(evidence.calls)
    return Found(count <= most, f"expected <= {most}, got {count}")


def complaints(value: str) -> Iterable[Complaint]:
    if not _COUNT.fullmatch(value):
        yield Complaint(f"{value!r} is no number, so the check passes always")


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
