"""Importers of the evaluation tools: recorded files, and small files in the same shape."""

import json
from pathlib import Path
from typing import Any

import pytest

from mosaico.traces.files.import_file import InvalidImport
from mosaico.traces.files.trace_file import TraceReader
from mosaico.traces.types import ToolCall, TraceOutcome
from tests.support.import_files import import_path, recorded, write_json_lines, zstandard_zip


def inspect_sample(item: str, epoch: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": item,
        "epoch": epoch,
        "input": [{"role": "user", "content": "2 + 2?"}],
        "target": "4",
        "messages": [],
        "output": {"model": "m", "choices": [1], "completion": "four"},
        "scores": {"match": {"value": "P"}, "style": {"value": {"short": 0.25, "why": "x"}}},
        "model_usage": {
            "m": {"input_tokens": 5, "output_tokens": 2},
            "judge": {"input_tokens": 1, "output_tokens": 1},
        },
        "total_time": 1.5,
        **fields,
    }


def inspect_log(status: str = "success") -> dict[str, Any]:
    return {"version": 2, "status": status, "eval": {"model": "m", "scorers": [{"name": "match"}]}}


def test_inspect_archive__recorded_log() -> None:
    pytest.importorskip("zstandard")
    log = import_path(recorded("inspect/demo_arith.eval"))
    assert (log.format, len(log.traces)) == ("inspect", 10)
    first, second, failed = log.of("q3", 0), log.of("q3", 1), log.of("q5", 1)
    assert first.scores == {"TASK_PASSED": 1.0, "TASK_SCORE": 1.0, "includes": 1.0, "match": 0.0}
    assert (first.input_tokens, first.output_tokens, first.latency_ms) == (295, 310, 1697.0)
    assert "model:mockllm/model" in first.tags
    assert second.tool_calls == (
        ToolCall(name="get_weather", arguments={"city": "Paris"}, ok=True),
    )
    assert (failed.outcome, failed.output) == (TraceOutcome.AGENT_ERROR, None)
    assert failed.error == "RuntimeError('mock solver failure')"
    # The status of the log is success, although this sample failed in every epoch.
    assert failed.scores == {"TASK_PASSED": 0.0, "TASK_SCORE": 0.0}


def test_inspect_json__equals_the_archive() -> None:
    pytest.importorskip("zstandard")
    archive = import_path(recorded("inspect/demo_arith.eval"))
    log = import_path(recorded("inspect/demo_arith_q3_q5.json"))
    assert len(log.traces) == 4
    for trace in log.traces:
        same = archive.of(trace.item_id, trace.trial)
        assert (same.output, same.scores, same.error) == (trace.output, trace.scores, trace.error)


def test_inspect_archive__reads_all_frames_of_a_member(tmp_path: Path) -> None:
    path = tmp_path / "long.eval"
    answer = "word " * 2_000
    sample = inspect_sample("a", 1, output={"completion": answer})
    members = {
        "header.json": json.dumps(inspect_log()).encode(),
        "samples/a_epoch_1.json": json.dumps(sample).encode(),
    }
    path.write_bytes(zstandard_zip(members))
    [trace] = import_path(path).traces
    assert trace.output == answer


def test_inspect_archive__without_an_end_is_read_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "running.eval"
    members = {
        "_journal/start.json": json.dumps({"eval": {"model": "m"}}).encode(),
        "samples/a_epoch_1.json": json.dumps(inspect_sample("a", 1)).encode(),
    }
    path.write_bytes(zstandard_zip(members))
    log = import_path(path)
    assert [trace.item_id for trace in log.traces] == ["a"]
    assert "the status of this log is started: it is incomplete" in log.notes


def test_inspect_json__grades_usage_and_errors(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    limited = inspect_sample(
        "c", 1, error={"message": "APIError: 429 Too Many Requests"}, scores={}
    )
    slow = inspect_sample("d", 1, limit={"type": "time"}, scores={}, output={})
    samples = [inspect_sample("a", 1), inspect_sample("a", 2), limited, slow]
    path.write_text(json.dumps({**inspect_log(), "samples": samples}))
    log = import_path(path)
    trace = log.of("a", 1)
    assert (trace.input, trace.expected_output, trace.output) == ("2 + 2?", "4", "four")
    # P is half a point; a text is no score; the tokens of all models are added up.
    scores = {"TASK_PASSED": 0.0, "TASK_SCORE": 0.5, "match": 0.5, "style.short": 0.25}
    assert trace.scores == scores
    assert (trace.input_tokens, trace.output_tokens) == (6, 3)
    assert (log.of("c").outcome, log.of("c").scores) == (TraceOutcome.INFRA_ERROR, {})
    assert (log.of("d").outcome, log.of("d").scores["TASK_PASSED"]) == (TraceOutcome.TIMEOUT, 0.0)


def test_promptfoo__recorded_json_and_json_lines() -> None:
    lines = import_path(recorded("promptfoo/results_first32.jsonl"))
    document = import_path(recorded("promptfoo/results_trimmed.json"))
    assert (lines.format, document.format) == ("promptfoo", "promptfoo")
    assert (len(lines.traces), len(document.traces)) == (32, 16)
    column = "openai:chat:gpt-4o-mini · What is {{a}}+{{a}}?"
    item = f't1 {{"a": 1}} [{column}]'
    # `--repeat 2` leaves no mark: the same variables in the same column are two trials.
    repeated = [trace.trial for trace in lines.traces if trace.item_id == item]
    assert repeated == [0, 1]
    trace = lines.of(item)
    assert (trace.expected_output, trace.output) == ("1", "Answer: What is 1+1?")
    assert (trace.input_tokens, trace.output_tokens, trace.cost_usd) == (42, 17, 1.59e-05)
    assert trace.scores == {"TASK_SCORE": 1.0, "TASK_PASSED": 1.0}
    assert {"model:openai:chat:gpt-4o-mini", "category:math"} <= {*trace.tags}
    failed = [t for t in lines.traces if t.outcome is not TraceOutcome.SCORED]
    assert {trace.item_id for trace in failed} == {
        f'{{"a": "FAIL"}} [{column}]',
        '{"a": "FAIL"} [openai:chat:gpt-4o-mini · second]',
    }


def test_promptfoo__failed_assertion_is_an_answer(tmp_path: Path) -> None:
    base = {"promptIdx": 0, "testCase": {}, "provider": {"id": "p"}, "score": 0, "success": False}
    path = write_json_lines(
        tmp_path / "results.jsonl",
        base | {"vars": {"a": 1}, "error": "Expected …", "failureReason": 1, "response": {}},
        base | {"vars": {"a": 2}, "error": "503 Service Unavailable", "failureReason": 2},
        base | {"vars": {"a": 3}, "failureReason": 0, "success": True, "namedScores": {"x": 0.5}},
    )
    results = import_path(path)
    asserted, unavailable, passed = (results.of(f'{{"a": {number}}}') for number in (1, 2, 3))
    assert (asserted.outcome, asserted.output) == (TraceOutcome.SCORED, "")
    assert asserted.scores["TASK_PASSED"] == 0.0
    assert (unavailable.outcome, unavailable.scores) == (TraceOutcome.INFRA_ERROR, {})
    assert passed.scores == {"x": 0.5, "TASK_SCORE": 0.0, "TASK_PASSED": 1.0}


def promptfoo_results(path: Path, *providers: str) -> Path:
    """Two tests, answered by these providers in columns of this order."""
    results = [
        {"promptIdx": position, "vars": {"a": number}, "testCase": {}, "provider": {"id": provider},
         "prompt": {"raw": "p", "label": "p"}, "response": {"output": provider}, "success": True}
        for number in (1, 2)
        for position, provider in enumerate(providers)
    ]  # fmt: skip
    return write_json_lines(path, *results)


def test_promptfoo__columns_have_names_and_no_positions(tmp_path: Path) -> None:
    pair = import_path(promptfoo_results(tmp_path / "a.jsonl", "large", "mini"))
    swapped = import_path(promptfoo_results(tmp_path / "b.jsonl", "mini", "large"))
    answers = {trace.item_id: trace.output for trace in pair.traces}
    assert answers == {trace.item_id: trace.output for trace in swapped.traces}
    named = (answers['{"a": 1} [large]'], answers['{"a": 2} [mini]'])
    assert named == ("large", "mini")
    # Two runs of one column each are the same items, whatever the provider is.
    alone = import_path(promptfoo_results(tmp_path / "c.jsonl", "mini")).traces
    assert [trace.item_id for trace in alone] == ['{"a": 1}', '{"a": 2}']
    twice = import_path(promptfoo_results(tmp_path / "d.jsonl", "mini", "mini")).traces
    assert [trace.item_id for trace in twice][:2] == [
        '{"a": 1} [mini]',
        '{"a": 1} [mini #2]',
    ]


def test_promptfoo__one_column_is_that_of_a_file_with_several(tmp_path: Path) -> None:
    both = promptfoo_results(tmp_path / "a.jsonl", "large", "mini")
    one = promptfoo_results(tmp_path / "b.jsonl", "mini")
    reader = TraceReader(lambda _: None, lambda _: None)
    for path in (both, one):
        with reader.open(path) as traces:
            ids = [trace.item_id for trace in traces]
    assert ids == ['{"a": 1} [mini]', '{"a": 2} [mini]']


def test_promptfoo__zero_of_a_provider_without_usage_is_unknown(tmp_path: Path) -> None:
    base = {"promptIdx": 0, "testCase": {}, "provider": {"id": "p"}, "score": 1, "success": True}
    none, used = {"prompt": 0, "completion": 0, "total": 0}, {"prompt": 4, "completion": 0}
    path = write_json_lines(
        tmp_path / "results.jsonl",
        base | {"vars": {"a": 1}, "cost": 0, "response": {"output": "x", "tokenUsage": none}},
        base | {"vars": {"a": 2}, "cost": 0, "response": {"output": "x", "tokenUsage": used}},
        base
        | {"vars": {"a": 3}, "cost": 0, "response": {"output": "", "tokenUsage": used, "cost": 0}},
        base | {"vars": {"a": 4}, "cost": 0.5, "tokenUsage": none, "response": {"output": "x"}},
    )
    results = import_path(path)
    usage = [
        (trace.input_tokens, trace.output_tokens, trace.cost_usd)
        for trace in (results.of(f'{{"a": {number}}}') for number in (1, 2, 3, 4))
    ]
    assert usage == [(None, None, None), (4, 0, None), (4, 0, 0.0), (None, None, 0.5)]


def test_promptfoo__broken_assertion_is_an_error_of_the_judge(tmp_path: Path) -> None:
    base = {"promptIdx": 0, "testCase": {}, "score": 0, "success": False, "failureReason": 1}
    path = write_json_lines(
        tmp_path / "results.jsonl",
        base
        | {
            "vars": {"a": 1},
            "error": "Custom function threw error: Unexpected token 'return'",
            "response": {"output": "four"},
        },
        base | {"vars": {"a": 2}, "error": "Custom function returned false", "response": {}},
    )
    results = import_path(path)
    trace = results.of('{"a": 1}')
    assert (trace.outcome, trace.output, trace.scores) == (TraceOutcome.JUDGE_ERROR, "four", {})
    assert results.of('{"a": 2}').scores["TASK_PASSED"] == 0.0


def test_lm_eval__recorded_texts_and_choices() -> None:
    texts = import_path(recorded("lm_eval/samples_demo_arith_2026-11-22T12-53-16.315204.jsonl"))
    assert texts.format == "lm-eval"
    assert texts.notes == [
        "the filter of the task kept 1 of 2 repeats; only those are read",
    ]
    assert (texts.of("1").output, texts.of("1").expected_output) == ("lol", "4")
    choices = import_path(recorded("lm_eval/samples_demo_mc_2026-11-22T12-53-16.315204.jsonl"))
    for trace in choices.traces:
        # The choice with the best likelihood is the answer that the tool graded.
        assert float(trace.output == trace.expected_output) == trace.scores["acc"]
    assert choices.of("0").scores == {"acc": 1.0, "TASK_SCORE": 1.0, "TASK_PASSED": 1.0}


def test_lm_eval__filters_are_scores_and_kept_repeats_are_trials(tmp_path: Path) -> None:
    base = {
        "doc_id": 7,
        "target": "4",
        "arguments": {"gen_args_0": {"arg_0": "2 + 2?", "arg_1": {"until": []}}},
        "resps": [["4", "5"]],
        "metrics": ["exact_match"],
    }
    path = write_json_lines(
        tmp_path / "samples.jsonl",
        base | {"filtered_resps": [["4", "5"]], "filter": "strict", "exact_match": 0.5},
        base | {"filtered_resps": ["4"], "filter": "flexible", "exact_match": 1.0},
    )
    samples = import_path(path)
    assert [(t.item_id, t.trial, t.output) for t in samples.traces] == [
        ("7", 0, "4"),
        ("7", 1, "5"),
    ]
    assert samples.of("7").scores == {
        "exact_match (strict)": 0.5,
        "exact_match (flexible)": 1.0,
        "TASK_SCORE": 0.5,
    }


def test_deepeval__recorded_run() -> None:
    run = import_path(recorded("deepeval/test_run.json"))
    assert (run.format, len(run.traces)) == ("deepeval", 5)
    first, failed = run.of("q1"), run.of("q5")
    assert first.scores == {"Exact": 1.0, "TASK_PASSED": 1.0}
    assert (first.cost_usd, first.latency_ms) == (0.001, 400.0)
    assert first.tool_calls == (ToolCall(name="calc", arguments={"a": 1}),)
    assert "model:gpt-4o-mini" in first.tags
    # The metric failed, not the agent: the score is missing, and the answer stays.
    assert (failed.outcome, failed.output, failed.scores) == (TraceOutcome.SCORED, "10", {})
    missing, unused = run.notes
    assert missing.endswith("because the metric failed: 1")
    fields = "context, retrievalContext, expectedTools, flaky"
    assert unused.endswith(f"not used: {fields}")


def test_deepeval__conversation_is_its_last_answer(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "A bike?"},
        {"role": "assistant", "content": "Yes"},
    ]
    case = {"name": "c", "turns": turns, "success": True, "metricsData": []}
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"testCases": [], "conversationalTestCases": [case]}))
    trace = import_path(path).of("c")
    assert (trace.input, trace.output, trace.scores) == ("Hi", "Yes", {"TASK_PASSED": 1.0})


@pytest.mark.parametrize("name", ["ragas/results.csv", "ragas/results.jsonl"])
def test_ragas__recorded_tables(name: str) -> None:
    table = import_path(recorded(name))
    assert (table.format, len(table.traces)) == ("ragas", 5)
    wrong, unscored = table.of("What is 3+3?"), table.of("What is 5+5?")
    assert (wrong.output, wrong.expected_output) == ("7", "6")
    assert wrong.scores == {"exact_match": 0.0, "bad_metric": 1.0}
    assert unscored.scores == {"exact_match": 1.0}


def test_traces__invalid_line_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text('{"traceId": "a"}\n{"traceId": "b", "input" 1}\n')
    with pytest.raises(Exception, match=r"traces.jsonl: line 2, column 26: not valid JSON"):
        import_path(path)


def test_zip__that_no_importer_knows_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "other.zip"
    path.write_bytes(zstandard_zip({"readme.txt": b"x"}))
    with pytest.raises(InvalidImport, match=r"no importer recognizes this file; formats: .*csv"):
        import_path(path)


def test_zip__cut_off_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "cut.eval"
    path.write_bytes(zstandard_zip({"header.json": b"{}"})[:-10])
    with pytest.raises(InvalidImport, match="not a complete ZIP archive"):
        import_path(path)


def test_inspect__log_without_completion_has_its_text_in_the_first_choice(tmp_path: Path) -> None:
    parts = [{"type": "reasoning", "reasoning": "2+2"}, {"type": "text", "text": "5"}]
    samples = [
        inspect_sample(
            "q", 1, output={"choices": [{"message": {"role": "assistant", "content": content}}]}
        )
        for content in ("four", parts)
    ]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**inspect_log(), "samples": samples}))

    assert [trace.output for trace in import_path(path).traces] == ["four", "5"]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # By hand: 17 + 130,000 + 208; the total has them, too.
        (
            {
                "input_tokens": 17,
                "input_tokens_cache_read": 130_000,
                "input_tokens_cache_write": 208,
                "output_tokens": 5,
            },
            130_225,
        ),
        (
            {
                "input_tokens": 100,
                "input_tokens_cache_read": 60,
                "output_tokens": 5,
                "total_tokens": 105,
            },
            100,
        ),
        ({"input_tokens": 7, "output_tokens": 5}, 7),
    ],
)
def test_inspect__input_tokens_contain_those_of_the_cache(
    usage: dict[str, int], expected: int, tmp_path: Path
) -> None:
    path = tmp_path / "log.json"
    samples = [inspect_sample("q", 1, model_usage={"m": usage})]
    path.write_text(json.dumps({**inspect_log(), "samples": samples}))

    assert [trace.input_tokens for trace in import_path(path).traces] == [expected]


def test_deepeval__file_of_the_latest_run_pairs_by_input(tmp_path: Path) -> None:
    cases = [
        {"name": "test_case_0", "input": "1+1?", "actualOutput": "2", "success": True},
        {"name": "sums", "input": "1+2?", "actualOutput": "4", "success": False},
    ]
    path = tmp_path / "latest.json"
    path.write_text(json.dumps({"testRunData": {"testCases": cases}}))

    run = import_path(path)

    assert run.format == "deepeval"
    assert {t.item_id: t.scores["TASK_PASSED"] for t in run.traces} == {"1+1?": 1.0, "sums": 0.0}


def test_lm_eval__file_without_metrics_and_filters(tmp_path: Path) -> None:
    base = {
        "doc": {},
        "target": "4",
        "arguments": [["2+2=", {"until": []}]],
        "resps": [["4"]],
        "filtered_resps": ["4"],
        "doc_hash": "h",
        "spans": [[0, 1]],
    }
    rows = [
        base | {"doc_id": d, "exact_match": m} for d, m in ((0, 1.0), (1, 0.0), (0, 0.0), (1, 0.0))
    ]

    samples = import_path(write_json_lines(tmp_path / "samples.jsonl", *rows))

    assert [(t.item_id, t.input) for t in samples.traces] == [("0", "2+2="), ("1", "2+2=")]
    assert samples.of("0").scores == {
        "exact_match": 1.0,
        "TASK_SCORE": 1.0,
        "TASK_PASSED": 1.0,
        "exact_match (filter 2)": 0.0,
    }
    assert any("lists" in note and "spans" in note for note in samples.notes)


def test_inspect__each_of_several_targets_is_right(tmp_path: Path) -> None:
    several = {"target": ["4", "four", "4"]}
    samples = [
        inspect_sample("a", 1, **several),
        inspect_sample("b", 1, **several, choices=["4", "four"]),
        inspect_sample("c", 1, target=["4"]),
        inspect_sample("d", 1, target=""),
    ]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**inspect_log(), "samples": samples}))
    log = import_path(path)
    assert (log.of("a", 0).expected_output, log.of("a", 0).expected_any) == ("4", ("4", "four"))
    # Of a multiple choice all of them together.
    assert (log.of("b", 0).expected_any, log.of("b", 0).expected_all) == ((), ("4", "four"))
    assert (log.of("c", 0).expected_output, log.of("c", 0).expected_any) == ("4", ())
    assert log.of("d", 0).expected_output is None
    assert any("several right answers: 1 items" in line for line in log.lines)


def test_lm_eval__each_of_several_targets_is_right(tmp_path: Path) -> None:
    sample = {
        "doc_id": 0, "doc": {}, "target": ["Paris", "paris"], "arguments": [["Capital?", {}]],
        "resps": [["paris"]], "filtered_resps": ["paris"], "filter": "none",
        "metrics": ["exact_match"], "exact_match": 1.0, "doc_hash": "h",
    }  # fmt: skip
    samples = import_path(write_json_lines(tmp_path / "samples.jsonl", sample))
    assert samples.of("0").expected_any == ("Paris", "paris")
