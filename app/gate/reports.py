"""What a gate says, for a CI server (JUnit XML), for a pull request (Markdown), for a program."""

from typing import Any
from xml.etree import ElementTree as ET

from app.core.text import xml_text
from app.gate.rules import GateLine, GateOutcome, GateResult

_MARKS = {
    GateOutcome.PASS: "✅",
    GateOutcome.REGRESSION: "❌",
    GateOutcome.INVALID: "🚫",
    GateOutcome.INCONCLUSIVE: "❔",
}


def gate_json(result: GateResult) -> dict[str, Any]:
    """The result as a document."""
    return {
        "outcome": result.outcome,
        "run": result.run,
        "baseline": result.against,
        "baselineRunIds": list(result.baselines),
        "reason": result.reason,
        "differs": list(result.differs),
        "lines": [
            {
                "name": line.name,
                "asked": line.asked,
                "outcome": line.outcome,
                "base": line.base,
                "value": line.value,
                "effect": line.effect,
                "low": line.low,
                "high": line.high,
                "pAdjusted": line.p_adjusted,
                "explanation": line.explanation,
            }
            for line in result.lines
        ],
    }


def gate_junit(result: GateResult) -> str:
    """A suite of the gate with a case for each KPI: a regression is a failure, an invalid run an
    error, what is not certain is skipped.
    """
    lines = result.lines or [_whole(result)]
    counts = {each: str(sum(line.outcome is each for line in lines)) for each in GateOutcome}
    suite = ET.Element(
        "testsuite",
        name=xml_text(f"mosaico gate {result.run}"),
        tests=str(len(lines)),
        failures=counts[GateOutcome.REGRESSION],
        errors=counts[GateOutcome.INVALID],
        skipped=counts[GateOutcome.INCONCLUSIVE],
    )
    for line in lines:
        suite.append(_case(result, line))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def gate_markdown(result: GateResult) -> str:
    """A summary that is short enough for a pull request."""
    head = f"### {_MARKS[result.outcome]} {result.outcome}: {_plain(result.run)}"
    against = f"Compared with {_plain(result.against)}." if result.against else ""
    said = [head, "", " ".join(filter(None, [against, _plain(result.reason)]))]
    if result.lines:
        said += [
            "",
            "| | KPI | Asked | Before | Now | Change (95 %) |",
            "|---|---|---|---:|---:|---|",
            *(_row(line) for line in result.lines),
            "",
            *(f"- {_plain(line.explanation)}" for line in result.lines),
        ]
    if result.differs:
        said += ["", f"Unlike the baseline: {_plain('; '.join(result.differs))}."]
    return "\n".join(said) + "\n"


def change_of(line: GateLine) -> str:
    """The change with its interval; nothing where nothing was compared."""
    if line.effect is None:
        return ""
    reach = (
        "" if line.low is None or line.high is None else f" ({line.low:+.3g} to {line.high:+.3g})"
    )
    return f"{line.effect:+.3g}{reach}"


def _whole(result: GateResult) -> GateLine:
    return GateLine(
        name="run", asked="valid", outcome=result.outcome, explanation=result.reason or ""
    )


def _case(result: GateResult, line: GateLine) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=xml_text(f"mosaico.{result.run}"),
        name=xml_text(f"{line.name}: {line.asked}"),
    )
    tags = {
        GateOutcome.REGRESSION: "failure",
        GateOutcome.INVALID: "error",
        GateOutcome.INCONCLUSIVE: "skipped",
    }
    if line.outcome in tags:
        ET.SubElement(case, tags[line.outcome], message=xml_text(line.explanation))
    return case


def _row(line: GateLine) -> str:
    cells = [
        _MARKS[line.outcome],
        _plain(line.name),
        line.asked,
        "" if line.base is None else f"{line.base:.4g}",
        "" if line.value is None else f"{line.value:.4g}",
        change_of(line),
    ]
    return f"| {' | '.join(cells)} |"


def _plain(text: str | None) -> str:
    """A text of a user that stays one line and starts no markup."""
    words = " ".join((text or "").split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#~@" else char for char in words)
