"""A run as JUnit XML for CI servers."""

from xml.etree import ElementTree as ET

from app.core.text import xml_text
from app.harness.reports.view import AttemptStatus, AttemptView, RunReportView


def junit_report(view: RunReportView) -> str:
    """One test suite with a test case per attempt."""
    statuses = [attempt.status for attempt in view.attempts]
    suite = ET.Element(
        "testsuite",
        name=xml_text(view.program),
        timestamp=xml_text(view.timestamp.removesuffix("Z")),
        tests=str(len(statuses)),
        failures=str(statuses.count(AttemptStatus.FAILED)),
        errors=str(statuses.count(AttemptStatus.ERROR)),
        skipped=str(statuses.count(AttemptStatus.SKIPPED)),
        time=f"{sum(attempt.duration_s for attempt in view.attempts):.3f}",
    )
    for attempt in view.attempts:
        suite.append(_case(attempt))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(attempt: AttemptView) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=xml_text(attempt.group),
        name=xml_text(attempt.case),
        time=f"{attempt.duration_s:.3f}",
    )
    message = xml_text(attempt.reason)
    if attempt.status is AttemptStatus.SKIPPED:
        ET.SubElement(case, "skipped", message=message)
    elif attempt.status is AttemptStatus.ERROR:
        error = ET.SubElement(case, "error", message=message)
        if attempt.error_kind is not None:
            error.set("type", attempt.error_kind)
    elif attempt.status is AttemptStatus.FAILED:
        failure = ET.SubElement(case, "failure", message=message)
        failure.text = xml_text("\n".join(attempt.failures))
    return case
