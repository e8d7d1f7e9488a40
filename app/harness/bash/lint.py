"""What is wrong with a dataset before anybody has paid for running it."""

from collections.abc import Iterable

from app.core.registry import suggest_names
from app.harness.bash.checking import CHECKS, split_check
from app.harness.bash.dataset import Dataset, Finding, PlacedTask, Severity


def lint(dataset: Dataset) -> list[Finding]:
    """Everything to mend, in the order of the lines: what was found on reading, then the checks."""
    found = [*dataset.findings, *(each for placed in dataset.placed for each in _task(placed))]
    return sorted(found, key=lambda finding: finding.line)


def _task(placed: PlacedTask) -> Iterable[Finding]:
    seen: set[str] = set()
    for expectation in placed.task.expectations:
        if expectation.check in seen:
            yield _finding(placed, f"{expectation.check!r} stands there twice")
        seen.add(expectation.check)
        yield from _check(placed, expectation.check)
    if not any(expectation.weight > 0 for expectation in placed.task.expectations):
        yield _finding(placed, "no expectation has weight, so the task scores 100 % always")


def _check(placed: PlacedTask, text: str) -> Iterable[Finding]:
    name, value = split_check(text)
    check = CHECKS.find(name)
    if check is None:
        near = suggest_names(name, CHECKS.names())
        yield _finding(placed, f"{text!r}: no check is named {name!r}.{near}", fatal=True)
        return
    for complaint in check.complaints(value):
        yield _finding(placed, f"{text!r}: {complaint.text}", fatal=complaint.fatal)


def _finding(placed: PlacedTask, text: str, *, fatal: bool = False) -> Finding:
    return Finding(
        line=placed.line,
        severity=Severity.ERROR if fatal else Severity.WARNING,
        text=f"{placed.task.id}: {text}",
    )
