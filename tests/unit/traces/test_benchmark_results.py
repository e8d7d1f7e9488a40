"""Results of benchmarks of agents and models: what passed, what failed, and what nobody measured."""

from pathlib import Path
from typing import Any

import pytest

from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.types import TraceOutcome
from tests.support.import_files import Imported, import_path
from tests.support.tool_results import json_file, json_lines


def read(folder: Path, content: bytes, **mapping: str) -> Imported:
    path = folder / "results"
    path.write_bytes(content)
    return import_path(path, None, ReadOptions(mapping=mapping))


def talk(answer: str | None) -> list[dict[str, Any]]:
    usage = {"prompt_tokens": 100, "completion_tokens": 5}
    return [
        {"role": "user", "content": "Move my flight."},
        {"role": "assistant", "content": answer, "usage": usage},
    ]


def test_tau_bench__reward_decides_and_an_exception_is_an_error(tmp_path: Path) -> None:
    rows = [
        {"task_id": 0, "trial": 0, "reward": 1.0, "info": {}, "traj": talk("Moved.")},
        {"task_id": 0, "trial": 1, "reward": 0.0, "info": {}, "traj": talk("No.")},
        {
            "task_id": 1,
            "trial": 0,
            "reward": 0.0,
            "info": {"error": "x", "traceback": "Traceback …\nlitellm.RateLimitError: slow down"},
            "traj": [],
        },
        {
            "task_id": 1,
            "trial": 1,
            "reward": 0.0,
            "info": {"error": "KeyError: 'seat'"},
            "traj": [],
        },
    ]
    imported = read(tmp_path, json_file(rows))
    assert imported.format == "tau-bench"
    first = imported.of("0", 0)
    assert (first.input, first.output) == ("Move my flight.", "Moved.")
    assert first.scores == {"TASK_PASSED": 1.0, "TASK_SCORE": 1.0}
    assert imported.of("0", 1).scores["TASK_PASSED"] == 0.0
    assert imported.of("1", 0).outcome is TraceOutcome.INFRA_ERROR
    bug = imported.of("1", 1)
    assert (bug.outcome, bug.scores["TASK_PASSED"]) == (TraceOutcome.AGENT_ERROR, 0.0)


def simulation(trial: int, reason: str, reward: float | None, **fields: Any) -> dict[str, Any]:
    return {
        "task_id": "t",
        "trial": trial,
        "termination_reason": reason,
        "reward_info": None
        if reward is None
        else {"reward": reward, "reward_breakdown": {"DB": 1}},
        "agent_cost": 0.01,
        "user_cost": 5.0,
        "duration": 3.5,
        "messages": talk("Moved."),
        **fields,
    }


def test_tau2_bench__what_the_infrastructure_ended_is_missing(tmp_path: Path) -> None:
    # The simulated user calls a tool, too.
    by_user = {"role": "user", "content": None, "tool_calls": [{"id": "u", "name": "restart"}]}
    by_agent = {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "name": "move"}]}
    messages = [*talk("Moved."), by_user, by_agent]
    simulations = [
        simulation(0, "user_stop", 1.0, messages=messages),
        simulation(1, "max_steps", 0.0),
        simulation(2, "infrastructure_error", None),
        simulation(3, "user_error", 0.0),
    ]
    info = {"agent_info": {"llm": "m-1"}, "user_info": {"llm": "u-1"}}
    document = {"info": info, "tasks": [{"id": "t"}], "simulations": simulations}
    imported = read(tmp_path, json_file(document))
    passed, failed, broken, confused = (imported.of("t", trial) for trial in range(4))
    assert (passed.input, passed.output) == ("Move my flight.", "Moved.")
    assert [call.name for call in passed.tool_calls or ()] == ["move"]
    assert passed.scores == {"TASK_PASSED": 1.0, "TASK_SCORE": 1.0, "reward.DB": 1.0}
    assert (passed.cost_usd, passed.latency_ms, passed.tags) == (0.01, 3500.0, ("model:m-1",))
    assert (passed.input_tokens, passed.output_tokens) == (100, 5)
    assert failed.scores["TASK_PASSED"] == 0.0
    for missing in (broken, confused):
        assert (missing.outcome, missing.scores) == (TraceOutcome.INFRA_ERROR, {})


def test_swe_bench__report_of_a_run(tmp_path: Path) -> None:
    report = {
        "total_instances": 6,
        "resolved_instances": 1,
        "resolved_ids": ["a"],
        "unresolved_ids": ["b", "f"],
        "empty_patch_ids": ["c"],
        "error_ids": ["d"],
        "incomplete_ids": ["e"],
        # What the infrastructure failed is also among the failures.
        "infra_failure_ids": ["f"],
        "schema_version": 2,
    }
    imported = read(tmp_path, json_file(report))
    passed = {trace.item_id: trace.scores.get("TASK_PASSED") for trace in imported.traces}
    assert passed == {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0, "e": None, "f": None}
    outcomes = {trace.item_id for trace in imported.traces if trace.outcome.is_missing}
    assert outcomes == {"e", "f"}


def test_swe_bench__reports_of_instances(tmp_path: Path) -> None:
    report = {
        name: {
            "resolved": is_resolved,
            "patch_exists": True,
            "patch_successfully_applied": True,
            "tests_status": {},
        }
        for name, is_resolved in (("repo__a-1", True), ("repo__a-2", False))
    }
    imported = read(tmp_path, json_file(report))
    passed = {trace.item_id: trace.scores["TASK_PASSED"] for trace in imported.traces}
    assert passed == {"repo__a-1": 1.0, "repo__a-2": 0.0}


def test_swe_bench__predictions_are_patches(tmp_path: Path) -> None:
    predictions = {
        f"repo__a-{number}": {
            "instance_id": f"repo__a-{number}",
            "model_patch": f"+{number}",
            "model_name_or_path": "m-1",
        }
        for number in (1, 2)
    }
    imported = read(tmp_path, json_file(predictions))
    answers = {trace.item_id: (trace.output, trace.tags) for trace in imported.traces}
    assert answers == {
        "repo__a-1": ("+1", ("model:m-1",)),
        "repo__a-2": ("+2", ("model:m-1",)),
    }


def test_terminal_bench__tests_decide_and_not_the_time_out(tmp_path: Path) -> None:
    def trial(number: int, is_resolved: bool | None, failure: str) -> dict[str, Any]:
        return {
            "task_id": "fix",
            "trial_name": f"fix.{number}-of-4.run",
            "is_resolved": is_resolved,
            "failure_mode": failure,
            "total_input_tokens": 0,
            "trial_started_at": "2026-01-01T00:00:00+00:00",
            "trial_ended_at": "2026-01-01T00:01:00+00:00",
        }

    results = [
        trial(1, True, "agent_timeout"),
        trial(2, False, "unset"),
        trial(3, None, "test_timeout"),
        trial(4, None, "unknown_agent_error"),
    ]
    imported = read(tmp_path, json_file({"results": results, "accuracy": 0.25}))
    assert imported.format == "terminal-bench"
    outcomes = [(t.trial, t.outcome, t.scores.get("TASK_PASSED")) for t in imported.traces]
    assert outcomes == [
        (0, TraceOutcome.SCORED, 1.0),
        (1, TraceOutcome.SCORED, 0.0),
        (2, TraceOutcome.JUDGE_ERROR, None),
        (3, TraceOutcome.AGENT_ERROR, 0.0),
    ]
    assert (imported.of("fix").input_tokens, imported.of("fix").latency_ms) == (None, 60_000.0)


def test_harbor__reward_of_the_verifier(tmp_path: Path) -> None:
    trial = {
        "task_name": "fix",
        "trial_name": "fix__a",
        "verifier_result": {"rewards": {"reward": 0.5, "speed": 0.25}},
        "agent_info": {"name": "a", "model_info": {"name": "m-1"}},
        "agent_result": {"n_input_tokens": 50, "n_output_tokens": 5, "cost_usd": 0.02},
        "exception_info": None,
        "started_at": "2026-01-01T00:00:00",
        "finished_at": "2026-01-01T00:00:30",
    }
    outcomes = {
        "EnvironmentStartTimeoutError": TraceOutcome.INFRA_ERROR,
        "RewardFileNotFoundError": TraceOutcome.JUDGE_ERROR,
        "AgentTimeoutError": TraceOutcome.TIMEOUT,
        "KeyError": TraceOutcome.AGENT_ERROR,
    }
    failed = [
        trial
        | {"task_name": name, "verifier_result": None}
        | {"exception_info": {"exception_type": name, "exception_message": "no"}}
        for name in outcomes
    ]
    imported = read(tmp_path, json_lines(trial, *failed))
    scores = {"TASK_PASSED": 0.0, "TASK_SCORE": 0.5, "reward.speed": 0.25}
    done = imported.of("fix")
    assert (done.scores, done.cost_usd, done.latency_ms) == (scores, 0.02, 30_000.0)
    assert (done.input_tokens, done.output_tokens, done.tags) == (50, 5, ("model:m-1",))
    assert {name: imported.of(name).outcome for name in outcomes} == outcomes
    # The agent failed: it is not passed.
    assert imported.of("KeyError").scores["TASK_PASSED"] == 0.0
    assert "TASK_PASSED" not in imported.of("RewardFileNotFoundError").scores


def judgment(**fields: Any) -> dict[str, Any]:
    base = {
        "question_id": 81,
        "turn": 1,
        "model": "m",
        "judge": ["j", "v1"],
        "score": 7,
        "tstamp": 1,
    }
    return base | fields


def test_mt_bench__last_judgment_of_a_turn_counts(tmp_path: Path) -> None:
    judgments = [judgment(), judgment(turn=2, score=-1), judgment(score=9, tstamp=2)]
    imported = read(tmp_path, json_lines(*judgments))
    assert imported.format == "mt-bench"
    assert imported.of("81 turn 1").scores == {"judge_score": 9.0}
    # -1 is what the judge writes when it gives no score.
    missing = imported.of("81 turn 2")
    assert (missing.outcome, missing.scores) == (TraceOutcome.JUDGE_ERROR, {})
    assert len(imported.traces) == 2
    assert any("replaces: 1" in note for note in imported.notes)


def test_mt_bench__several_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidImport, match="2 models"):
        read(tmp_path, json_lines(judgment(), judgment(model="other")))


def test_alpaca_eval__win_is_the_preference_for_the_model(tmp_path: Path) -> None:
    def annotation(number: int, preference: float | None) -> dict[str, Any]:
        return {
            "instruction": f"Write {number}",
            "output_1": "baseline",
            "generator_1": "b",
            "output_2": "mine",
            "generator_2": "m-1",
            "preference": preference,
            "price_per_example": 0.01,
        }

    preferences = [1.0, 2.0, 1.5, 0, 1.25, None]
    rows = [annotation(number, preference) for number, preference in enumerate(preferences)]
    imported = read(tmp_path, json_file(rows))
    wins = [trace.scores.get("win") for trace in imported.traces]
    assert wins == [0.0, 1.0, 0.5, 0.5, 0.25, None]
    first, last = imported.of("Write 0"), imported.of("Write 5")
    assert (first.output, first.tags, first.cost_usd) == ("mine", ("model:m-1",), None)
    assert last.outcome is TraceOutcome.JUDGE_ERROR
    assert imported.directions == {"win": "higher"}


def test_arena_hard__second_game_is_swapped(tmp_path: Path) -> None:
    def question(uid: str, *grades: str | None) -> dict[str, Any]:
        return {"uid": uid, "model": "m", "games": [{"score": grade} for grade in grades]}

    imported = read(
        tmp_path,
        json_lines(
            # The model is B in the first game, and A in the second one.
            question("q1", "B>>A", "A>>B"),
            question("q2", "A>B", "A=B"),
            question("q3", "A>B", None),
        ),
    )
    # 1 and 1; 0.25 and 0.5.
    assert imported.of("q1").scores == {"win": 1.0}
    assert imported.of("q2").scores == {"win": 0.375}
    assert imported.of("q3").outcome is TraceOutcome.JUDGE_ERROR


def test_bfcl__lists_by_turn_are_summed(tmp_path: Path) -> None:
    calls = [{"play": '{"artist": "X"}'}, {"play": '{"artist": "Y"}'}]
    imported = read(
        tmp_path,
        json_lines(
            {
                "id": "parallel_0",
                "result": calls,
                "input_token_count": [[225], [300]],
                "output_token_count": [[60], [20]],
                "latency": [[1.5], [0.5]],
            },
            {
                "id": "parallel_1",
                "result": "Error during inference: Connection error.",
                "input_token_count": 0,
                "output_token_count": 0,
                "latency": 0,
            },
        ),
    )
    first, failed = imported.of("parallel_0"), imported.of("parallel_1")
    assert (
        first.output == '[{"play": "{\\"artist\\": \\"X\\"}"}, {"play": "{\\"artist\\": \\"Y\\"}"}]'
    )
    assert (first.input_tokens, first.output_tokens, first.latency_ms) == (525, 80, 2000.0)
    assert (failed.outcome, failed.output) == (TraceOutcome.INFRA_ERROR, None)
    assert failed.input_tokens is None


def test_agentbench__errors_of_the_environment_are_missing(tmp_path: Path) -> None:
    def run(index: int, status: str, result: Any, *answers: str) -> dict[str, Any]:
        history = [{"role": "user", "content": f"task {index}"}]
        history += [{"role": "agent", "content": answer} for answer in answers]
        output = {"index": index, "status": status, "result": result, "history": history}
        return {"index": index, "error": None, "info": None, "output": output}

    imported = read(
        tmp_path,
        json_lines(
            run(0, "completed", {"is_correct": True, "steps_share": 0.5}, "done"),
            run(1, "task error", None),
            run(2, "agent context limit", None, "too long"),
            run(3, "task limit reached", {"is_correct": False}, "still at it"),
        ),
    )
    first = imported.of("0")
    assert (first.input, first.output) == ("task 0", "done")
    assert first.scores == {"TASK_PASSED": 1.0, "steps_share": 0.5}
    assert imported.of("1").outcome is TraceOutcome.INFRA_ERROR
    limited = imported.of("2")
    assert (limited.outcome, limited.scores["TASK_PASSED"]) == (TraceOutcome.AGENT_ERROR, 0.0)
    assert (imported.of("3").outcome, imported.of("3").output) == (
        TraceOutcome.SCORED,
        "still at it",
    )


def test_opencompass__pairs_by_prompt_and_not_by_position(tmp_path: Path) -> None:
    turns = [{"role": "HUMAN", "prompt": "1+1?"}]
    predictions = {"0": {"origin_prompt": turns, "prediction": "2", "gold": "2"}}
    trace = read(tmp_path, json_file(predictions)).of("1+1?")
    assert (trace.expected_output, trace.output) == ("2", "2")
    detail = {"prompt": "1+1?", "predictions": ["3"], "references": ["2", "two"], "correct": False}
    results = {"accuracy": 0.0, "details": {"type": "GEN", "0": detail}}
    trace = read(tmp_path, json_file(results)).of("1+1?")
    assert (trace.output, trace.expected_any) == ("3", ("2", "two"))
    assert trace.scores == {"TASK_PASSED": 0.0}


def test_helm__perturbed_questions_are_other_items(tmp_path: Path) -> None:
    prediction = {
        "instance_id": "id1",
        "perturbation": None,
        "train_trial_index": 0,
        "predicted_text": " B",
        "mapped_output": "Rome",
        "stats": {"exact_match": 1.0, "num_prompt_tokens": 40, "inference_runtime": 0.5},
    }
    perturbed = prediction | {"perturbation": {"name": "typos"}}
    again = prediction | {"train_trial_index": 1, "mapped_output": None}
    imported = read(tmp_path, json_file([prediction, perturbed, again]))
    first = imported.of("id1", 0)
    assert (first.output, first.scores) == ("Rome", {"exact_match": 1.0})
    assert (first.input_tokens, first.latency_ms) == (40, 500.0)
    assert imported.of("id1", 1).output == " B"
    assert any("perturbed" in line and "row 2" in line for line in imported.left_out)


def test_arena_hard__answers_are_inside_of_their_messages(tmp_path: Path) -> None:
    def answer(uid: str, text: str) -> dict[str, Any]:
        messages = [
            {"role": "user", "content": "Sum?"},
            {"role": "assistant", "content": {"answer": text}},
        ]
        return {"uid": uid, "model": "m", "messages": messages}

    imported = read(tmp_path, json_lines(answer("u1", "42"), answer("u2", "43")))
    assert [trace.output for trace in imported.traces] == ["42", "43"]


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ({"results": {"arc": {"acc,none": 0.5}}, "versions": {}, "config": {}}, "--log_samples"),
        ({"accuracy": 0.9, "correct_count": 9, "total_count": 10}, "_result.json"),
        ({"score": 0.5, "metrics": {}, "htmls": ["<p>"], "convos": []}, "pages"),
    ],
)
def test_summaries__say_which_file_has_the_results(
    tmp_path: Path, content: dict[str, Any], advice: str
) -> None:
    with pytest.raises(InvalidImport, match=advice):
        read(tmp_path, json_file(content))


@pytest.mark.parametrize(
    "document",
    [
        {
            "accuracy": 1,
            "correct_count": 1,
            "total_count": 1,
            "results": [{"id": "a", "answer": "x"}],
        },
        {"experiment": "night", "items": [{"id": "a", "answer": "x"}]},
        [{"id": "a", "input": "q", "output": "x", "expected": "x", "scores": {}, "metrics": {}}],
    ],
)
def test_own_tables__are_not_taken_for_those_of_a_tool(tmp_path: Path, document: Any) -> None:
    imported = read(tmp_path, json_file(document))
    assert (imported.format, imported.of("a").output) == ("json", "x")


def test_evalplus__passes_base_and_plus_tests(tmp_path: Path) -> None:
    def solution(base: str, plus: str | None) -> dict[str, Any]:
        return {"solution": "return 1", "base_status": base, "plus_status": plus}

    tasks = {
        "T/0": [solution("pass", "fail"), solution("pass", "pass")],
        "T/1": [solution("pass", None)],
    }
    imported = read(tmp_path, json_file({"date": "2026", "eval": tasks}))
    assert imported.of("T/0", 0).scores == {"TASK_PASSED": 0.0, "base": 1.0, "plus": 0.0}
    assert imported.of("T/0", 1).scores == {"TASK_PASSED": 1.0, "base": 1.0, "plus": 1.0}
    assert imported.of("T/1").scores == {"TASK_PASSED": 1.0, "base": 1.0}
