"""The command line of `ot-bench`: output, files, exit codes."""

import csv
import json
import os
import stat
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from mosaico.harness.mcp.result_file import read_report
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    ToolUseBlock,
)
from tests.support.mcp_commands import ASKING, DIRECT, answers, bench_file, ot_bench
from tests.support.mcp_servers import FAULTS
from tests.support.model_server import (
    ModelServer,
    RawReply,
    ReceivedRequest,
    ScriptedReply,
    model_server,
)

pytestmark = pytest.mark.usefixtures("empty_folder")


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


def test_run__compares_context_cost(model: ModelServer) -> None:
    done = ot_bench(
        "run",
        bench_file(ASKING),
        "--base-url",
        model.openai_url,
        "--trials",
        "2",
        "--verbose",
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


def test_run__written_files_have_the_mode_of_the_umask() -> None:
    done = ot_bench(
        "run", bench_file(DIRECT), "--task", "*:right", "--output", "out/r.json", "--csv",
        "--junit", "out/j.xml", "--html", "out/p.html", "--markdown", "out/r.md",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    files = [*Path("out").iterdir(), *Path("tmp").iterdir()]
    # The umask can only be read by setting it.
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
    assert output.read_text().count("x" * size) == 1
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
    assert errors[1].startswith(
        "no request was sent: the model failed permanently at compare:base: 401: "
    )
    assert [request.body["model"] for request in server.requests] == ["closed", "open", "open"]


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
