"""A run as JUnit XML, which CI servers read."""

from xml.etree import ElementTree as ET

from app.core.text import xml_text
from app.harness.mcp.reports.figures import name_of, reason
from app.harness.mcp.summary import summarize
from app.harness.mcp.types import McpReport, TaskResult
from app.harness.results import AttemptOutcome


def junit_report(report: McpReport) -> str:
    """A suite of the run with a case for each attempt."""
    summary = summarize(report)
    suite = ET.Element(
        "testsuite",
        name="ot-bench",
        timestamp=xml_text(report.timestamp.removesuffix("Z")),
        tests=str(len(report.results)),
        failures=str(summary.failed),
        errors=str(summary.errors),
        skipped=str(sum(each.outcome is AttemptOutcome.SKIPPED for each in report.results)),
        time=f"{summary.duration_ms / 1000:.3f}",
    )
    for each in report.results:
        suite.append(_case(each))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(result: TaskResult) -> ET.Element:
    name = f"{name_of(result)} [{result.model}]" if result.model else name_of(result)
    case = ET.Element(
        "testcase",
        classname=xml_text(f"{result.file}.{result.scenario}"),
        name=xml_text(name),
        time=f"{result.duration_ms / 1000:.3f}",
    )
    why = xml_text(reason(result))
    if result.outcome is AttemptOutcome.SKIPPED:
        ET.SubElement(case, "skipped", message=why)
    elif result.error is not None:
        ET.SubElement(case, "error", message=why, type=result.error.kind)
    elif result.passed is False:
        failure = ET.SubElement(case, "failure", message=why)
        failure.text = xml_text(result.response or "")
    return case
