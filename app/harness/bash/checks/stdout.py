"""What any single call printed on standard output."""

import re
from collections.abc import Iterable

from app.harness.bash.checking import CHECKS, Check, CheckEvidence, CheckResult, CheckWarning
from app.harness.bash.clock import clock_complaints, is_met_by_a_clock
from app.harness.patterns import InvalidPattern, compile_pattern


def stdout_contains(text: str, evidence: CheckEvidence) -> CheckResult:
    if any(text in call.stdout for call in evidence.calls):
        return CheckResult(True, "found")
    return CheckResult(False, f"'{text}' not found in any tool output")


def stdout_regex(text: str, evidence: CheckEvidence) -> CheckResult:
    try:
        pattern = compile_pattern(text)
    except InvalidPattern as invalid:
        return CheckResult(False, f"invalid regex: {invalid}")
    if any(pattern.search(call.stdout) for call in evidence.calls):
        return CheckResult(True, "matched")
    return CheckResult(False, f"pattern '{text}' not matched")


def text_complaints(text: str) -> Iterable[CheckWarning]:
    if not text:
        yield CheckWarning("the text is empty and found in any output")
    elif re.fullmatch(r"[0-9]{1,2}", text):
        yield CheckWarning(
            f"{text!r} has one or two digits only: times and sizes of listings hold it, too",
            unsteady=True,
        )
    elif is_met_by_a_clock(re.escape(text)):
        yield CheckWarning(f"{text!r} may be found in what a clock shows", unsteady=True)


def pattern_complaints(text: str) -> Iterable[CheckWarning]:
    try:
        compile_pattern(text)
    except InvalidPattern as invalid:
        yield CheckWarning(f"invalid pattern: {invalid}", fatal=True)
    else:
        yield from clock_complaints(text)


CHECKS.register(
    "stdout_contains",
    Check(
        summary="one call printed this text, upper and lower case told apart",
        find=stdout_contains,
        complaints=text_complaints,
    ),
)
CHECKS.register(
    "stdout_regex",
    Check(
        summary="this pattern is found in what one call printed",
        find=stdout_regex,
        complaints=pattern_complaints,
    ),
)
