"""Gate results as JSON, as JUnit XML for CI servers and as Markdown for pull requests."""

from typing import Any
from xml.etree import ElementTree as ET

from app.core.text import xml_text
from app.gate.rules import GateCheck, GateOutcome, GateResult

_MARKS = {
    GateOutcome.PASS: "✅",
    GateOutcome.REGRESSION: "❌",
    GateOutcome.INVALID: "🚫",
    GateOutcome.INCONCLUSIVE: "❔",
}


def gate_json(result: GateResult) -> dict[str, Any]:
    """The gate result as a JSON document."""
    return {
        "outcome": result.outcome,
        "candidate": result.candidate,
        "baseline": result.baseline,
        "baselineRunIds": list(result.baselines),
        "reason": result.reason,
        "differences": list(result.differences),
        "checks": [
            {
                "name": check.name,
                "requirement": check.requirement,
                "outcome": check.outcome,
                "baselineValue": check.baseline_value,
                "value": check.value,
                "effect": check.effect,
                "low": check.low,
                "high": check.high,
                "pAdjusted": check.p_adjusted,
                "explanation": check.explanation,
            }
            for check in result.checks
        ],
    }


def gate_junit(result: GateResult) -> str:
    """A test suite with one test case per check: a regression is a failure, an invalid run an error,
    an inconclusive check is skipped.
    """
    checks = result.checks or [_run_check(result)]
    counts = {
        outcome: str(sum(check.outcome is outcome for check in checks)) for outcome in GateOutcome
    }
    suite = ET.Element(
        "testsuite",
        name=xml_text(f"mosaico gate {result.candidate}"),
        tests=str(len(checks)),
        failures=counts[GateOutcome.REGRESSION],
        errors=counts[GateOutcome.INVALID],
        skipped=counts[GateOutcome.INCONCLUSIVE],
    )
    for check in checks:
        suite.append(_test_case(result, check))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def gate_markdown(result: GateResult) -> str:
    """A summary for a pull request."""
    title = f"### {_MARKS[result.outcome]} {result.outcome}: {_escape(result.candidate)}"
    baseline = f"Compared with {_escape(result.baseline)}." if result.baseline else ""
    lines = [title, "", " ".join(filter(None, [baseline, _escape(result.reason)]))]
    if result.checks:
        lines += [
            "",
            "| | KPI | Requirement | Baseline | Candidate | Change (95 % CI) |",
            "|---|---|---|---:|---:|---|",
            *(_row(check) for check in result.checks),
            "",
            *(f"- {_escape(check.explanation)}" for check in result.checks),
        ]
    if result.differences:
        lines += ["", f"Differences from the baseline: {_escape('; '.join(result.differences))}."]
    return "\n".join(lines) + "\n"


def format_change(check: GateCheck) -> str:
    """The change with its interval; empty when nothing was compared."""
    if check.effect is None:
        return ""
    if check.low is None or check.high is None:
        return f"{check.effect:+.3g}"
    return f"{check.effect:+.3g} ({check.low:+.3g} to {check.high:+.3g})"


def _run_check(result: GateResult) -> GateCheck:
    """The single check of a gate whose run could not be compared."""
    return GateCheck(
        name="run", requirement="valid", outcome=result.outcome, explanation=result.reason or ""
    )


def _test_case(result: GateResult, check: GateCheck) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=xml_text(f"mosaico.{result.candidate}"),
        name=xml_text(f"{check.name}: {check.requirement}"),
    )
    tags = {
        GateOutcome.REGRESSION: "failure",
        GateOutcome.INVALID: "error",
        GateOutcome.INCONCLUSIVE: "skipped",
    }
    if check.outcome in tags:
        ET.SubElement(case, tags[check.outcome], message=xml_text(check.explanation))
    return case


def _row(check: GateCheck) -> str:
    cells = [
        _MARKS[check.outcome],
        _escape(check.name),
        check.requirement,
        "" if check.baseline_value is None else f"{check.baseline_value:.4g}",
        "" if check.value is None else f"{check.value:.4g}",
        format_change(check),
    ]
    return f"| {' | '.join(cells)} |"


def _escape(text: str | None) -> str:
    """A text as one line without Markdown markup: KPI names come from users."""
    words = " ".join((text or "").split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#~@" else char for char in words)
