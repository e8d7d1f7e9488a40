"""docs/ot-bench*.md: commands, examples and the names that it must contain."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from mosaico.benchmarks.schemas import BenchmarkCreate
from mosaico.core.registry import Registry
from mosaico.harness.bash.check_registry import CHECKS, Check, CheckResult
from mosaico.harness.harness_config import McpHarnessSettings, validate_harness
from mosaico.harness.mcp.cli.ot_bench import cli
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    load_evaluators,
    validate_evaluator,
)
from mosaico.harness.mcp.evaluator_registry import EvaluatorResult as Verdict
from tests.integration.docs.test_examples import ROOT, blocks, text_of

PAGES = "docs/ot-bench*.md"


@pytest.fixture
def _registries(monkeypatch: pytest.MonkeyPatch) -> None:
    load_evaluators()
    for registry in (EVALUATORS, CHECKS):
        for name in ("_items", "_aliases", "_loaded"):
            monkeypatch.setattr(registry, name, getattr(registry, name).copy())


def test_ot_bench_page__commands_print_the_documented_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    [console] = blocks(PAGES, "console")
    for part in re.split(r"^\$ ot-bench ", console, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        done = CliRunner().invoke(cli, command.split())
        assert (done.exit_code, done.stdout) == (0, output)


def test_ot_bench_page__example_file_follows_the_conventions(tmp_path: Path) -> None:
    path = tmp_path / "bench.yaml"
    path.write_text(blocks("docs/ot-bench-files.md", "yaml")[0])
    done = CliRunner().invoke(cli, ["validate", "--strict", str(path)])
    assert done.exit_code == 0, done.output
    assert (
        CliRunner().invoke(cli, ["run", str(path), "--dry-run"], env={"HOME": "/h"}).exit_code == 0
    )


@pytest.mark.usefixtures("_registries")
def test_ot_bench_page__example_evaluator_is_usable_by_name() -> None:
    [block] = blocks(PAGES, "python")
    names: dict[str, Any] = {}
    exec(compile(block, "docs/ot-bench-evaluators.md", "exec"), names)
    names["register"](EVALUATORS.register)
    assert list(validate_evaluator(EvaluatorConfig(checks={"calls_max": 3}))) == []


@pytest.mark.usefixtures("_registries")
def test_ot_bench_page__one_entry_point_registers_checks_and_evaluators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = Check(summary="s", evaluate=lambda _, __: CheckResult(True, ""))
    criterion = Evaluator(
        summary="s", select=lambda _: [], evaluate=lambda _, __: Verdict(True, "")
    )

    def register(add: Callable[[str, Any], object]) -> None:
        add("a_check", check)
        add("an_evaluator", criterion)

    offered = SimpleNamespace(name="both", value="both:register", dist=None, load=lambda: register)
    monkeypatch.setattr("mosaico.core.registry.installed_entry_points", lambda _: [offered])
    failures: list[Any] = []
    registries: tuple[Registry[Any], ...] = (CHECKS, EVALUATORS)
    for registry in registries:
        registry.load_entry_points(failures.append)
    assert failures == []
    assert (CHECKS.find("a_check"), CHECKS.find("an_evaluator")) == (check, None)
    assert (EVALUATORS.find("a_check"), EVALUATORS.find("an_evaluator")) == (None, criterion)


def test_ot_bench_page__example_benchmark_uses_a_demo_file() -> None:
    [block] = blocks(PAGES, "json")
    benchmark = BenchmarkCreate.model_validate(json.loads(block))
    assert isinstance(benchmark.harness, McpHarnessSettings)
    assert validate_harness(benchmark.dataset_ref, benchmark.harness) is None
    assert (ROOT / "demo" / "bench" / (benchmark.dataset_ref or "")).is_file()


def test_ot_bench_page__names_every_harness_field() -> None:
    names = [field.alias or name for name, field in McpHarnessSettings.model_fields.items()]
    assert [name for name in names if f"`{name}`" not in text_of(PAGES)] == []


def test_ot_bench_page__named_tests_and_files_exist() -> None:
    text = text_of(PAGES)
    tests = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    defined = {
        name for test in tests for name in re.findall(r"^def (test_\w+)", test, re.MULTILINE)
    }
    assert set(re.findall(r"`(test_\w+)`", text)) - defined == set()
    files = set(re.findall(r"`(demo/bench/\w+\.yaml)`", text))
    assert {path for path in files if not (ROOT / path).is_file()} == set()
    assert files == {f"demo/bench/{path.name}" for path in (ROOT / "demo" / "bench").iterdir()}
