"""A run as JUnit XML for CI servers."""

from collections.abc import Mapping
from typing import Final

from app.core.reports.junit import JUnitCase, JUnitProblem, junit_xml
from app.harness.reports.view import AttemptStatus, AttemptView, RunReportView

_PROBLEMS: Final[Mapping[AttemptStatus, JUnitProblem]] = {
    AttemptStatus.FAILED: "failure",
    AttemptStatus.ERROR: "error",
    AttemptStatus.SKIPPED: "skipped",
}


def junit_report(view: RunReportView) -> str:
    """One test suite with a test case per attempt."""
    cases = list(map(_case, view.attempts))
    return junit_xml(view.program, cases, timestamp=view.timestamp.removesuffix("Z"))


def _case(attempt: AttemptView) -> JUnitCase:
    problem = _PROBLEMS.get(attempt.status)
    return JUnitCase(
        classname=attempt.group,
        name=attempt.case,
        problem=problem,
        message=attempt.reason,
        type=attempt.error_kind if problem == "error" else None,
        text="\n".join(attempt.failures) if problem == "failure" else None,
        duration_s=attempt.duration_s,
    )
