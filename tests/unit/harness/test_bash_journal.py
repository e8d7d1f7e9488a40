"""Recorded runs of `bashkit-eval`, how they are resumed, and cached turns."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mosaico.harness.bash.agent import (
    AgentAttempt,
    AttemptLimits,
    attempt_task,
)
from mosaico.harness.bash.attempt_runner import plan_trials
from mosaico.harness.bash.result_file import read_report
from mosaico.harness.bash.result_journal import Recorder, resume_report
from mosaico.harness.bash.types import EvalResult
from mosaico.harness.budget import Budget
from mosaico.harness.result_file import IncompatibleRun
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import (
    TurnSettings,
)
from mosaico.llm.folder_cache import CachedLlm
from mosaico.llm.scripted import Script, ScriptedLlm
from tests.support.bash_eval import report, result, task
from tests.support.bash_turns import ScriptedTurns, turn

pytestmark = pytest.mark.usefixtures("loaded_checks")


def test_llm_cache__cached_request_is_sent_once(tmp_path: Path) -> None:
    model = ScriptedTurns([turn("echo x"), turn(text="Done.")])

    def ask(trial: int, *, only_cached: bool = False) -> AgentAttempt:
        llm = CachedLlm(
            model, tmp_path, TurnSettings(), server=None, trial=trial, only_cached=only_cached
        )
        return asyncio.run(attempt_task(task(), llm, AttemptLimits(), Budget()))

    first, again = ask(0), ask(0, only_cached=True)
    assert len(model.received) == 2
    assert again.trace.messages == first.trace.messages
    # Another trial is another request: a cached answer would make all trials equal.
    missing = ask(1, only_cached=True)
    assert missing.failure is not None
    assert not missing.failure.final


def test_llm_cache__invalid_file_is_requested_again(tmp_path: Path) -> None:
    model = ScriptedTurns([turn(text="Done.")])
    llm = CachedLlm(model, tmp_path, TurnSettings(), server=None, trial=0, only_cached=False)
    for _ in range(2):
        asyncio.run(attempt_task(task(), llm, AttemptLimits(), Budget()))
        [file] = tmp_path.iterdir()
        file.write_text("{")
    assert len(model.received) == 2


def test_scripted_model__plays_turns_of_its_task() -> None:
    llm = ScriptedLlm("s", {"Do it.": Script(turns=(("echo a", "echo b"), ("echo c",)))})
    agent_attempt = asyncio.run(attempt_task(task(), llm, AttemptLimits(), Budget()))
    assert [tool_call.commands for tool_call in agent_attempt.trace.tool_calls] == [
        "echo a",
        "echo b",
        "echo c",
    ]
    assert agent_attempt.trace.natural_stop
    unknown = asyncio.run(attempt_task(task(prompt="Else."), llm, AttemptLimits(), Budget()))
    assert unknown.failure is not None


def recorder(path: Path | None, *results: EvalResult) -> Recorder:
    trials = plan_trials([task(task_id="a"), task(task_id="b")], 1)
    return Recorder(report(*results), trials, path)


def test_recorder__unfinished_run_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    keeper = recorder(path)
    keeper.add(result(task(task_id="b"), True))
    on_disk = read_report(path).results
    # A process that is killed now leaves this file: it names the task that is missing.
    assert [(attempt_result.task.id, attempt_result.outcome) for attempt_result in on_disk] == [
        ("a", AttemptOutcome.SKIPPED),
        ("b", AttemptOutcome.SCORED),
    ]
    keeper.finish("interrupted")
    assert read_report(path).results[0].reason == "interrupted"
    assert path.with_suffix(".md").exists()


def test_resume__repeats_only_attempts_without_score() -> None:
    before = report(
        result(task(task_id="a"), True),
        EvalResult(task=task(task_id="b"), outcome=AttemptOutcome.INFRA_ERROR, reason="gone"),
    )
    trials = plan_trials([task(task_id="a"), task(task_id="b")], 1)
    resumed = resume_report(report(timestamp="later"), before, trials)
    assert [attempt_result.task.id for attempt_result in resumed.results] == ["a"]
    assert resumed.timestamp == before.timestamp
    assert [trial.task.id for trial in Recorder(resumed, trials, None).missing()] == ["b"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": "other"}, "not scripted/other"),
        ({"max_turns": 3}, "other settings: max_turns"),
        ({"settings": {"judge_model": "j", "bashkit": "1"}}, "other settings: judge_model"),
    ],
)
def test_resume__other_model_or_settings_are_refused(changed: Any, reason: str) -> None:
    before = report(settings={"judge_model": None, "bashkit": "1"})
    with pytest.raises(IncompatibleRun, match=reason):
        resume_report(replace(before, **changed), before, [])


def test_resume__selection_that_loses_scores_is_refused() -> None:
    before = report(result(task(task_id="a"), True), result(task(task_id="b"), True))
    with pytest.raises(IncompatibleRun, match="not selected: b"):
        resume_report(report(), before, plan_trials([task(task_id="a")], 1))


def test_resume__edited_task_runs_again() -> None:
    before = report(result(task(task_id="a", prompt="Old."), True))
    trials = plan_trials([task(task_id="a")], 1)
    assert resume_report(report(), before, trials).results == ()
