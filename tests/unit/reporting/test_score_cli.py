"""`mosaico score`: result on stdout, everything else on stderr, exit codes."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from mosaico.reporting.score_cli import cli

LINES: Final[list[dict[str, Any]]] = [
    {"traceId": "a", "expectedOutput": "the cat sat", "output": "the cat sat", "scores": {"Q": 1}},
    {"traceId": "b", "expectedOutput": "the cat sat", "output": "a dog ran", "scores": {"Q": 0}},
    {"traceId": "c", "expectedOutput": "x", "outcome": "infra_error"},
    {"traceId": "d", "expectedOutput": "x", "outcome": "agent_error"},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES), encoding="utf-8")
    return path


def run(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], input=stdin)


def test_json__has_a_row_per_trace_and_aggregates_per_metric(file: Path) -> None:
    # ROUGE is 1, 0, missing, 0 (the agent failed): mean 1/3 over three values of four traces.
    result = run(file, "--metrics", "rouge,ACCURACY", "--format", "json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["rows"] == [
        {"traceId": "a", "values": {"ROUGE": 1.0, "ACCURACY": 1.0}},
        {"traceId": "b", "values": {"ROUGE": 0.0, "ACCURACY": 0.0}},
        {"traceId": "c", "values": {"ROUGE": None, "ACCURACY": None}},
        {"traceId": "d", "values": {"ROUGE": 0.0, "ACCURACY": 0.0}},
    ]
    rouge = document["aggregates"]["ROUGE"]
    assert rouge["mean"] == 1 / 3
    assert (rouge["n"], rouge["count"], rouge["coverage"]) == (3, 3, 0.75)
    assert set(rouge) == {
        "mean",
        "n",
        "std",
        "min",
        "max",
        "p50",
        "p95",
        "p99",
        "sum",
        "count",
        "coverage",
    }
    assert "kpi" not in document
    # One cause is one line.
    [warning] = [line for line in result.stderr.splitlines() if line.startswith("warning")]
    assert all(part in warning for part in ("ROUGE", "ACCURACY", "INFRA_ERROR 1"))


@pytest.mark.parametrize(
    ("metrics", "rouge"),
    [
        ("ROUGE", 0.0),
        ("ROUGE:useStemmer=false", 0.0),
        ("rouge:useStemmer=true", 1.0),
        ('[{"key": "ROUGE", "options": {"useStemmer": true}}]', 1.0),
    ],
)
def test_metrics__may_have_options(metrics: str, rouge: float) -> None:
    # The stem of both words is "run".
    trace = json.dumps({"traceId": "a", "expectedOutput": "runs", "output": "running"})
    result = run("-", "--metrics", metrics, "--format", "json", stdin=trace)
    assert json.loads(result.stdout)["rows"][0]["values"] == {"ROUGE": rouge}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("ROUGE:useStemmer", "'useStemmer' does not have the form OPTION=VALUE"),
        ("ROUGE:stemmer=true", "stemmer"),
        ("ROUGE:useStemmer=perhaps", "useStemmer"),
    ],
)
def test_metrics__wrong_option_is_named(file: Path, metrics: str, message: str) -> None:
    refused = run(file, "--metrics", metrics)
    assert (refused.exit_code, message in refused.stderr) == (65, True)


def test_metrics__name_of_a_score_may_hold_colons_and_commas(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps({"traceId": "a", "output": "x", "scores": {"a:b, c": 1}}))
    result = run(path, "--metrics", 'SCORE["a:b, c"]', "--format", "json")
    assert json.loads(result.stdout)["rows"][0]["values"] == {'SCORE["a:b, c"]': 1.0}


def test_config__names_the_metrics(file: Path, tmp_path: Path) -> None:
    config = tmp_path / "benchmark.json"
    config.write_text(json.dumps({"metrics": [{"key": "ROUGE_1", "options": {}}]}))
    result = run(file, "--config", config, "--format", "json")
    assert list(json.loads(result.stdout)["aggregates"]) == ["ROUGE_1"]


def test_formula__reads_metrics_and_scores_of_the_traces(file: Path) -> None:
    # 1/3 from ROUGE, 1/2 from the score Q.
    result = run(file, "--formula", 'ROUGE + SCORE["Q"]', "--format", "json")
    kpi = json.loads(result.stdout)["kpi"]
    assert kpi == {"formula": 'ROUGE + SCORE["Q"]', "value": 1 / 3 + 1 / 2, "reason": None}


def test_metrics__without_a_value_are_shown_only_if_requested(file: Path) -> None:
    unnamed, named = run(file, "--format", "json"), run(file, "--metrics", "latency,TURNS")
    document = json.loads(unnamed.stdout)
    assert "LATENCY_MS" not in document["aggregates"]
    assert "TURNS" not in unnamed.stderr
    assert document["rows"][0]["values"].keys() == document["aggregates"].keys()
    assert named.stdout.splitlines()[1].startswith("LATENCY_MS\t")
    assert "TURNS have no value on 4 traces: NOT_SUPPORTED 3, INFRA_ERROR 1" in named.stderr


def test_formula__accepts_an_alias_of_a_metric(tmp_path: Path) -> None:
    path = tmp_path / "slow.jsonl"
    path.write_text('{"traceId": "a", "latencyMs": 40}\n{"traceId": "b", "latencyMs": 60}\n')
    for arguments in (["--metrics", "LATENCY"], []):
        result = run(path, *arguments, "--formula", "LATENCY + LATENCY_MS.max", "--format", "json")
        assert json.loads(result.stdout)["kpi"]["value"] == 50.0 + 60.0


def test_file__dash_is_standard_input() -> None:
    result = run("-", "--metrics", "ROUGE", stdin=json.dumps(LINES[0]))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("ROUGE\t1\t1\t")


def test_formula__undefined_exits_3_with_the_reason(file: Path) -> None:
    result = run(file, "--formula", "ROUGE / ACCURACY.min", "--format", "json")
    assert result.exit_code == 3
    kpi = json.loads(result.stdout)["kpi"]
    assert kpi["value"] is None
    assert kpi["reason"] in result.stderr


def test_file__without_traces_is_an_error_of_its_data(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n\n", encoding="utf-8")
    result = run(empty)
    assert (result.exit_code, result.stdout) == (65, "")
    assert "empty.jsonl: the file is empty; expected" in result.stderr


def test_file__invalid_line_exits_65_with_its_number_and_no_output(file: Path) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write('{"traceId": "e", "output": 7}\n')
    result = run(file, "--format", "json")
    assert (result.exit_code, result.stdout) == (65, "")
    problem = json.loads(result.stderr)
    assert problem["type"] == "/problems/invalid-trace"
    assert problem["detail"].startswith(f"{file}: line 5: output must be a text")


def test_metrics__unknown_name_exits_66_with_the_nearest_name(file: Path) -> None:
    result = run(file, "--metrics", "BLUE")
    assert (result.exit_code, result.stdout) == (66, "")
    assert "Did you mean BLEU" in result.stderr


def test_formula__invalid_exits_65_and_reports_each_mistake(file: Path) -> None:
    result = run(file, "--formula", "ROUGH + * BLEU.p59")
    assert (result.exit_code, result.stdout) == (65, "")
    assert result.stderr.count("--formula: ") >= 2


def test_score__value_of_the_run_is_summarized_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls 1 of 3, 2 of 3, 3 of 3, 0 of 1, 1 of 1: 7 of 11, in parts of two traces."""
    monkeypatch.setattr("mosaico.metrics.file_scores.SUMMARIZED_TRACES", 2)
    outcomes = [[True, False, False], [True, True, False], [True] * 3, [False], [True]]
    lines = [
        json.dumps(
            {
                "traceId": str(number),
                "itemId": str(number),
                "output": "x",
                "toolCalls": [{"name": "bash", "ok": ok} for ok in calls],
            }
        )
        for number, calls in enumerate(outcomes)
    ]
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(lines))
    done = CliRunner().invoke(cli, [str(path), "--formula", "TOOL_CALL_SUCCESS_RATE", "--json"])
    assert done.exit_code == 0, done.output
    aggregates = json.loads(done.stdout)["aggregates"]
    assert aggregates["TOOL_CALL_SUCCESS_RATE"]["mean"] == 7 / 11
    assert aggregates["TOOL_CALL_SUCCESS_RATE"]["n"] == 5
