"""Arguments of `ot-bench`: what is checked before a run, listed and refused."""

import json
import sys
from pathlib import Path

import pexpect
import pytest
import yaml

from mosaico.harness.mcp.result_file import write_report
from mosaico.harness.mcp.types import McpReport
from tests.support.mcp_commands import ASKING, DIRECT, ROOT, bench_file, ot_bench
from tests.support.waiting import LIVENESS_S

BENCHES = ROOT / "demo" / "bench"


pytestmark = pytest.mark.usefixtures("empty_folder")


def test_validate__shows_unset_variables_as_warnings() -> None:
    file = bench_file(DIRECT.replace("good morning}", "'${WORD}'}", 1))
    done = ot_bench("validate", file)
    assert done.exit_code == 0
    assert "warning: scenarios/0/tasks/0/arguments/text: the variable WORD has no value" in (
        done.stdout
    )
    assert ot_bench("validate", file, "--strict").exit_code == 1
    Path("s.yaml").write_text("WORD: good morning\n")
    assert ot_bench("validate", file, "--strict", "--secrets", "s.yaml").exit_code == 0
    passed = ot_bench("run", file, "--task", "*:right", "--secrets", "s.yaml")
    assert passed.exit_code == 0, passed.output


@pytest.mark.parametrize(
    "options",
    [
        ["--junit", "bench.yaml"],
        ["--output", "./bench.yaml"],
        ["--output", "r.yaml", "--html", "r.yaml"],
        ["--secrets", "s.yaml", "--html", "s.yaml"],
        ["--resume", "r.yaml", "--output", "t.yaml", "--html", "r.yaml"],
        ["--model", ""],
        ["--output", "x.yaml.partial.jsonl"],
    ],
)
def test_run__output_over_input_is_refused(options: list[str]) -> None:
    file = bench_file(DIRECT)
    Path("s.yaml").write_text("A: b\n")
    write_report(McpReport(timestamp="t", planned=0, results=()), Path("r.yaml"))
    before = {path: path.read_text() for path in Path().glob("*.yaml")}
    done = ot_bench("run", file, *options)
    assert done.exit_code == 2, done.output
    assert {path: path.read_text() for path in Path().glob("*.yaml")} == before


def test_run__missing_key_is_reported_before_the_start() -> None:
    done = ot_bench("run", bench_file(ASKING))
    assert done.exit_code == 2
    assert "OPENROUTER_API_KEY is not set" in done.stderr
    assert not Path("tmp").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "nowhere.yaml"],
        ["run", "bench.yaml", "nowhere.yaml"],
        ["run", "nothing-*.yaml"],
        ["run", "bench.yaml", "--task", "nobody"],
        ["run", "broken.yaml"],
        ["run", "bench.yaml", "--secrets", "nowhere.yaml"],
        ["run", "bench.yaml", "--resume", "nowhere.yaml"],
        ["run", "asking.yaml", "--base-url", "http://127.0.0.1:1/v1", "--run-usd", "1"],
        ["run", "--tui"],
        ["report", "bench.yaml"],
        ["validate", "broken.yaml"],
    ],
)
def test_commands__invalid_arguments_exit_2(arguments: list[str]) -> None:
    bench_file(DIRECT)
    bench_file("scenarios: [", "broken.yaml")
    bench_file(ASKING, "asking.yaml")
    done = ot_bench(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr
    assert not Path("tmp").exists()


@pytest.mark.parametrize("option", ["--output", "--html", "--junit"])
def test_run__unwritable_output_fails_before_start(option: str) -> None:
    Path("file").touch()
    refused = ot_bench("run", bench_file(DIRECT), option, "file/r.yaml")
    assert refused.exit_code == 2
    assert "name a path that you can write" in refused.stderr
    assert "PASS" not in refused.stderr


def test_dry_run__checks_everything_and_starts_nothing() -> None:
    done = ot_bench("run", bench_file(ASKING), bench_file(DIRECT, "other.yaml"), "--dry-run")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "4 attempts would be made" in done.stderr
    assert not Path("tmp").exists()


def test_run__files_run_in_order_without_duplicates() -> None:
    Path("deep").mkdir()
    for name in ("b.yaml", "a.yaml", "deep/c.yaml"):
        bench_file(DIRECT, name)
    again = Path("b.yaml").resolve()
    listed = ot_bench("list", "b.yaml", again, "*.yaml", "**/c.yaml", "--json")
    items = json.loads(listed.stdout)["items"]
    assert list(dict.fromkeys(item["file"] for item in items)) == [
        "b.yaml",
        "a.yaml",
        "deep/c.yaml",
    ]


def test_validate__reports_positions_and_strict_fails_on_warnings() -> None:
    file = bench_file(DIRECT.replace("tags: [tool]", "tags: [xyz]"))
    command_result = ot_bench("validate", file, "--json")
    [item] = json.loads(command_result.stdout)["items"]
    assert (item["severity"], item["text"]) == (
        "warning", "the tag 'xyz' is not in the taxonomy.",
    )  # fmt: skip
    assert command_result.exit_code == 0
    assert ot_bench("validate", file, "--strict").exit_code == 1


def test_validate__demo_benchmarks_follow_conventions() -> None:
    done = ot_bench("validate", "--strict", BENCHES / "*.yaml")
    assert done.exit_code == 0, done.output
    names = {path.name for path in BENCHES.iterdir()}
    assert {"compare.yaml", "features.yaml"} <= names
    assert all(name.startswith("tool_") for name in names - {"compare.yaml", "features.yaml"})
    assert "python_exec.yaml" not in names
    for path in BENCHES.iterdir():
        document = yaml.safe_load(path.read_text())
        assert document["description"]
        prompt = document["defaults"].get("system_prompt")
        expected_text = "Execute code and return results. Never retry successful calls."
        assert prompt == (expected_text if path.name == "features.yaml" else None)


def test_list__demo_comparison_has_all_server_sets() -> None:
    listed = ot_bench("list", BENCHES / "compare.yaml", "--json")
    servers = [item["servers"] for item in json.loads(listed.stdout)["items"]]
    assert [len(names) for names in servers] == [0, 1, 4, 1]
    assert servers[3] == ["onetool"]


def test_run__tui_picks_a_favorite() -> None:
    for name in ("one.yaml", "benches/two.yaml", "benches/deep/three.yml", "benches/.git/no.yaml"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        bench_file(DIRECT, name)
    Path("config").mkdir()
    Path("config/ot-bench.yaml").write_text(
        "favorites:\n  - {name: first, path: one.yaml}\n  - {name: all, path: benches/}\n"
    )
    child = pexpect.spawn(
        sys.executable,
        [
            "-m",
            "mosaico.harness.mcp.cli.ot_bench",
            "run",
            "--tui",
            "--dry-run",
            "--task",
            "*:right",
        ],
        env={
            "PYTHONPATH": str(ROOT / "app"),
            "PATH": "/usr/bin:/bin",
            "TERM": "xterm",
            "HOME": ".",
            "PROMPT_TOOLKIT_NO_CPR": "1",  # nobody here tells where the cursor is
        },
        encoding="utf-8",
        timeout=LIVENESS_S,
        dimensions=(40, 200),
    )
    child.expect("first - what echoes")
    child.expect("all")
    # Arrow down, then Enter.
    child.send("\x1b[B\r")
    child.expect("two.yaml - what echoes")
    child.expect("deep/three.yml - what echoes")
    child.send("\x1b[B\r")
    child.expect("1 attempt would be made")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
