"""The shipped tasks: each is solvable, and none is passed by a model that does nothing."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from mosaico.harness.bash.agent import AttemptLimits, attempt_task
from mosaico.harness.bash.check_registry import CheckEvidence, load_checks, score_task
from mosaico.harness.bash.dataset import load_dataset, open_script
from mosaico.harness.bash.types import EvalTask, TaskScore
from mosaico.harness.budget import Budget
from mosaico.llm.conversation import Llm
from mosaico.llm.scripted import Script, ScriptedLlm
from tests.support.bash_eval import dataset_file

DEMO = Path(__file__).resolve().parents[3] / "demo" / "bash"
# The number of tasks per category that the specification asks for.
CATEGORIES = {
    "file_operations": 3,
    "text_processing": 4,
    "pipelines": 3,
    "scripting": 4,
    "data_transformation": 5,
    "error_recovery": 2,
    "system_info": 2,
    "archive_operations": 2,
    "json_processing": 8,
    "complex_tasks": 4,
}


@cache
def shipped_tasks() -> tuple[EvalTask, ...]:
    load_checks()
    return load_dataset(DEMO / "tasks.jsonl").tasks


def scores_of(llm: Llm, tasks: Iterable[EvalTask]) -> dict[str, TaskScore]:
    async def work_on(task: EvalTask) -> TaskScore:
        attempt = await attempt_task(task, llm, AttemptLimits(), Budget())
        assert attempt.failure is None
        evidence = CheckEvidence(calls=attempt.trace.tool_calls, files=attempt.sandbox)
        return score_task(task, evidence)

    return {task.id: asyncio.run(work_on(task)) for task in tasks}


def test_shipped_tasks__cover_the_categories_of_the_specification() -> None:
    counts = Counter(task.category for task in shipped_tasks())
    assert sum(counts.values()) >= 37
    assert set(counts) == set(CATEGORIES)
    assert {name for name, count in CATEGORIES.items() if counts[name] < count} == set()


def test_shipped_tasks__reference_solution_meets_every_check() -> None:
    tasks = shipped_tasks()
    scores = scores_of(open_script(DEMO / "script.jsonl", tasks), tasks)
    unmet = {
        task_id: [check.detail for check in score.results if not check.passed]
        for task_id, score in scores.items()
        if not score.all_passed()
    }
    assert unmet == {}
    assert len(scores) == len(tasks)


# The last one prints every path, so a check of a mere name in the output would pass.
@pytest.mark.parametrize("turns", [(), (("true",),), (("echo I am sorry",),), (("ls -laR /",),)])
def test_shipped_tasks__model_that_does_nothing_fails_each(
    turns: tuple[tuple[str, ...], ...],
) -> None:
    tasks = shipped_tasks()
    idle = Script(turns=turns, answer="I am sorry, I cannot do this.")
    scores = scores_of(ScriptedLlm("idle", {task.prompt: idle for task in tasks}), tasks)
    assert [task_id for task_id, score in scores.items() if score.all_passed()] == []


@pytest.mark.parametrize("name", ["eval-tasks-37.jsonl", "eval-tasks-58.jsonl"])
def test_shipped_tasks__are_not_those_of_the_original(name: str) -> None:
    lines = dataset_file(name).read_text(encoding="utf-8").splitlines()
    originals = [json.loads(line) for line in lines if line.startswith("{")]
    prompts = {task["prompt"] for task in originals} | {task["description"] for task in originals}
    ids = {task["id"] for task in originals}
    shared = [
        task.id
        for task in shipped_tasks()
        if task.id in ids or task.prompt in prompts or task.description in prompts
    ]
    assert shared == []
