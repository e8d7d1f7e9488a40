"""`mosaico gate` on recorded runs of models over the bash tasks; skipped where these are not present."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from tests.support.bash_eval import DATA
from tests.support.references import Reference
from tests.support.service import ndjson

stats = Reference("scipy.stats")

RUNS = DATA / "runs"
HAIKU = "eval-anthropic-claude-haiku-4-5-20251001-2026-02-09-054558"
OPUS = "eval-anthropic-claude-opus-4-6-2026-02-09-142736"
GPT = "eval-openai-gpt-5.2-2026-02-09-054424"
# Two runs of one model, a day apart; the first has 25 of the 37 tasks.
SAME_MODEL = (
    ("eval-anthropic-claude-haiku-4-5-2026-02-08-061414", HAIKU),
    ("eval-openai-gpt-5.2-2026-02-08-061445", GPT),
)

pytestmark = [
    pytest.mark.skipif(not RUNS.is_dir(), reason="the recorded runs are not on this machine"),
    pytest.mark.usefixtures("plugins"),
]


def passes_of(name: str) -> dict[str, bool]:
    """Whether each task passed, by task ID."""
    results = json.loads((RUNS / f"{name}.json").read_text())["results"]
    scores = [result["score"] for result in results]
    return {score["task_id"]: score["score"] == score["max_score"] for score in scores}


def write_traces(folder: Path, name: str) -> Path:
    lines = [
        {"traceId": f"{name}/{task}", "itemId": task, "scores": {"TASK_PASSED": float(passed)}}
        for task, passed in passes_of(name).items()
    ]
    path = folder / f"{name}.jsonl"
    path.write_bytes(ndjson(lines))
    return path


def gate(folder: Path, baseline: str, candidate: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the only check of the gate."""
    files = [str(write_traces(folder, name)) for name in (baseline, candidate)]
    completed = CliRunner().invoke(
        cli, ["gate", "--baseline", files[0], "--run", files[1], "--json"]
    )
    [check] = json.loads(completed.stdout)["checks"]
    return completed.exit_code, check


def test_gate__three_fewer_of_37_tasks_are_no_proved_regression(tmp_path: Path) -> None:
    code, check = gate(tmp_path, HAIKU, OPUS)
    assert (code, check["name"], check["outcome"]) == (0, "TASK_PASSED", "INCONCLUSIVE")
    assert (check["baselineValue"], check["value"]) == pytest.approx((32 / 37, 29 / 37))


def test_gate__models_differ_where_the_exact_mcnemar_test_says_so(tmp_path: Path) -> None:
    for baseline, candidate in permutations((HAIKU, OPUS, GPT), 2):
        before, after = passes_of(baseline), passes_of(candidate)
        falls = sum(before[task] and not after[task] for task in before)
        rises = sum(after[task] and not before[task] for task in before)
        is_worse = falls > rises and stats.binomtest(falls, falls + rises).pvalue < 0.05
        code, _ = gate(tmp_path, baseline, candidate)
        assert code == int(is_worse), (baseline, candidate, falls, rises)


def test_gate__runs_of_one_model_do_not_fail(tmp_path: Path) -> None:
    for earlier, later in SAME_MODEL:
        for baseline, candidate in ((earlier, later), (later, earlier)):
            assert gate(tmp_path, baseline, candidate)[0] == 0
