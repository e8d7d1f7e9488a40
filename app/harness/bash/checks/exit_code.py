"""The exit code of the last call, which counts as the exit code of the task."""

import re
from collections.abc import Iterable

from app.harness.bash.check_registry import (
    CHECKS,
    Check,
    CheckEvidence,
    CheckResult,
    CheckWarning,
)

NO_CALL = -1
_CODE = re.compile(r"[+-]?[0-9]{1,9}")


def exit_code(value: str, evidence: CheckEvidence) -> CheckResult:
    # Like the original evaluation: an invalid code is read as 0.
    expected = int(value) if _CODE.fullmatch(value) else 0
    actual = evidence.calls[-1].exit_code if evidence.calls else NO_CALL
    return CheckResult(actual == expected, f"expected {expected}, got {actual}")


def exit_code_warnings(value: str) -> Iterable[CheckWarning]:
    if not _CODE.fullmatch(value):
        yield CheckWarning(f"{value!r} is not an exit code and is read as 0")


CHECKS.register(
    "exit_code",
    Check(
        summary="the last call exited with this code; -1 without calls",
        evaluate=exit_code,
        warnings=exit_code_warnings,
    ),
)
