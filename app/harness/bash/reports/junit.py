"""A run as JUnit XML, which CI servers read."""

import re
from typing import Final
from xml.etree import ElementTree as ET

from app.harness.bash.reports.figures import name_of
from app.harness.bash.summary import summarize
from app.harness.bash.types import EvalReport, EvalResult, Outcome

# XML 1.0 has no place for these, not even escaped.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(report: EvalReport) -> str:
    """A suite of the run with a case for each attempt."""
    summary = summarize(report)
    suite = ET.Element(
        "testsuite",
        name=_text(f"bash-eval {report.title()}"),
        timestamp=_text(report.timestamp.removesuffix("Z")),
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
        classname=_text(result.task.category),
        name=_text(name_of(result)),
        time=f"{result.trace.duration_ms / 1000 if result.trace else 0:.3f}",
    )
    if result.outcome is Outcome.SKIPPED:
        ET.SubElement(case, "skipped", message=_text(result.reason or ""))
    elif result.score is None:
        ET.SubElement(case, "error", message=_text(result.reason or ""))
    elif not result.passed():
        missed = [
            f"{each.check}: {each.detail}" for each in result.score.results if not each.passed
        ]
        failure = ET.SubElement(case, "failure", message=_text(missed[0]))
        failure.text = _text("\n".join(missed))
    return case


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
