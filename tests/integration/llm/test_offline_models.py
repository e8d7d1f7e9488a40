"""Metrics that call a model, on files: `mosaico score`, `compare`, `gate` and `import mosaico`, with the
official SDK against a model server of the tests.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import mosaico
from mosaico import Invalid, LlmBudgetExhausted
from mosaico.cli import cli
from tests.integration.llm.conftest import SHORT_RETRIES
from tests.support.llm import (
    EMBEDDER,
    JUDGE,
    KEY,
    ModelService,
    ReceivedLlmRequest,
    always,
    error_response,
)

RIGHT = {"name": "right", "prompt": "Right? {input} {output}"}


def rows(*outputs: str) -> list[dict[str, Any]]:
    return [
        {"item": f"q{number}", "input": f"question {number}", "output": text, "expected": "Rome"}
        for number, text in enumerate(outputs)
    ]


def by_word(request: ReceivedLlmRequest) -> str:
    """1 for the answer `It is Rome`, otherwise 0."""
    score = 1 if "It is Rome" in request.texts[-1] else 0
    return json.dumps({"reason": f"it is {score}", "score": score})


@pytest.fixture
def judge(models: ModelService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModelService:
    """The model server of the environment, and an empty LLM cache."""
    monkeypatch.setenv("MOSAICO_LLM_BASE_URL", models.url)
    monkeypatch.setenv("MOSAICO_LLM_API_KEY", KEY)
    monkeypatch.setenv("MOSAICO_LLM_MODEL", JUDGE)
    monkeypatch.setenv("MOSAICO_EMBEDDINGS_MODEL", EMBEDDER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("mosaico.llm.retry.COMPLETION_RETRIES", SHORT_RETRIES)
    models.judge = by_word
    return models


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return write(tmp_path / "before.jsonl", *["It is Rome"] * 20)


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return write(tmp_path / "after.jsonl", *["It is Rome"] * 8, *["It is Oslo"] * 12)


def write(path: Path, *outputs: str) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(*outputs)), encoding="utf-8")
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def test_score__judge_has_values_reasons_and_usage_and_costs_nothing_again(
    judge: ModelService, after: Path
) -> None:
    result = run("score", after, "--metrics", "ACCURACY,LLM_JUDGE", "--json")
    document = json.loads(result.stdout)
    assert document["rows"][7] == {
        "traceId": "q7#0",
        "values": {"ACCURACY": 0.0, "LLM_JUDGE": 1.0},
        "reasons": {"LLM_JUDGE": "it is 1"},
    }
    # 8 of 20 say Rome.
    assert document["aggregates"]["LLM_JUDGE"]["mean"] == 0.4
    # 100 input and 10 output tokens each.
    usage = {"model": JUDGE, "requests": 20, "inputTokens": 2000, "outputTokens": 200}
    assert document["llmUsage"] == {"items": [{**usage, "costUsd": None}], "cachedAnswers": 0}
    assert f"{JUDGE}: 20 requests, 2,000 input and 200 output tokens, cost unknown" in result.stderr
    again = json.loads(run("score", after, "--metrics", "ACCURACY,LLM_JUDGE", "--json").stdout)
    assert again == {**document, "llmUsage": {"items": [], "cachedAnswers": 20}}
    assert len(judge.requests) == 20


def test_score__default_metrics_call_no_model(judge: ModelService, after: Path) -> None:
    document = json.loads(run("score", after, "--json").stdout)
    assert not {"LLM_JUDGE", "SEMANTIC_SIMILARITY"} & document["aggregates"].keys()
    assert "llmUsage" not in document
    assert judge.requests == []


def test_score__formula_and_config_may_name_judges(
    judge: ModelService, after: Path, tmp_path: Path
) -> None:
    config = tmp_path / "benchmark.json"
    strict = {"key": "LLM_JUDGE", "options": {"model": "judge-2", **RIGHT}}
    config.write_text(json.dumps({"metrics": [strict, "SEMANTIC_SIMILARITY"]}))
    formula = 'LLM_JUDGE["right"] * 10'
    document = json.loads(
        run("score", after, "--config", config, "--formula", formula, "--json").stdout
    )
    assert document["kpi"]["value"] == pytest.approx(4.0)
    # 40 texts of which 3 differ, in one request.
    by_model = {usage["model"]: usage["requests"] for usage in document["llmUsage"]["items"]}
    assert by_model == {"judge-2": 20, EMBEDDER: 1}


def test_score__provider_error_is_no_score(judge: ModelService, after: Path) -> None:
    busy = error_response(503, "overloaded")
    judge.faults.append(lambda request: busy if "question 3" in request.texts[-1] else None)
    result = run("score", after, "--metrics", "LLM_JUDGE", "--json")
    document = json.loads(result.stdout)
    assert [row["traceId"] for row in document["rows"] if row["values"]["LLM_JUDGE"] is None] == (
        ["q3#0"]
    )
    # 7 of 19.
    assert document["aggregates"]["LLM_JUDGE"]["mean"] == pytest.approx(7 / 19)
    assert "LLM_JUDGE has no value on 1 traces: JUDGE_ERROR 1" in result.stderr


def test_gate__provider_errors_make_the_comparison_invalid(
    judge: ModelService, before: Path, after: Path
) -> None:
    busy = error_response(503, "overloaded")
    judge.faults.append(lambda request: busy if "Oslo" in request.texts[-1] else None)
    result = run("gate", "--run", after, "--baseline", before, "--metrics", "LLM_JUDGE", "--json")
    # The twelve bad answers have no score: the rest would look as good as before.
    assert (result.exit_code, json.loads(result.stdout)["outcome"]) == (3, "INVALID")


@pytest.mark.parametrize(
    ("fault", "exit_code", "message"),
    [
        (error_response(401, "Incorrect API key"), 65, "Correct MOSAICO_LLM_API_KEY."),
        (error_response(404, "no such model"), 65, "Correct the model name"),
        (error_response(503, "overloaded"), 75, "does not respond: 503: overloaded"),
    ],
)
def test_score__error_of_every_request_ends_it(
    fault: Any, exit_code: int, message: str, judge: ModelService, after: Path
) -> None:
    judge.faults.append(always(fault))
    result = run("score", after, "--metrics", "LLM_JUDGE")
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr
    assert KEY not in result.stderr


def test_score__limit_of_requests_stops_and_a_higher_one_continues(
    judge: ModelService, after: Path
) -> None:
    stopped = run("score", after, "--metrics", "LLM_JUDGE", "--max-requests", "7")
    assert (stopped.exit_code, stopped.stdout) == (3, "")
    assert "the limit of 7 model requests is too low" in stopped.stderr
    assert f"{JUDGE}: 7 requests" in stopped.stderr
    finished = run("score", after, "--metrics", "LLM_JUDGE", "--max-requests", "13", "--json")
    assert json.loads(finished.stdout)["llmUsage"]["cachedAnswers"] == 7
    assert len(judge.requests) == 20


def test_score__limit_in_dollars_needs_a_price(
    judge: ModelService, after: Path, tmp_path: Path
) -> None:
    refused = run("score", after, "--metrics", "LLM_JUDGE", "--max-usd", "1")
    assert (refused.exit_code, len(judge.requests)) == (2, 1)
    assert f"a limit in dollars requires the price of {JUDGE}" in refused.stderr
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({JUDGE: {"input": 10, "output": 100}}))
    limited = ("score", after, "--metrics", "LLM_JUDGE", "--prices", prices, "--json", "--max-usd")
    # 0.002 dollars each: 5 fit into 0.0101.
    assert run(*limited, "0.0101").exit_code == 3
    assert len(judge.requests) == 6
    usage = json.loads(run(*limited, "1").stdout)["llmUsage"]
    assert (usage["items"][0]["costUsd"], usage["cachedAnswers"]) == (pytest.approx(0.028), 6)


def test_compare__judge_decides(judge: ModelService, before: Path, after: Path) -> None:
    result = run("compare", before, after, "--metrics", "LLM_JUDGE", "--no-html", "--json")
    document = json.loads(result.stdout)
    [verdict] = document["metrics"]
    assert (verdict["metric"], verdict["verdict"]["verdict"]) == ("LLM_JUDGE", "REGRESSED")
    assert len(document["flippedItems"]["items"]) == 12
    # The eight equal answers are requested once.
    assert document["llmUsage"]["items"][0]["requests"] == 32
    assert document["llmUsage"]["cachedAnswers"] == 8


def test_gate__kpi_of_a_judge_fails_on_proof(
    judge: ModelService, before: Path, after: Path
) -> None:
    result = run("gate", "--run", after, "--baseline", before, "--kpi", "right=LLM_JUDGE", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["outcome"]) == (1, "REGRESSION")
    assert document["llmUsage"]["items"][0]["requests"] == 32


def test_models__without_a_server_say_what_to_set(
    monkeypatch: pytest.MonkeyPatch, before: Path
) -> None:
    monkeypatch.delenv("MOSAICO_LLM_BASE_URL", raising=False)
    for command in (
        ("score", before, "--metrics", "LLM_JUDGE"),
        ("gate", "--run", before, "--baseline", before, "--kpi", "q=LLM_JUDGE"),
        ("compare", before, before, "--metrics", "LLM_JUDGE", "--no-html"),
    ):
        refused = run(*command)
        assert refused.exit_code in (2, 65)
        assert "set MOSAICO_LLM_BASE_URL" in refused.stderr


def test_python__options_name_a_server_without_the_environment(
    models: ModelService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOSAICO_LLM_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("MOSAICO_LLM_API_KEY", "of-another-server")
    models.judge = by_word
    llm = mosaico.LlmOptions(
        base_url=models.url,
        api_key=KEY,
        model="judge-3",
        cache=tmp_path,
        prices={"judge-3": {"input": 10, "output": 100}},
    )
    scores = mosaico.score(rows("It is Rome", "It is Oslo"), metrics=["LLM_JUDGE"], llm=llm)
    assert scores["LLM_JUDGE"] == 0.5
    assert scores.rows[1].reasons == {"LLM_JUDGE": "it is 0"}
    [usage] = scores.llm_usage.models.values()
    assert (usage.model, usage.requests) == ("judge-3", 2)
    assert usage.cost_usd == pytest.approx(0.004)
    compared = mosaico.compare(
        rows(*["It is Rome"] * 20), rows(*["It is Oslo"] * 20), metrics=["LLM_JUDGE"], llm=llm
    )
    assert str(compared.verdict) == "REGRESSED"
    # `Rome` to question 0 and `Oslo` to question 1 were judged before.
    assert compared.llm_usage.cached_answers == 2
    again = mosaico.gate(
        rows(*["It is Oslo"] * 20),
        baseline=rows(*["It is Rome"] * 20),
        metrics=["LLM_JUDGE"],
        llm=llm,
    )
    assert (again.exit_code, again.llm_usage.models) == (1, {})
    assert KEY not in repr(llm)


def test_python__limits(judge: ModelService) -> None:
    with pytest.raises(LlmBudgetExhausted, match="limit of 1 model request"):
        mosaico.score(
            rows("It is Rome", "It is Oslo"),
            metrics=["LLM_JUDGE"],
            llm=mosaico.LlmOptions(max_requests=1),
        )
    with pytest.raises(Invalid, match="max_usd 0 is not a positive number"):
        mosaico.LlmOptions(max_usd=0)
