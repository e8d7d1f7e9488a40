"""A run as JUnit XML, which CI servers read."""

from xml.etree import ElementTree as ET

from app.core.text import xml_text
from app.harness.bash.reports.figures import name_of
from app.harness.bash.summary import summarize
from app.harness.bash.types import EvalReport, EvalResult
from app.harness.results import AttemptOutcome


def junit_report(report: EvalReport) -> str:
    """A suite of the run with a case for each attempt."""
    summary = summarize(report)
    suite = ET.Element(
        "testsuite",
        name=xml_text(f"bash-eval {report.title()}"),
        timestamp=xml_text(report.timestamp.removesuffix("Z")),
        tests=str(len(report.results)),
        failures=str(summary.tasks_scored - summary.total_passed),
        errors=str(summary.tasks_errored),
        skipped=str(summary.tasks_skipped),
        time=f"{summary.total_duration_ms / 1000:.3f}",
    )
    for each in report.results:
        suite.append(_case(each))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(result: EvalResult) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=xml_text(result.task.category),
        name=xml_text(name_of(result)),
        time=f"{result.trace.duration_ms / 1000 if result.trace else 0:.3f}",
    )
    if result.outcome is AttemptOutcome.SKIPPED:
        ET.SubElement(case, "skipped", message=xml_text(result.reason or ""))
    elif result.score is None:
        ET.SubElement(case, "error", message=xml_text(result.reason or ""))
    elif not result.passed():
        missed = [
            f"{each.check}: {each.detail}" for each in result.score.results if not each.passed
        ]
        failure = ET.SubElement(case, "failure", message=xml_text(missed[0]))
        failure.text = xml_text("\n".join(missed))
    return case
