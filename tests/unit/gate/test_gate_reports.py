"""A gate as Markdown, JUnit and JSON."""

from dataclasses import replace

import pytest

from mosaico.gating.reports import (
    gate_json,
    gate_junit,
    gate_markdown,
)
from mosaico.gating.rules import GateOutcome, GateResult, GateTerms, decide
from tests.support.texts import assert_names
from tests.unit.gate.changes import NO_TERMS, UNSURE, WORSE, compared


def test_gate_reports__escape_markup() -> None:
    result = decide(compared({"<b>|quality": WORSE}), NO_TERMS)
    assert "\\<b\\>\\|quality" in gate_markdown(result)
    junit = gate_junit(result)
    assert 'failures="1"' in junit
    assert "&lt;b&gt;|quality" in junit


def test_gate_reports__agree_on_outcome_and_numbers() -> None:
    result = decide(compared({"quality": WORSE, "speed": UNSURE}), NO_TERMS)
    document = gate_json(result)
    assert (document["outcome"], document["exitCode"]) == ("REGRESSION", 1)
    [quality, _] = document["checks"]
    assert (quality["effect"], quality["low"], quality["high"]) == pytest.approx((-0.2, -0.3, -0.1))
    numbers = "−0.200 (95 % CI −0.300 to −0.100, p 0.001)"
    markdown = gate_markdown(result)
    [row] = [line for line in markdown.splitlines() if line.startswith("| ❌ REGRESSION |")]
    assert_names(row, "quality", "0.900", "0.700", "−0.200", "−0.300 to −0.100")
    assert f"0.900 → 0.700, {numbers}" in markdown
    assert f"0.900 → 0.700, {numbers}" in gate_junit(result)


def test_markdown__shows_outcome_and_table_first_and_folds_the_rest() -> None:
    result = decide(compared({"speed": UNSURE, "quality": WORSE}), NO_TERMS)
    lines = gate_markdown(result).splitlines()
    folded = lines.index("<details><summary>Explanation</summary>")
    visible = [line for line in lines[:folded] if line]
    assert visible[0].startswith("### ❌ REGRESSION: ")
    # The worst check comes first, whatever its place among the KPIs is.
    assert [line.split(" | ")[1] for line in visible[3:]] == ["quality", "speed"]
    assert max(map(len, visible)) < 120
    assert lines[-1] == "</details>"


def test_gate_reports__lead_to_the_page_of_the_run() -> None:
    page = "https://mosaico.example/runs/run-2"
    result = replace(decide(compared({"quality": WORSE}), NO_TERMS), page=page)
    assert gate_json(result)["page"] == page
    visible, _, _ = gate_markdown(result).partition("<details>")
    assert f"<{page}>" in visible
    assert page in gate_junit(result)
    comparison = "https://mosaico.example/compare?base=run-1&run=run-2"
    linked = replace(result, comparison_page=comparison)
    assert gate_json(linked)["comparisonPage"] == comparison
    visible, _, _ = gate_markdown(linked).partition("<details>")
    assert f"<{comparison}>" in visible
    assert all(f"`{run}`" in visible for run in (linked.candidate, *linked.baselines))


def test_markdown__reason_without_checks_is_visible() -> None:
    result = GateResult(outcome=GateOutcome.INVALID, candidate="run-2", reason="it has FAILED")
    assert gate_markdown(result) == "### 🚫 INVALID: run-2\n\nIt has FAILED.\n"


def test_junit__inconclusive_check_is_a_failure_when_it_does_not_pass() -> None:
    comparison = compared({"quality": UNSURE})
    assert 'skipped="1"' in gate_junit(decide(comparison, NO_TERMS))
    strict = gate_junit(decide(comparison, GateTerms(inconclusive_passes=False)))
    assert 'failures="1"' in strict
    assert 'skipped="0"' in strict
