"""The plan of a run, built from benchmark files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.errors import BadUsage
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.evaluator_registry import load_evaluators
from mosaico.harness.mcp.lint import lint
from mosaico.harness.mcp.loader import load_text
from mosaico.harness.mcp.plan import McpRunPlan, PlannedTask
from mosaico.harness.mcp.plan_builder import (
    OPENROUTER_URL,
    ModelKeys,
    PlanOverrides,
    TaskSelection,
    plan_tasks,
    require_keys,
    require_options,
)
from mosaico.harness.mcp.secrets import Secrets
from mosaico.llm.conversation import Provider, ReasoningEffort, TurnSettings
from mosaico.llm.providers import MissingKey, UnsupportedSetting
from tests.support.mcp_bench import harness_task

BENCH = """
defaults:
  timeout: 60
  model: of-the-file
  system_prompt: Be brief.
  limits: {tokens: 1000}
  direct: {server: a, tool: echo, arguments: {x: 1, y: 1}, tags: [direct]}
  harness: {timeout: 90, limits: {turns: 5}}
servers:
  a: {type: stdio, command: x}
  b: {type: stdio, command: y}
evaluators:
  four: {expected: 4}
scenarios:
  - name: one
    tasks:
      - {name: "compare:base", prompt: hi, tags: [compare], evaluate: four}
      - name: compare:all-mcps
        prompt: |
          first
          ---PROMPT---
          ---PROMPT---
          second
        server: [a, b]
        timeout: 5
        model: of-the-task
        system_prompt: null
        limits: {turns: 2, cost_usd: 0.5}
        tags: [all-mcps]
  - name: two
    share_servers: true
    tasks:
      - {name: "tool:x:y", type: direct, arguments: {y: 2}}
"""


@pytest.fixture(autouse=True, scope="module")
def _evaluators() -> None:
    load_evaluators()


def planned(
    text: str = BENCH,
    *,
    keys: ModelKeys | None = None,
    selection: TaskSelection | None = None,
    **overrides: Any,
) -> tuple[PlannedTask, ...]:
    file = lint(load_text(text.encode(), "b.yaml", Secrets(), {}))
    assert file.errors == []
    return plan_tasks(
        [file], selection or TaskSelection(), PlanOverrides(**overrides), keys or ModelKeys()
    )


def test_plan_tasks__applies_defaults_of_type_and_file() -> None:
    base, _, _ = planned()
    assert (base.timeout_s, base.model, base.system_prompt) == (90, "of-the-file", "Be brief.")
    assert (base.max_turns, base.budget_limits) == (5, BudgetLimits(tokens=1000))
    assert base.servers == ()
    assert base.evaluator is not None
    assert base.evaluator.expected == 4


def test_plan_tasks__task_overrides_defaults() -> None:
    _, every, _ = planned()
    assert (every.timeout_s, every.model, every.system_prompt) == (5, "of-the-task", None)
    assert (every.max_turns, every.budget_limits) == (2, BudgetLimits(tokens=1000, cost_usd=0.5))
    assert every.server_names() == ("a", "b")
    assert every.prompts == ("first", "second")


def test_plan_tasks__null_server_removes_default() -> None:
    text = BENCH.replace("harness: {", "harness: {server: a, ").replace(
        "prompt: hi,", "prompt: hi, server: null,"
    )
    base, _, _ = planned(text)
    assert base.servers == ()


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (TaskSelection(), ["compare:base", "compare:all-mcps", "tool:x:y"]),
        (TaskSelection(scenarios=["tw*"]), ["tool:x:y"]),
        (TaskSelection(tasks=["*:base", "tool:*"]), ["compare:base", "tool:x:y"]),
        (TaskSelection(tags=["direct", "all*"]), ["compare:all-mcps", "tool:x:y"]),
        (TaskSelection(scenarios=["one"], tags=["compare"]), ["compare:base"]),
    ],
)
def test_plan_tasks__selects_by_patterns(selection: TaskSelection, names: list[str]) -> None:
    assert [task.name for task in planned(selection=selection)] == names


def test_plan_tasks__empty_selection_is_an_error() -> None:
    with pytest.raises(BadUsage):
        planned(selection=TaskSelection(tags=["nobody"]))


def test_plan_tasks__repeats_model_tasks_per_model_and_direct_tasks_once() -> None:
    tasks = planned(models=["m1", "m2"], timeout_s=1.0)
    assert [(task.name, task.model) for task in tasks] == [
        ("compare:base", "m1"),
        ("compare:base", "m2"),
        ("compare:all-mcps", "m1"),
        ("compare:all-mcps", "m2"),
        ("tool:x:y", ""),
    ]
    assert {task.timeout_s for task in tasks} == {1.0}


def test_plan_tasks__default_endpoint_is_openrouter() -> None:
    keys = ModelKeys(
        secrets=Secrets(values={"OPENROUTER_API_KEY": "of-the-router"}),
        environment={"OPENAI_API_KEY": "openai", "ANTHROPIC_API_KEY": "anthropic"},
    )
    base = planned(keys=keys)[0].endpoint
    assert (base.base_url, base.api_key) == (OPENROUTER_URL, "of-the-router")
    local = planned(keys=keys, base_url="http://127.0.0.1:1/v1")[0].endpoint
    assert (local.base_url, local.api_key) == ("http://127.0.0.1:1/v1", "openai")
    claude = planned(keys=keys, provider=Provider.ANTHROPIC)[0].endpoint
    assert (claude.provider, claude.base_url, claude.api_key) == (
        Provider.ANTHROPIC, None, "anthropic",
    )  # fmt: skip
    assert "of-the-router" not in repr(base)
    llm = "llm: {base_url: 'http://127.0.0.1:2/v1', api_key: of-the-file}\n"
    own = planned(llm + BENCH, keys=keys)[0].endpoint
    assert (own.base_url, own.api_key) == ("http://127.0.0.1:2/v1", "of-the-file")


def test_require_keys__missing_key_is_named() -> None:
    keys = ModelKeys(secrets=Secrets(searched_paths=(Path("config/bench-secrets.yaml"),)))
    base, _, direct = planned(keys=keys)
    with pytest.raises(MissingKey) as raised:
        require_keys([base], keys)
    assert "OPENROUTER_API_KEY" in str(raised.value)
    require_keys([direct], keys)


def test_run_plan__orders_attempts_by_trial() -> None:
    plan = McpRunPlan(tasks=planned(), trials=2)
    assert [(attempt.task.name, attempt.trial) for attempt in plan.attempts()] == [
        (name, trial)
        for trial in (0, 1)
        for name in ("compare:base", "compare:all-mcps", "tool:x:y")
    ]


def test_content_hash__depends_on_content_not_on_names() -> None:
    base, every, _ = planned()
    assert base.content_hash() == planned(BENCH.replace("name: one", "name: uno"))[0].content_hash()
    assert (
        base.content_hash() != planned(BENCH.replace("prompt: hi", "prompt: ho"))[0].content_hash()
    )
    assert (
        every.content_hash() != planned(BENCH.replace("command: y", "command: z"))[1].content_hash()
    )
    with_key = BENCH.replace("command: y", "command: y, env: {KEY: k}")
    assert every.content_hash() == planned(with_key)[1].content_hash()


def test_missing_queues__ordered_scenario_is_one_queue_per_trial() -> None:
    """A queue is complete or repeated as a whole: later attempts depend on earlier ones."""
    tasks = [
        harness_task(name=name, scenario="kept", in_order=True, share_servers=True)
        for name in ("write", "read")
    ]
    plan = McpRunPlan(tasks=(*tasks, harness_task(name="alone")), trials=2)

    def queues(plan: McpRunPlan) -> list[list[str]]:
        return [
            [f"{attempt.task.name}#{attempt.trial}" for attempt in queue]
            for queue in plan.missing_queues()
        ]

    assert queues(plan) == [
        ["write#0", "read#0"], ["alone#0"], ["write#1", "read#1"], ["alone#1"],
    ]  # fmt: skip
    keys = [attempt.key for attempt in plan.attempts()]
    remaining_plan = replace(plan, stored_keys=frozenset((keys[0], keys[2], keys[3], keys[4])))
    assert queues(remaining_plan) == [["write#0", "read#0"], ["alone#1"]]


def test_plan_tasks__turn_settings_of_the_file_are_replaced_by_options() -> None:
    text = BENCH + "llm: {provider: openai, temperature: 0.5, seed: 3, reasoning_effort: low}\n"
    bench = planned(text, turn_settings=TurnSettings(seed=9))
    own = TurnSettings(temperature=0.5, seed=9, reasoning_effort=ReasoningEffort.LOW)
    assert {task.turn_settings for task in bench if task.type is TaskType.HARNESS} == {own}
    default = planned()[0]
    assert bench[0].content_hash() != default.content_hash()
    with pytest.raises(UnsupportedSetting, match="does not take the option thinking tokens"):
        require_options(planned(turn_settings=TurnSettings(thinking_tokens=2048)))
