"""The demo benchmarks and the JSON Schema."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mosaico.harness.lint import LintSeverity
from mosaico.harness.mcp.config import (
    EvaluatorConfig,
    HarnessTask,
    McpBenchmark,
    TaskType,
    benchmark_schema,
    servers_of,
)
from mosaico.harness.mcp.evaluator_registry import load_evaluators
from mosaico.harness.mcp.lint import TAGS, lint
from mosaico.harness.mcp.loader import load_file
from mosaico.harness.mcp.plan_builder import ModelKeys, PlanOverrides, TaskSelection, plan_tasks
from mosaico.harness.mcp.secrets import Secrets
from mosaico.harness.mcp.yaml_parser import parse_yaml
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import Turn
from tests.support.mcp_bench import Request, ScriptedModel, run, says

FOLDER = Path(__file__).resolve().parents[3] / "demo" / "bench"
FILES = sorted(FOLDER.iterdir())
TOOL_FILES = [path for path in FILES if path.name.startswith("tool_")]

# The code ends the prompt, and its last line gives the result back.
INVOCATION = re.compile(r"__ot\n```python\n(?:.*\n)*return .*\n```\n?\Z")


def bench(path: Path) -> McpBenchmark:
    benchmark = load_file(path, Secrets(), {}, undefined=LintSeverity.WARNING).bench
    assert benchmark is not None
    return benchmark


def model_tasks(path: Path) -> Iterator[HarnessTask]:
    """The harness tasks of a file."""
    for scenario in bench(path).scenarios:
        yield from (task for task in scenario.tasks if isinstance(task, HarnessTask))


@pytest.mark.parametrize("path", TOOL_FILES, ids=lambda path: path.name)
def test_demo_tool_benchmarks__have_no_comparison_and_no_judge(path: Path) -> None:
    benchmark = bench(path)
    evaluators = [task.evaluate for scenario in benchmark.scenarios for task in scenario.tasks]
    for evaluator in [*evaluators, *benchmark.evaluators.values()]:
        assert evaluator is None or isinstance(evaluator, str) or evaluator.prompt is None
    for task in model_tasks(path):
        assert task.server is not None
        assert "compare" not in task.tags


def test_demo_features__code_is_fenced_and_returns_a_result() -> None:
    tasks = [*model_tasks(FOLDER / "features.yaml"), *model_tasks(FOLDER / "compare.yaml")]
    coded = {task.name for task in tasks if "__ot" in task.prompt}
    plain = {task.name for task in tasks if INVOCATION.search(task.prompt)}
    # How the tool is invoked is what these two are about.
    assert coded - plain == {"feature:alias:now", "feature:snippet:tokyo"}
    assert "compare:onetool" in plain


def test_demo_features__all_tasks_use_a_model() -> None:
    names = {task.name for task in model_tasks(FOLDER / "features.yaml")}
    assert {name.split(":")[1] for name in names} == {"alias", "snippet", "proxy", "ot"}
    assert {f"feature:ot:{topic}" for topic in ("tools", "config", "health", "aliases")} <= names


REFUSALS = [
    "I am sorry, I cannot help with that.",
    # Words that a careless evaluator looks for.
    "I am sorry, but I have no tool for it. OK, healthy, connected, result: http://example.org",
    # An answer that repeats the prompt contains each value that the prompt contains.
    "I am sorry, I did not run this: {prompt}",
    "",
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_demo_benchmarks__refusing_model_passes_no_task(refusal: str) -> None:
    """It calls no tool. Servers are left out: the answer is evaluated in the same way."""
    load_evaluators()

    def refuse(request: Request) -> Turn:
        prompt = request.messages[-1].text()
        return says(refusal.replace("{prompt}", prompt if "__ot" in prompt else ""))

    files = [lint(load_file(path, Secrets(), {})) for path in FILES]
    planned = plan_tasks(files, TaskSelection(), PlanOverrides(base_url="http://a/v1"), ModelKeys())
    tasks = [
        replace(task, servers=(), verifications=(), hidden_servers=())
        for task in planned
        if task.type is TaskType.HARNESS
    ]
    report = run(*tasks, model=ScriptedModel(refuse)).report
    # Without tasks the test would pass, too.
    assert len(report.results) == len(tasks) >= 13
    assert {result.outcome for result in report.results} == {AttemptOutcome.SCORED}
    assert [result.task for result in report.results if result.passed is not False] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_demo_benchmarks__every_task_with_servers_requires_a_call(path: Path) -> None:
    benchmark = bench(path)
    for task in model_tasks(path):
        named = isinstance(task.evaluate, str)
        evaluator = benchmark.evaluators[str(task.evaluate)] if named else task.evaluate
        assert isinstance(evaluator, EvaluatorConfig), task.name
        if servers_of(task, benchmark.defaults.harness):
            assert {"called", "called_with"} & evaluator.checks.keys(), task.name


def test_demo_onetool__has_what_the_benchmarks_use() -> None:
    onetool = yaml.safe_load((FOLDER.parent / "onetool" / "onetool.yaml").read_text())
    text = (FOLDER / "features.yaml").read_text() + (FOLDER / "compare.yaml").read_text()
    assert "demo/onetool/onetool.yaml" in text
    assert all(f"{alias}(" in text for alias in onetool["alias"])
    assert all(f"${snippet} " in text for snippet in onetool["snippets"])
    assert all(f"{server}.convert_time(" in text for server in onetool["servers"])


def flaws(document: Any) -> list[str]:
    return [
        error.json_path for error in Draft202012Validator(benchmark_schema()).iter_errors(document)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_demo_benchmarks__match_the_schema(path: Path) -> None:
    assert flaws(parse_yaml(path.read_bytes()).value) == []


@pytest.mark.parametrize(
    ("task", "json_path"),
    [
        ({"name": "a", "prompt": "p", "tag": ["x"]}, "$.scenarios[0].tasks[0]"),
        ({"name": "a", "prompt": "p", "type": "direct"}, "$.scenarios[0].tasks[0]"),
        ({"name": "a"}, "$.scenarios[0].tasks[0]"),
        ({"name": "a", "prompt": "p", "timeout": "1 s"}, "$.scenarios[0].tasks[0]"),
    ],
)
def test_benchmark_schema__error_has_the_path_of_the_flaw(
    task: dict[str, Any], json_path: str
) -> None:
    sound = {"scenarios": [{"name": "s", "tasks": [{"name": "a", "prompt": "p"}]}]}
    assert flaws(sound) == []
    assert flaws({"scenarios": [{"name": "s", "tasks": [task]}]}) == [json_path]


def test_page__lists_every_tag_of_the_taxonomy() -> None:
    page = (FOLDER.parents[1] / "docs" / "ot-bench-files.md").read_text()
    table = page.partition("| Tags of | |\n")[2].partition("\n\n")[0]
    listed = [re.findall(r"`([^`]+)`", row) for row in table.splitlines()[1:]]
    assert listed == [list(tags) for tags in TAGS.values()]
