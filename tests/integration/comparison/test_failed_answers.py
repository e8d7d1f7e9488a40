"""Failed answers count in every verdict: in files, in Python and in stored runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

import mosaico
from mosaico.cli import cli
from tests.support.service import JSON

FileGate = Callable[..., tuple[int, JSON]]
ITEMS: Final = 60
FAILED: Final = 40
NAME: Final = "quality"
COLUMN: Final = f'SCORE["{NAME}"]'


def night(
    failed: int = 0, *, recorded: float | None = None, scored: int = ITEMS, name: str = NAME
) -> list[JSON]:
    """Answers with a score of 0.7 each, of which the last ones failed, with a `recorded` score or none."""
    rows: list[JSON] = []
    for item in range(ITEMS):
        row: JSON = {"traceId": f"t{item}", "itemId": f"q{item:02}", "input": f"question {item}"}
        if item < ITEMS - failed:
            row |= {"output": "an answer", "scores": {name: 0.7} if item < scored else {}}
        else:
            row |= {"outcome": "agent_error", "error": "crashed"}
            row |= {"scores": {} if recorded is None else {name: recorded}}
        rows.append(row)
    return rows


def write(path: Path, rows: list[JSON]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def run(*words: str | Path) -> tuple[int, JSON]:
    result = CliRunner().invoke(cli, [*map(str, words), "--json"])
    assert result.stdout, result.stderr
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture
def gate(tmp_path: Path) -> FileGate:
    def decide(before: list[JSON], after: list[JSON], *options: str) -> tuple[int, JSON]:
        files = write(tmp_path / "before.jsonl", before), write(tmp_path / "after.jsonl", after)
        return run("gate", "--baseline", files[0], "--run", files[1], *options)

    return decide


KPI: Final = ("--kpi", f"quality={COLUMN} higher")


def test_recorded_score_of_a_failed_answer__counts(gate: FileGate) -> None:
    code, gated = gate(night(), night(FAILED, recorded=0.0), *KPI)
    [check] = [check for check in gated["checks"] if check["name"] == "quality"]
    assert (code, check["outcome"]) == (1, "REGRESSION")
    # 20 of 60 answers have 0.7, the others 0.
    assert check["value"] == pytest.approx(0.7 * 20 / 60)


@pytest.mark.parametrize("options", [KPI, ("--better", f"{NAME}=higher")])
def test_failed_answers_without_a_known_range__are_invalid(
    gate: FileGate, options: tuple[str, ...]
) -> None:
    code, gated = gate(night(), night(FAILED), *options)
    # The rise of failures is a check of its own, and it is proved.
    assert (code, gated["outcome"]) == (1, "REGRESSION")
    assert {check["name"]: check["outcome"] for check in gated["checks"]} == {
        "quality" if options is KPI else COLUMN: "INVALID",
        "STATUS" if options is not KPI else "ERROR_RATE": "REGRESSION",
    }
    [invalid] = [check for check in gated["checks"] if check["outcome"] == "INVALID"]
    assert "40 of 60 answers failed" in invalid["explanation"]
    assert "--range" in invalid["explanation"]


def test_failed_answers_with_a_known_range__are_its_worst_value(gate: FileGate) -> None:
    code, gated = gate(night(), night(FAILED), *KPI, "--range", f"{NAME}=0..1")
    [check] = [check for check in gated["checks"] if check["name"] == "quality"]
    assert (code, check["outcome"]) == (1, "REGRESSION")
    assert check["value"] == pytest.approx(0.7 * 20 / 60)


def test_name_of_a_share__has_the_worst_value_0(gate: FileGate) -> None:
    name = "answer accuracy"
    code, gated = gate(night(name=name), night(FAILED, name=name), "--metrics", f'SCORE["{name}"]')
    assert code == 1
    assert gated["checks"][0]["value"] == pytest.approx(0.7 * 20 / 60)


def test_equal_failures_of_both_runs__do_not_pass_a_score_of_unknown_range(gate: FileGate) -> None:
    code, gated = gate(night(FAILED), night(FAILED), *KPI)
    assert (code, gated["outcome"]) == (3, "INVALID")


def test_python__says_what_to_set() -> None:
    report = mosaico.gate(
        night(FAILED), baseline=night(FAILED), kpis={"quality": f"{COLUMN} higher"}
    )
    assert report.outcome == "INVALID"
    assert "ranges={'quality': '0..1'}" in str(report.to_json()["reason"])
    ranged = mosaico.gate(
        night(FAILED), baseline=night(), kpis={"quality": f"{COLUMN} higher"}, ranges={NAME: "0..1"}
    )
    assert ranged.outcome == "REGRESSION"


@pytest.mark.parametrize("scored", [2, 20])
def test_scores_of_few_items_in_both_runs__are_invalid(gate: FileGate, scored: int) -> None:
    code, gated = gate(night(scored=scored), night(scored=scored), *KPI)
    assert (code, gated["outcome"]) == (3, "INVALID")
    assert f"scores for {scored} of 60 items" in gated["reason"]
    code, gated = gate(night(scored=scored), night(scored=scored), "--better", f"{NAME}=higher")
    assert (code, gated["outcome"]) == (3, "INVALID")
