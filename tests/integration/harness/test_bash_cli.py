"""`bashkit-eval` as a user meets it: answers, files, exit codes."""

import json
import signal
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner, Result

from mosaico.harness.bash.cli import cli
from mosaico.harness.bash.result_file import read_report
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import ChatMessage, MessageRole, StopReason, TextBlock
from tests.support.bash_eval import GPT, HAIKU, recorded
from tests.support.model_server import ScriptedReply, model_server
from tests.support.processes import start_command

DEMO = Path(__file__).resolve().parents[3] / "demo" / "bash"
TASKS, SCRIPT = DEMO / "tasks.jsonl", DEMO / "script.jsonl"
PLAY = ("--provider", "scripted", "--model", SCRIPT)


def run(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], env=environment)


def one_task(folder: Path, check: str = "exit_code:0") -> Path:
    path = folder / "one.jsonl"
    task = {"id": "one", "category": "c", "prompt": "Do.", "expectations": [{"check": check}]}
    path.write_text(json.dumps(task))
    return path


def script(folder: Path, *turns: list[str]) -> Path:
    path = folder / "play.jsonl"
    path.write_text(json.dumps({"id": "one", "turns": turns}))
    return path


def test_run__demo_script_passes_demo_dataset(tmp_path: Path) -> None:
    assert run("lint", "--strict", TASKS).exit_code == 0
    done = run("run", TASKS, *PLAY, "--save", tmp_path, "--junit", tmp_path / "junit.xml", "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)["summary"]
    assert summary["total_tasks"] == summary["total_passed"] >= 37
    assert len(summary["by_category"]) == 10
    suite = ET.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == (str(summary["total_tasks"]), "0")
    [file] = tmp_path.glob("eval-scripted-*.json")
    assert read_report(file).settings["dataset"] == "tasks.jsonl"
    assert file.with_suffix(".md").exists()
    assert run("replay", file).exit_code == 0
    assert run("rescore", file).exit_code == 0


def test_run__model_options_are_recorded_and_refused_on_resume(tmp_path: Path) -> None:
    dataset, play = one_task(tmp_path), script(tmp_path, ["true"])
    words = ("run", dataset, "--provider", "scripted", "--model", play)
    options = ("--reasoning-effort", "high", "--seed", "7", "--temperature", "0")
    assert run(*words, *options, "--save", tmp_path / "saved").exit_code == 0
    [file] = (tmp_path / "saved").glob("*.json")
    assert read_report(file).settings["turn_settings"] == {
        "max_output_tokens": None,
        "temperature": 0.0,
        "reasoning_effort": "high",
        "thinking_tokens": None,
        "seed": 7,
    }
    assert run(*words, *options, "--resume", file).exit_code == 0
    assert run(*words, "--seed", "7", "--resume", file).exit_code == 2


def test_run__gate_decides_exit_code(tmp_path: Path) -> None:
    dataset, play = one_task(tmp_path), script(tmp_path, ["false"])
    words = ("run", dataset, "--provider", "scripted", "--model", play)
    assert run(*words).exit_code == 1
    assert run(*words, "--min-pass-rate", "0").exit_code == 0


def test_run__errored_task_exits_3(tmp_path: Path) -> None:
    # An attempt without a result is no failed one: no rate excuses it.
    play = script(tmp_path, ["true"])
    done = run(
        "run", TASKS, "--provider", "scripted", "--model", play, "--min-pass-rate", "0",
        "--task", "mend_json", "--junit", tmp_path / "j.xml",
    )  # fmt: skip
    assert done.exit_code == 3
    assert "[ERROR] mend_json" in done.stdout
    assert "the script has no entry for this task" in (tmp_path / "j.xml").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "nowhere.jsonl", *PLAY),
        ("run", TASKS, "--provider", "scripted", "--model", "nowhere.jsonl"),
        ("run", TASKS, "--provider", "anthropic", "--model", "m"),
        ("run", TASKS, *PLAY, "--run-usd", "0"),
        ("run", TASKS, *PLAY, "--run-usd", "1", "--prices", TASKS.parent / "nowhere.json"),
        ("run", TASKS, *PLAY, "--prices", TASKS),
        ("run", TASKS, "--provider", "scripted", "--model", TASKS),
        # A file without an end must not be read into memory.
        ("run", TASKS, "--provider", "scripted", "--model", "/dev/zero"),
        ("run", "/dev/zero", *PLAY),
        ("run", TASKS, *PLAY, "--save", SCRIPT / "folder"),
        ("run", TASKS, *PLAY, "--junit", SCRIPT / "junit.xml"),
        ("run", TASKS, *PLAY, "--junit", DEMO),
        ("run", TASKS, *PLAY, "--task", "mend_json", "--task", "nobody"),
        ("run", TASKS, *PLAY, "--category", "pipelines", "--category", "Pipelines"),
        ("run", TASKS, "--provider", "openai", "--model", "m", "--base-url", "localhost"),
        ("run", TASKS, *PLAY, "--only-cached"),
        ("run", TASKS, *PLAY, "--thinking-tokens", "12"),
        ("run", TASKS, *PLAY, "--reasoning-effort", "huge"),
        ("run", TASKS, "--provider", "openai-responses", "--model", "m", "--seed", "1"),
        ("run", TASKS, "--provider", "nobody", "--model", "m"),
        ("report", "nowhere.json"),
        ("report", TASKS),
        ("replay", TASKS),
        ("rescore", TASKS),
        ("compare", TASKS),
        ("lint", "nowhere.jsonl"),
    ],
)
def test_commands__invalid_arguments_exit_2(words: tuple[str, ...]) -> None:
    done = run(*words, ANTHROPIC_API_KEY="")
    assert done.exit_code == 2
    assert done.stdout == ""


def test_run__cost_limit_needs_price_of_model(tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"another": {"input": 1, "output": 5}}')
    done = run(
        "run", TASKS, "--provider", "openai", "--model", "m", "--run-usd", "1", "--prices", prices,
        OPENAI_API_KEY="k",
    )  # fmt: skip
    assert done.exit_code == 2
    assert "requires the price of m" in done.stderr


def test_run__unknown_check_fails_before_first_request(tmp_path: Path) -> None:
    done = run("run", one_task(tmp_path, check="exitcode:0"), *PLAY)
    assert done.exit_code == 2
    assert "no check is named 'exitcode'. Did you mean exit_code?" in done.stderr


@pytest.mark.parametrize("form", ["terminal", "json", "markdown", "markdown-original", "html"])
def test_report__renders_recorded_run_in_every_format(form: str, tmp_path: Path) -> None:
    path = recorded(HAIKU)
    printed = run("report", path, "--format", form)
    assert printed.exit_code == 0
    assert "complex_tasks" in printed.stdout.replace("\\", "")
    run("report", path, "--format", form, "--file", tmp_path / "out")
    assert (tmp_path / "out").read_text().rstrip("\n") == printed.stdout.rstrip("\n")


def test_show__prints_commands_and_checks_of_a_task(tmp_path: Path) -> None:
    run("run", TASKS, *PLAY, "--task", "mend_json", "--save", tmp_path)
    [file] = tmp_path.glob("*.json")
    result = run("show", file, "mend_json")
    assert result.exit_code == 0
    assert "[PASS] mend_json" in result.stdout
    assert "tool bash, exit code 0" in result.stdout
    [item] = json.loads(run("show", file, "mend_json", "--json").stdout)["items"]
    assert item["result"] == "PASS"
    assert item["transcript"]["steps"][0]["kind"] == "message"
    unknown = run("show", file, "mend_jsno")
    assert unknown.exit_code == 2
    assert "tasks of this result: mend_json" in unknown.stderr


def test_view__page_filters_attempts_and_sets_two_runs_side_by_side(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("view", recorded(HAIKU), recorded(GPT), "--file", page).exit_code == 0
    text = page.read_text()
    assert "<script" not in text
    assert text.count('<div class="pair">') == text.count('<details class="attempt')
    assert "different result" in text
    assert run("view", recorded(HAIKU), "--file", page).exit_code == 0
    assert '<div class="pair">' not in page.read_text()


def test_compare__prints_paired_comparison() -> None:
    done = run("compare", recorded(HAIKU), recorded(GPT), "--json")
    assert done.exit_code == 0
    [pair] = json.loads(done.stdout)["pairs"]
    # Nine more: 32 and 23 of 37 tasks pass.
    assert (pair["result"]["only_first"], pair["result"]["only_second"]) == (11, 2)
    assert run("compare", recorded(HAIKU)).exit_code == 2


def test_replay__difference_exits_1(tmp_path: Path) -> None:
    done = run("replay", recorded(HAIKU), "--save", tmp_path, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["checks"][1] == 168
    [file] = tmp_path.iterdir()
    assert file.name.endswith("-replay.json")


def test_resume__repeats_only_missing_attempts(tmp_path: Path) -> None:
    run("run", TASKS, *PLAY, "--save", tmp_path, "--run-tokens", "600", "--concurrency", "1")
    [file] = tmp_path.glob("*.json")
    before = read_report(file)
    assert {attempt_result.outcome for attempt_result in before.results} == {
        AttemptOutcome.SCORED,
        AttemptOutcome.SKIPPED,
    }
    done = run("run", TASKS, *PLAY, "--resume", file, "--json")
    assert done.exit_code == 0
    missing = sum(attempt.outcome is AttemptOutcome.SKIPPED for attempt in before.results)
    # Progress counts the attempts of the earlier run.
    total = len(before.results)
    assert f"{missing} attempts\n{total - missing + 1}/{total} [PASS]" in done.stderr
    after = read_report(file)
    assert {attempt_result.outcome for attempt_result in after.results} == {AttemptOutcome.SCORED}
    first = next(
        attempt_result
        for attempt_result in before.results
        if attempt_result.outcome is AttemptOutcome.SCORED
    )
    assert first in after.results
    assert list(tmp_path.glob("*.json")) == [file]


@pytest.mark.xdist_group("sdks of models")
def test_cache__each_request_is_sent_once(tmp_path: Path) -> None:
    dataset = one_task(tmp_path)
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="Done."),))
    words = ("run", dataset, "--provider", "openai", "--model", "m", "--cache", tmp_path / "cache")
    with model_server(
        lambda _: ScriptedReply(message=message, stop=StopReason.END, usage=None)
    ) as server:
        address = ("--base-url", server.openai_url)
        saved = run(*words, *address, "--save", tmp_path / "saved")
        assert saved.exit_code == 1
        [file] = (tmp_path / "saved").glob("*.json")
        assert read_report(file).settings["server"] == server.url.removeprefix("http://")
        assert run(*words, *address, "--only-cached").exit_code == 1
        elsewhere = ("--base-url", "http://127.0.0.1:9/v1")  # its model of that name is another
        assert run(*words, *elsewhere, "--only-cached").exit_code == 3
        assert len(server.requests) == 1


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_run__interrupted_run_keeps_finished_attempts(tmp_path: Path, way: signal.Signals) -> None:
    """The second task hangs; the first one's result must be in the file when all is over."""
    dataset, play = tmp_path / "two.jsonl", tmp_path / "play.jsonl"
    check = [{"check": "tool_calls_max:9"}]
    lines = [
        {"id": name, "category": "c", "prompt": name, "expectations": check}
        for name in ("first", "second")
    ]
    dataset.write_text("\n".join(map(json.dumps, lines)))
    play.write_text(
        '{"id": "first", "turns": []}\n{"id": "second", "turns": [["sleep 300", "sleep 300"]]}'
    )
    words = [
        "run", str(dataset), "--provider", "scripted", "--model", str(play),
        "--save", str(tmp_path / "saved"), "--concurrency", "1", "--call-seconds", "120",
    ]  # fmt: skip
    program = start_command(words, tmp_path, module="mosaico.harness.bash.cli")
    program.wait_for_output("1/2 [PASS] first")
    program.send(way)
    assert program.wait_for_exit() == 130, program.log
    [file] = (tmp_path / "saved").glob("eval-*.json")
    first, second = read_report(file).results
    assert first.outcome is AttemptOutcome.SCORED
    assert (second.outcome, second.reason) == (AttemptOutcome.SKIPPED, "interrupted")
