"""A direction that a file states for a score: before the name of the score, and after the user."""

import json
import shlex
from pathlib import Path

from typer.testing import CliRunner

import mosaico
from mosaico.cli import cli
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.types import Direction, MetricRef
from tests.support.service import JSON, Service

ITEMS = 30


def deepeval(path: Path, scores: dict[str, float], succeeds: dict[str, bool]) -> Path:
    """A test run in which each case has these scores, of metrics with the threshold 0.5."""
    cases = [
        {
            "name": f"case-{number}",
            "input": f"question {number}",
            "actualOutput": "some answer",
            "success": None,
            "metricsData": [
                {"name": name, "score": score, "threshold": 0.5, "success": succeeds[name]}
                for name, score in scores.items()
            ],
        }
        for number in range(ITEMS)
    ]
    path.write_text(json.dumps({"testCases": cases}))
    return path


def promptfoo(path: Path, tone: float) -> Path:
    results: list[JSON] = [
        {
            "vars": {"question": str(number)},
            "promptIdx": 0,
            "testCase": {},
            "prompt": {"raw": f"question {number}"},
            "response": {"output": "some answer"},
            "failureReason": 0,
            "namedScores": {"tone": tone},
        }
        for number in range(ITEMS)
    ]
    path.write_text(json.dumps({"results": {"results": results}}))
    return path


def test_stated_direction__of_deepeval_comes_before_the_name(tmp_path: Path) -> None:
    # A hallucination of 0.1 succeeds, so that a lower one is better; by its name nothing would be known.
    before = deepeval(tmp_path / "a.json", {"Hallucination": 0.1}, {"Hallucination": True})
    after = deepeval(tmp_path / "b.json", {"Hallucination": 0.9}, {"Hallucination": False})
    assert mosaico.compare(before, after).verdict == "REGRESSED"
    assert mosaico.compare(after, before).verdict == "IMPROVED"
    assert mosaico.gate(after, baseline=before).outcome == "REGRESSION"
    # The user comes first, also where the metric is named.
    better = {"Hallucination": "higher"}
    assert mosaico.compare(before, after, better=better).verdict == "IMPROVED"
    named = mosaico.gate(after, baseline=before, metrics=['SCORE["Hallucination"]'])
    assert named.outcome == "REGRESSION"


def test_upload__names_the_option_that_states_the_direction_of_its_file(
    service: Service, tmp_path: Path
) -> None:
    env = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    score = {"Hallucination": 0.1}
    file = deepeval(tmp_path / "a.json", score, {"Hallucination": True})
    words = ["datasets", "upload", str(file), "--name", "support", "--run-name", "monday"]
    result = CliRunner().invoke(cli, words, env=env)
    assert result.exit_code == 0, result.output
    [line] = [line for line in result.stderr.splitlines() if "--metric " in line]
    assert "Hallucination: lower is better" in line
    metric = json.loads(shlex.split(line)[-1])
    load_metrics()
    ref = MetricRef.of(metric["key"], metric["options"])
    assert provider_for(ref).spec.direction is Direction.LOWER_IS_BETTER


def test_stated_direction__that_contradicts_itself_is_none(tmp_path: Path) -> None:
    # The same side of the threshold succeeds in one file and fails in the other one.
    before = deepeval(tmp_path / "a.json", {"Blandness": 0.1}, {"Blandness": True})
    after = deepeval(tmp_path / "b.json", {"Blandness": 0.4}, {"Blandness": False})
    assert mosaico.compare(before, after).verdict == "CHANGED"


def test_stated_direction__of_promptfoo_is_that_of_its_assertions(tmp_path: Path) -> None:
    before, after = promptfoo(tmp_path / "a.json", 0.9), promptfoo(tmp_path / "b.json", 0.2)
    comparison = mosaico.compare(before, after)
    fallen = {row.metric: str(row.verdict.verdict) for row in comparison.comparison.metrics}
    assert fallen['SCORE["tone"]'] == "REGRESSED"
    assert comparison.verdict == "REGRESSED"


def azure(path: Path, severity: float) -> Path:
    rows: list[JSON] = [
        {
            "inputs.query": f"question {number}",
            "inputs.response": "some answer",
            "outputs.self_harm.self_harm": "Low",
            "outputs.self_harm.self_harm_score": severity,
        }
        for number in range(ITEMS)
    ]
    path.write_text(json.dumps({"rows": rows}))
    return path


def test_stated_direction__of_azure_is_that_of_its_severities(tmp_path: Path) -> None:
    before, after = azure(tmp_path / "a.json", 0), azure(tmp_path / "b.json", 5)
    assert mosaico.compare(before, after).verdict == "REGRESSED"
    assert mosaico.compare(after, before).verdict == "IMPROVED"
