"""What the calls wrote and how the last one exited, and checks that the clock can satisfy by chance.

Listings and `date` print times and sizes, so that `stdout_contains:3` passes at some minutes only.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from mosaico.harness.bash.check_registry import (
    CHECKS,
    Check,
    CheckEvidence,
    CheckResult,
    CheckWarning,
)
from mosaico.harness.text_search import InvalidPattern, compile_pattern

_SMALL_NUMBER = re.compile(r"(?<![0-9{,\\])[0-9]{1,2}\.[*+]|\.[*+][0-9]{1,2}(?![0-9},])")


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


def text_warnings(text: str) -> Iterable[CheckWarning]:
    if not text:
        yield CheckWarning("the text is empty, so every output contains it")
    elif re.fullmatch(r"[0-9]{1,2}", text):
        yield CheckWarning(
            f"{text!r} has only one or two digits; times and sizes in listings also contain it",
            is_unstable=True,
        )
    elif matches_clock(re.escape(text)):
        yield CheckWarning(f"{text!r} may match a time or date", is_unstable=True)


def pattern_warnings(text: str) -> Iterable[CheckWarning]:
    try:
        compile_pattern(text)
    except InvalidPattern as invalid:
        yield CheckWarning(f"invalid pattern: {invalid}", is_fatal=True)
    else:
        yield from clock_warnings(text)


def clock_warnings(pattern: str) -> Iterable[CheckWarning]:
    """Return the reason why a valid pattern may match by chance, depending on the time of
    the run.
    """
    if matches_clock(pattern):
        yield CheckWarning(f"the pattern {pattern!r} may match a time or date", is_unstable=True)
    elif _SMALL_NUMBER.search(pattern):
        yield CheckWarning(
            f"the pattern {pattern!r} has a number of one or two digits next to any text;"
            " times and sizes in listings also match",
            is_unstable=True,
        )


def matches_clock(pattern: str) -> bool:
    """Return whether a pattern matches a time or date; a pattern that matches any text does not
    count.
    """
    compiled = compile_pattern(pattern)
    return compiled.search("") is None and compiled.search(_times_and_dates()) is not None


@cache
def _times_and_dates() -> str:
    """Every minute of a day and every day of a year, as `ls -l` and `date` print them."""
    return "\n".join([*_times(), *_dates()])


def _times() -> Iterator[str]:
    for hour in range(24):
        for minute in range(60):
            yield f"{hour:02}:{minute:02}:{minute:02}"


def _dates() -> Iterator[str]:
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    for number, name in enumerate(months, start=1):
        for day in range(1, 32):
            yield f"2026-{number:02}-{day:02}"
            yield f"{name} {day:2}"


CHECKS.register(
    "stdout_contains",
    Check(
        summary="the output of one call contains this text; the comparison is case-sensitive",
        evaluate=stdout_contains,
        warnings=text_warnings,
    ),
)
CHECKS.register(
    "stdout_regex",
    Check(
        summary="the output of one call matches this pattern",
        evaluate=stdout_regex,
        warnings=pattern_warnings,
    ),
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


SHOWN = 100  # characters


def stderr_empty(_: str, evidence: CheckEvidence) -> CheckResult:
    first_text = next((call.stderr for call in evidence.calls if call.stderr), None)
    if first_text is None:
        return CheckResult(True, "all stderr empty")
    return CheckResult(False, f"stderr: {first_text[:SHOWN]}")


CHECKS.register(
    "stderr_empty", Check(summary="no call wrote to standard error", evaluate=stderr_empty)
)
