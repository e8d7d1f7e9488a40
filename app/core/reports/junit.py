"""JUnit XML for CI servers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

from app.core.text import xml_text

JUnitProblem = Literal["failure", "error", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JUnitCase:
    """A test case; `problem` is the element that says why it did not pass, None for a passed one."""

    classname: str
    name: str
    problem: JUnitProblem | None = None
    message: str = ""
    type: str | None = None
    text: str | None = None
    duration_s: float | None = None


def junit_xml(name: str, cases: Sequence[JUnitCase], *, timestamp: str | None = None) -> str:
    """A document of one test suite; with durations, its time is their sum."""
    problems = [case.problem for case in cases]
    durations = [case.duration_s for case in cases if case.duration_s is not None]
    suite = _element(
        "testsuite",
        name=name,
        timestamp=timestamp,
        tests=str(len(cases)),
        failures=str(problems.count("failure")),
        errors=str(problems.count("error")),
        skipped=str(problems.count("skipped")),
        time=f"{sum(durations):.3f}" if durations else None,
    )
    suite.extend(map(_case_element, cases))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case_element(case: JUnitCase) -> ET.Element:
    time = None if case.duration_s is None else f"{case.duration_s:.3f}"
    element = _element("testcase", classname=case.classname, name=case.name, time=time)
    if case.problem is not None:
        problem = _element(case.problem, message=case.message, type=case.type)
        problem.text = None if case.text is None else xml_text(case.text)
        element.append(problem)
    return element


def _element(tag: str, **attributes: str | None) -> ET.Element:
    present = {name: xml_text(text) for name, text in attributes.items() if text is not None}
    return ET.Element(tag, present)
