"""The command line of `ot-bench`: output, files, exit codes."""

import asyncio
import csv
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pexpect
import pytest
import yaml
from typer.testing import CliRunner, Result

from app.harness.mcp.agent_loop.attempt import run_attempt
from app.harness.mcp.cli import cli
from app.harness.mcp.result_file import read_report, write_report
from app.harness.mcp.types import McpReport
from app.harness.result_file import claim_result_file, journal_of
from app.harness.results import AttemptOutcome
from app.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)
from tests.support.mcp_servers import FAULTS
from tests.support.model_server import (
    ModelServer,
    RawReply,
    ReceivedRequest,
    ScriptedReply,
    model_server,
)

ROOT = Path(__file__).resolve().parents[3]
BENCHES = ROOT / "demo" / "bench"
LIMIT_S = 60

SERVERS = f"""
description: what echoes
defaults: {{timeout: 60}}
servers:
  faults:
    type: stdio
    command: {json.dumps(sys.executable)}
    args: [-I, -S, {json.dumps(str(FAULTS))}]
    timeout: 60
"""
DIRECT = (
    SERVERS
    + """
scenarios:
  - name: direct
    share_servers: true
    tasks:
      - name: tool:echo:right
        type: direct
        server: faults
        tool: echo
        arguments: {text: good morning}
        tags: [tool]
        evaluate: {expected: good morning}
      - name: tool:echo:wrong
        type: direct
        server: faults
        tool: echo
        arguments: {text: good evening}
        tags: [error]
        evaluate: {expected: good morning}
"""
)
ASKING = (
    SERVERS
    + """
scenarios:
  - name: asked
    tasks:
      - {name: "compare:base", prompt: "How much is 6 x 7?", evaluate: {expected: 42}}
      - {name: "compare:mcp", prompt: "How much is 6 x 7?", server: faults, evaluate: {expected: 42}}
"""
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without files, and a user without configuration and keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OT_BENCH_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def ot_bench(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], env=environment)


def bench_file(text: str, name: str = "bench.yaml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def answers(request: ReceivedRequest) -> ScriptedReply:
    """Says 42 [/x]: what looks like markup must break nothing."""
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="It is 42 [/x]."),))
    return ScriptedReply(
        message=message, stop=StopReason.END, usage=Usage(input_tokens=100, output_tokens=7)
    )


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(answers) as server:
        yield server


def test_run__passing_run_writes_result_and_exits_0() -> None:
    done = ot_bench(
        "run", bench_file(DIRECT), "--tags", "tool,nobody", "--csv", "--junit", "out/j.xml",
        "--html", "out/page.html",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    [result] = Path("tmp").glob("result-*.yaml")
    assert [attempt_result.task for attempt_result in read_report(result).results] == [
        "tool:echo:right"
    ]
    assert {path.name.split(".")[0].removesuffix("-calls") for path in Path("tmp").iterdir()} == {
        result.stem
    }
    [per_task, per_call] = sorted(Path("tmp").glob("*.csv"), key=lambda path: len(path.name))
    [row] = csv.DictReader(per_task.read_text().splitlines())
    assert (row["task"], row["server"], row["result"]) == ("tool:echo:right", "faults", "PASS")
    assert per_call.name == f"{per_task.stem}-calls.csv"
    assert ET.parse("out/j.xml").getroot().get("failures") == "0"
    assert "<script" not in Path("out/page.html").read_text()
    assert not list(Path("tmp").glob("*partial*"))


def test_show__prints_calls_and_evaluations_of_a_task() -> None:
    ot_bench("run", bench_file(DIRECT), "--output", "r.json")
    result = ot_bench("show", "r.json", "tool:echo:wrong")
    assert result.exit_code == 0, result.output
    assert "tool:echo:wrong" in result.stdout
    assert "tool:echo:right" not in result.stdout
    assert "not found in the answer" in result.stdout
    assert '    {"text": "good evening"}\n    good evening' in result.stdout
    [item] = json.loads(ot_bench("show", "r.json", "tool:echo:right", "--json").stdout)["items"]
    assert item["result"] == "PASS"
    [step] = item["transcript"]["steps"]
    assert (step["tool"], step["output"]) == ("echo", "good morning")
    unknown = ot_bench("show", "r.json", "tool:echo:wrogn")
    assert unknown.exit_code == 2
    assert "tool:echo:wrong" in unknown.stderr


def test_show__direct_task_without_server_made_no_call() -> None:
    broken = DIRECT.replace(json.dumps(sys.executable), '"/no/such/program"')
    ot_bench("run", bench_file(broken), "--output", "r.json")
    output = ot_bench("show", "r.json", "tool:echo:wrong").stdout
    assert "no call was made" in output
    assert "the model was not asked" not in output


def test_view__writes_a_page_of_one_run_or_of_two(model: ModelServer) -> None:
    file, page = bench_file(ASKING), Path("page.html")
    result = ot_bench("run", file, "--base-url", model.openai_url, "--output", "r.json")
    assert result.exit_code == 0, result.output
    assert ot_bench("view", "r.json", "--file", page).exit_code == 0
    text = page.read_text()
    assert text.count('<details class="attempt') == 2
    assert "How much is 6 x 7?" in text
    assert '<div class="pair">' not in text
    assert ot_bench("view", "r.json", "r.json", "--file", page).exit_code == 0
    assert page.read_text().count('<div class="pair">') == 2


def test_run__low_pass_rate_exits_1_with_reason() -> None:
    file = bench_file(DIRECT)
    below = ot_bench("run", file, "--output", "r.json")
    assert below.exit_code == 1
    assert "the pass rate 50.0% is below the minimum 100.0%" in below.stderr
    assert "not found in the answer" in below.stdout
    assert ot_bench("run", file, "--min-pass-rate", "0.5").exit_code == 0
    command_result = ot_bench("report", "r.json")
    assert command_result.exit_code == 0
    assert "50.0 % (1 passed, 1 failed)" in command_result.stdout


def test_run__errored_task_exits_3() -> None:
    text = DIRECT.replace("tool: echo", "tool: die", 1)
    done = ot_bench("run", bench_file(text), "--task", "*:right", "--min-pass-rate", "0")
    assert done.exit_code == 3
    assert "ERROR" in done.stdout


MIXED = (
    DIRECT
    + """
      - name: tool:echo:unknown-server
        type: direct
        server: fault
        tool: echo
      - name: tool:echo:unset
        type: direct
        server: faults
        tool: echo
        arguments: {text: "${UNSET_WORD}"}
"""
)


def test_run__task_that_cannot_run_is_an_error_of_its_own() -> None:
    """Two tasks run, two are refused; with --strict the file is."""
    file = bench_file(MIXED)
    done = ot_bench("run", file, "--output", "r.yaml")
    assert done.exit_code == 3, done.output
    report = read_report(Path("r.yaml"))
    outcomes = [attempt.outcome for attempt in report.results]
    assert outcomes == [AttemptOutcome.SCORED] * 2 + [AttemptOutcome.INFRA_ERROR] * 2
    [server, unset] = [attempt.failure_reason() for attempt in report.results[2:]]
    assert server == "configuration: unknown server 'fault'. Did you mean faults?"
    assert "the variable UNSET_WORD has no value" in unset
    assert "50.0 % (1 passed, 1 failed; 2 of 4 attempts errored and are not scored)" in done.stdout
    strict = ot_bench("run", file, "--strict", "--output", "s.yaml")
    assert (strict.exit_code, Path("s.yaml").exists()) == (2, False)
    alone = ot_bench("run", file, "--task", "*:unset")
    assert alone.exit_code == 2
    assert "UNSET_WORD" in alone.stderr
    dry = ot_bench("run", file, "--dry-run")
    assert (dry.exit_code, dry.stderr.count("cannot run: ")) == (0, 2)


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


def test_run__compares_context_cost(model: ModelServer) -> None:
    done = ot_bench(
        "run", bench_file(ASKING), "--base-url", model.openai_url, "--trials", "2", "--verbose"
    )
    assert done.exit_code == 0, done.output
    assert "Cost of context" in done.stdout
    assert "never" in done.stdout
    assert len(model.requests) == 4
    [file] = Path("tmp").glob("result-*.yaml")
    [group] = yaml.safe_load(file.read_text())["results"]
    assert group["model"] == "openai/gpt-5-mini"
    assert {task["response"] for task in group["tasks"]} == {"It is 42 [/x]."}
    assert [task["metrics"]["base_context"] for task in group["tasks"]] == [100] * 4


def test_resume__makes_only_missing_attempts(model: ModelServer) -> None:
    file = bench_file(ASKING)
    arguments = ("run", file, "--base-url", model.openai_url, "--output", "r.yaml")
    assert ot_bench(*arguments).exit_code == 0
    recorded = read_report(Path("r.yaml"))
    part = [
        attempt_result
        for attempt_result in recorded.results
        if attempt_result.task == "compare:base"
    ]
    write_report(type(recorded)(timestamp="t", planned=2, results=tuple(part)), Path("part.yaml"))
    model.requests.clear()
    assert (
        ot_bench("run", file, "--base-url", model.openai_url, "--resume", "part.yaml").exit_code
        == 0
    )
    assert len(model.requests) == 1
    resumed = read_report(Path("part.yaml"))
    assert [attempt_result.task for attempt_result in resumed.results] == [
        "compare:base",
        "compare:mcp",
    ]
    changed = bench_file(ASKING.replace("6 x 7", "21 x 2"))
    model.requests.clear()
    assert (
        ot_bench("run", changed, "--base-url", model.openai_url, "--resume", "r.yaml").exit_code
        == 0
    )
    assert len(model.requests) == 2


def test_run__interrupted_run_keeps_finished_attempts(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended_by_somebody(attempt: object, *arguments: object) -> object:
        if attempt.task.name == "compare:mcp":  # type: ignore[attr-defined]
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(LIMIT_S)
        return await run_attempt(attempt, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("app.harness.mcp.run.run_attempt", ended_by_somebody)
    done = ot_bench(
        "run", bench_file(ASKING), "--base-url", model.openai_url, "--output", "r.yaml",
        "--concurrency", "1", "--csv", "--junit", "j.xml", "--html", "page.html",
    )  # fmt: skip
    assert done.exit_code == 130
    assert not list(Path("tmp").glob("*partial*"))
    [per_task, _] = sorted(Path("tmp").glob("*.csv"), key=lambda path: len(path.name))
    assert [row["task"] for row in csv.DictReader(per_task.read_text().splitlines())] == [
        "compare:base"
    ]
    assert len(ET.parse("j.xml").getroot().findall("testcase")) == 1
    assert "compare:base" in Path("page.html").read_text()
    recorded = read_report(Path("r.yaml"))
    assert recorded.interrupted
    assert [
        (attempt_result.task, attempt_result.outcome) for attempt_result in recorded.results
    ] == [("compare:base", AttemptOutcome.SCORED)]
    assert not journal_of(Path("r.yaml")).exists()


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_run__signal_leaves_result_and_reports(way: signal.Signals) -> None:
    """The second call hangs in its server when the signal comes."""
    file = bench_file(DIRECT.replace("tool: echo", "tool: hang").replace("hang", "echo", 1))
    command = ["run", file, "--output", "r.yaml", "--junit", "j.xml", "--concurrency", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "app.harness.mcp.cli", *map(str, command)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as program:  # fmt: skip
        assert program.stderr is not None
        try:
            assert "2 attempts" in program.stderr.readline()
            assert "1/2 [PASS]" in program.stderr.readline()
            program.send_signal(way)
            _, stderr_text = program.communicate(timeout=LIMIT_S)
        finally:
            program.kill()
    assert program.returncode == 130, stderr_text
    assert "Traceback" not in stderr_text
    recorded = read_report(Path("r.yaml"))
    assert (recorded.interrupted, len(recorded.results)) == (True, 1)
    assert len(ET.parse("j.xml").getroot().findall("testcase")) == 1
    assert not journal_of(Path("r.yaml")).exists()


def test_run__written_files_have_the_mode_of_the_umask() -> None:
    done = ot_bench(
        "run", bench_file(DIRECT), "--task", "*:right", "--output", "out/r.json", "--csv",
        "--junit", "out/j.xml", "--html", "out/p.html", "--markdown", "out/r.md",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    files = [*Path("out").iterdir(), *Path("tmp").iterdir()]
    umask = os.umask(0)
    os.umask(umask)
    assert len(files) == 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o666 & ~umask}


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_result_file__large_tool_result_is_stored_once(suffix: str) -> None:
    """It is the response of a direct task, and the result of a tool for the model."""
    size = 2_000_000
    text = DIRECT.replace("tool: echo", "tool: huge", 1).replace(
        "{text: good morning}", f"{{bytes: {size}}}", 1
    )
    output = Path(f"r{suffix}")
    ot_bench("run", bench_file(text), "--task", "*:right", "--output", output)
    assert size <= output.stat().st_size < 1.1 * size
    [result] = read_report(output).results
    assert result.response == result.tool_calls[0].text == "x" * size
    assert result.tool_calls[0].content[0].size == size


def test_result_file__results_of_a_conversation_are_read_back() -> None:
    """The journal and the file leave out the texts of calls that the messages hold."""

    def plan(request: ReceivedRequest) -> ScriptedReply:
        if request.turn:
            return answers(request)
        uses = tuple(
            ToolUseBlock(id=f"c{n}", name="echo", input={"text": text})
            for n, text in enumerate(("one", "two"))
        )
        message = ChatMessage(role=MessageRole.ASSISTANT, content=uses)
        return ScriptedReply(message=message, stop=StopReason.TOOL_USE, usage=None)

    with model_server(plan) as server:
        done = ot_bench(
            "run", bench_file(ASKING), "--task", "*:mcp", "--base-url", server.openai_url,
            "--output", "r.yaml",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    [task] = yaml.safe_load(Path("r.yaml").read_text())["results"][0]["tasks"]
    assert [call["text"] for call in task["tool_calls"]] == [None, None]
    [result] = read_report(Path("r.yaml")).results
    assert [call.text for call in result.tool_calls] == ["one", "two"]


def test_run__rejected_model_does_not_stop_others() -> None:
    def plan(request: ReceivedRequest) -> ScriptedReply | RawReply:
        refused = RawReply(status=401, body=b'{"error": {"message": "not for you"}}')
        return refused if request.body["model"] == "closed" else answers(request)

    with model_server(plan) as server:
        done = ot_bench(
            "run", bench_file(ASKING), "--base-url", server.openai_url, "--model", "closed",
            "--model", "open", "--output", "r.yaml", "--concurrency", "1",
        )  # fmt: skip
    assert done.exit_code == 3, done.output
    results = read_report(Path("r.yaml")).results
    assert [(entry.model, entry.outcome) for entry in results] == [
        *[("closed", AttemptOutcome.INFRA_ERROR)] * 2, *[("open", AttemptOutcome.SCORED)] * 2,
    ]  # fmt: skip
    errors = [entry.error.detail for entry in results if entry.error]
    assert errors[0].startswith("the model did not answer: closed: 401: not for you")
    assert errors[1].startswith("not asked: the model was given up after compare:base: 401: ")
    assert [request.body["model"] for request in server.requests] == ["closed", "open", "open"]


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


def test_run__masks_secret_in_stderr_of_a_server() -> None:
    """The program says its one argument, which comes from the file of secrets."""
    program = "import sys; sys.exit(f'cannot log in with {sys.argv[1]}')"
    server = f"[-I, -S, -c, {json.dumps(program)}, '${{TOKEN}}']"
    file = bench_file(DIRECT.replace(f"[-I, -S, {json.dumps(str(FAULTS))}]", server))
    Path("s.yaml").write_text("TOKEN: sekret-of-mine\n")
    done = ot_bench("run", file, "--secrets", "s.yaml", "--output", "r.yaml")
    assert done.exit_code == 3
    assert "cannot log in with ***" in done.stderr
    assert "sekret" not in done.output + Path("r.yaml").read_text()


def test_run__masks_secrets_in_everything_that_it_writes() -> None:
    """The tool returns the secret: in the result, the page, the traced lines, `show` and `view`."""
    file = bench_file(DIRECT.replace("good morning}", "'a ${WORD}'}", 1))
    Path("s.yaml").write_text("WORD: sekret-of-mine\n")
    done = ot_bench(
        "run", file, "--secrets", "s.yaml", "--trace", "--output", "r.yaml", "--html", "r.html"
    )
    result = ot_bench("show", "r.yaml", "tool:echo:right")
    viewed = ot_bench("view", "r.yaml", "--file", "v.html")
    assert (result.exit_code, viewed.exit_code) == (0, 0), result.output + viewed.output
    written = [Path(name).read_text() for name in ("r.yaml", "r.html", "v.html")]
    assert "a ***" in written[0]
    assert "sekret" not in done.output + result.output + viewed.output + "".join(written)


def test_run__missing_key_is_reported_before_the_start() -> None:
    done = ot_bench("run", bench_file(ASKING))
    assert done.exit_code == 2
    assert "OPENROUTER_API_KEY is not set" in done.stderr
    assert not Path("tmp").exists()


def test_run__exhausted_budget_leaves_run_incomplete(model: ModelServer) -> None:
    done = ot_bench(
        "run", bench_file(ASKING), "--base-url", model.openai_url, "--run-tokens", "107",
        "--concurrency", "1",
    )  # fmt: skip
    assert done.exit_code == 3
    assert "0 attempts errored and are not scored, 1 was not reached" in done.stderr
    assert "the run reached its limit of tokens" in done.stdout
    assert len(model.requests) == 1


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


def test_schema__prints_one_json_document() -> None:
    assert json.loads(ot_bench("schema").stdout)["title"] == "ot-bench"


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
        ["-m", "app.harness.mcp.cli", "run", "--tui", "--dry-run", "--task", "*:right"],
        env={
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/bin:/bin",
            "TERM": "xterm",
            "HOME": ".",
            "PROMPT_TOOLKIT_NO_CPR": "1",  # nobody here tells where the cursor is
        },
        encoding="utf-8",
        timeout=LIMIT_S,
        dimensions=(40, 200),
    )
    child.expect("first - what echoes")
    child.expect("all")
    child.send("\x1b[B\r")
    child.expect("two.yaml - what echoes")
    child.expect("deep/three.yml - what echoes")
    child.send("\x1b[B\r")
    child.expect("1 attempt would be made")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_resume__failed_run_continues_from_journal(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(attempt: object, *arguments: object) -> object:
        if attempt.task.name == "compare:mcp":  # type: ignore[attr-defined]
            raise RuntimeError("of the program")
        return await run_attempt(attempt, *arguments)  # type: ignore[arg-type]

    file = bench_file(ASKING)
    arguments = ("run", file, "--base-url", model.openai_url, "--concurrency", "1")
    with monkeypatch.context() as patched:
        patched.setattr("app.harness.mcp.run.run_attempt", broken)
        done = ot_bench(*arguments, "--output", "r.yaml")
    assert done.exit_code == 1
    assert not Path("r.yaml").exists()
    assert "continue it with --resume r.yaml" in done.stderr
    journal = journal_of(Path("r.yaml"))
    before = journal.read_bytes()
    for named, request_count in (("r.yaml", 2), (journal.name, 3), ("r.yaml", 4)):
        # A result of before does not hide what was kept after it.
        journal.write_bytes(before)
        assert ot_bench(*arguments, "--resume", named).exit_code == 0
        assert len(model.requests) == request_count
        assert len(read_report(Path("r.yaml")).results) == 2
        assert not journal.exists()


def test_claim_result_file__runs_of_the_same_minute_get_separate_files(tmp_path: Path) -> None:
    stem = "result-20261122-0930"
    (tmp_path / f"{stem}.csv").symlink_to(tmp_path / "elsewhere")  # nothing goes through a link
    (tmp_path / f"{stem}-2.yaml").touch()
    with ThreadPoolExecutor(4) as together:
        claimed = list(
            together.map(
                lambda _: claim_result_file(tmp_path, stem, ".yaml", siblings=(".csv",)).name,
                range(4),
            )
        )
    assert sorted(claimed) == [f"{stem}-{number}.yaml" for number in (3, 4, 5, 6)]


def test_resume__keeps_servers_of_first_part() -> None:
    """They are started no more; what their tools take of the context is told all the same."""
    file = bench_file(DIRECT)
    assert ot_bench("run", file, "--tags", "tool", "--output", "r.yaml").exit_code == 0
    first = read_report(Path("r.yaml")).servers
    assert ot_bench("run", file, "--tags", "tool", "--resume", "r.yaml").exit_code == 0
    assert read_report(Path("r.yaml")).servers == first != ()


def test_resume__ordered_scenario_restarts_from_first_task() -> None:
    """The third task wants the count that the two before it have made."""
    tasks = "".join(
        f"      - {{name: tool:faults:{n}, type: direct, server: faults, tool: count, arguments: {{}},"
        f" evaluate: {{expected: {n}}}}}\n"
        for n in (1, 2, 3)
    )
    head = (
        "\nscenarios:\n  - name: counted\n    share_servers: true\n    in_order: true\n    tasks:\n"
    )
    file = bench_file(SERVERS + head + tasks)
    assert ot_bench("run", file, "--output", "r.yaml").exit_code == 0
    recorded = read_report(Path("r.yaml"))
    write_report(replace(recorded, results=recorded.results[:2]), Path("r.yaml"))
    done = ot_bench("run", file, "--resume", "r.yaml")
    assert done.exit_code == 0, done.output
    assert "3/3 [PASS]" in done.stderr
    results = read_report(Path("r.yaml")).results
    assert [(entry.task, entry.response) for entry in results] == [
        (f"tool:faults:{n}", str(n)) for n in (1, 2, 3)
    ]


def test_resume__selection_that_loses_attempts_is_refused() -> None:
    file = bench_file(DIRECT)
    assert (
        ot_bench("run", file, "--tags", "tool", "--trials", "2", "--output", "r.yaml").exit_code
        == 0
    )
    refused = ot_bench("run", file, "--tags", "tool", "--resume", "r.yaml")
    assert refused.exit_code == 2
    assert "r.yaml has 1 attempt that is not selected now" in refused.stderr
    assert len(read_report(Path("r.yaml")).results) == 2
    assert (
        ot_bench(
            "run", file, "--tags", "tool", "--resume", "r.yaml", "--output", "s.yaml"
        ).exit_code
        == 0
    )
