"""The demo benchmarks and the JSON Schema."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from app.harness.lint import LintSeverity
from app.harness.mcp.config import HarnessTask, McpBenchmark, benchmark_schema
from app.harness.mcp.lint import TAGS
from app.harness.mcp.loader import load_file
from app.harness.mcp.secrets import Secrets
from app.harness.mcp.yaml_parser import parse_yaml

FOLDER = Path(__file__).resolve().parents[3] / "demo" / "bench"
FILES = sorted(FOLDER.iterdir())
TOOL_FILES = [path for path in FILES if path.name.startswith("tool_")]

# The code ends the prompt, and its last line gives the result back.
INVOCATION = re.compile(r"__ot\n```python\n(?:.*\n)*return .*\n```\n?\Z")


def bench(path: Path) -> McpBenchmark:
    benchmark = load_file(path, Secrets(), {}, undefined=LintSeverity.WARNING).bench
    assert benchmark is not None
    return benchmark


def asked(path: Path) -> Iterator[HarnessTask]:
    """The harness tasks of a file."""
    for scenario in bench(path).scenarios:
        yield from (task for task in scenario.tasks if isinstance(task, HarnessTask))


@pytest.mark.parametrize("path", TOOL_FILES, ids=lambda path: path.name)
def test_demo_tool_benchmarks__have_no_comparison_and_no_judge(path: Path) -> None:
    benchmark = bench(path)
    evaluators = [task.evaluate for scenario in benchmark.scenarios for task in scenario.tasks]
    for evaluator in [*evaluators, *benchmark.evaluators.values()]:
        assert evaluator is None or isinstance(evaluator, str) or evaluator.prompt is None
    for task in asked(path):
        assert task.server is not None
        assert "compare" not in task.tags


def test_demo_features__code_is_fenced_and_returns_a_result() -> None:
    tasks = [*asked(FOLDER / "features.yaml"), *asked(FOLDER / "compare.yaml")]
    coded = {task.name for task in tasks if "__ot" in task.prompt}
    plain = {task.name for task in tasks if INVOCATION.search(task.prompt)}
    # How the tool is invoked is what these two are about.
    assert coded - plain == {"feature:alias:search", "feature:snippet:brief"}
    assert "compare:onetool" in plain


def test_demo_features__all_tasks_use_a_model() -> None:
    names = {task.name for task in asked(FOLDER / "features.yaml")}
    assert {name.split(":")[1] for name in names} == {"alias", "snippet", "proxy", "ot"}
    assert {f"feature:ot:{topic}" for topic in ("tools", "config", "health", "push")} <= names


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
    page = (FOLDER.parents[1] / "docs" / "ot-bench.md").read_text()
    table = page.partition("| Tags of | |\n")[2].partition("\n\n")[0]
    listed = [re.findall(r"`([^`]+)`", row) for row in table.splitlines()[1:]]
    assert listed == [list(tags) for tags in TAGS.values()]
