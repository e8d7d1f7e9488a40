"""`mosaico init`: what it finds becomes a file that the reader accepts, without a question that it can answer."""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

import mosaico
from mosaico import ReadOptions
from mosaico.cli import cli
from mosaico.project_file import init_cli
from mosaico.project_file.kinds import ObjectKind
from mosaico.project_file.project_draft import flow_text
from mosaico.project_file.reading import read_project_file
from mosaico.project_file.vocabulary import wanted_fields
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse

ROOT = Path(__file__).resolve().parents[3]
MAX_LINES = 40
SECRETS = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-very-secret"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, `support-bot`, and an environment that names nothing."""
    path = tmp_path / "support-bot"
    path.mkdir()
    monkeypatch.chdir(path)
    for name in list(os.environ):
        if name.startswith(
            ("MOSAICO_", "LANGFUSE_", "OTEL_", "SLACK_", "WEBHOOK_")
        ) or name.endswith("_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TZ", "Europe/Madrid")
    return path


def init(*words: str, stdin: str = "", **environment: str) -> Result:
    return CliRunner().invoke(cli, ["init", *words], input=stdin, env=environment)


def content(folder: Path, **environment: str) -> dict[str, object]:
    """The fields of the only benchmark; the file passes the reader and is short."""
    path = folder / "mosaico.yaml"
    file = read_project_file(path, environment)
    lines = path.read_text().splitlines()
    assert len(lines) <= MAX_LINES
    assert lines[0].startswith("# yaml-language-server: $schema=")
    [benchmark] = file.of_kind(ObjectKind.BENCHMARK)
    assert [rule.fields["condition"] for rule in file.of_kind(ObjectKind.RULE)] == ["REGRESSED"]
    [schedule] = file.of_kind(ObjectKind.SCHEDULE)
    assert schedule.fields["timezone"] == "Europe/Madrid"
    return dict(benchmark.fields)


def write_results(folder: Path, name: str, wrong: int, age: int) -> Path:
    rows = [f"q{n},yes,{'no' if n < wrong else 'yes'}\n" for n in range(20)]
    path = folder / name
    path.write_text("id,expected,output\n" + "".join(rows))
    os.utime(path, (1_000_000_000 - age, 1_000_000_000 - age))
    return path


def test_init__two_files_of_results_by_their_times(folder: Path) -> None:
    # By name the other one would be the later.
    write_results(folder, "a-today.csv", 8, age=0)
    write_results(folder, "b-last-week.csv", 1, age=7)
    (folder / "notes.csv").write_text("no results\nat all\n")
    (folder / "broken.json").write_text("{")
    result = init()
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == ["mosaico.yaml"]
    assert "found: results of the same items in b-last-week.csv and a-today.csv" in result.stderr
    assert "next: mosaico compare b-last-week.csv a-today.csv" in result.stderr
    assert "next: mosaico apply mosaico.yaml" in result.stderr
    benchmark = content(folder)
    assert (benchmark["source"], benchmark["datasetRef"]) == ("local", "support-bot")
    # Short expected answers: the share of right ones decides, not similarity.
    assert [metric["key"] for metric in benchmark["metrics"]] == ["EXACT_MATCH"]  # type: ignore[attr-defined]
    # The file judges the comparison that the command proposes.
    compared = CliRunner().invoke(cli, ["compare", "b-last-week.csv", "a-today.csv"])
    assert compared.stdout.startswith("REGRESSED: pass rate")
    assert "mosaico.yaml: benchmark support-bot-nightly sets" in compared.stderr


def test_init__files_of_other_items_are_no_pair(folder: Path) -> None:
    write_results(folder, "today.csv", 8, age=0)
    (folder / "other.csv").write_text("id,expected,output\nx1,yes,yes\n")
    result = init()
    assert result.exit_code == 2
    assert "--agent-command" in result.stderr
    assert not (folder / "mosaico.yaml").exists()


def test_init__score_without_a_known_direction_is_a_guess(folder: Path) -> None:
    for age, name in enumerate(("after.csv", "before.csv")):
        (folder / name).write_text("id,output,score:zest\nq1,yes,3\nq2,no,5\n")
        os.utime(folder / name, (1_000_000_000 - age, 1_000_000_000 - age))
    result = init()
    assert result.exit_code == 0, result.output
    assert "guessed: higher values of the score score:zest are better" in result.stderr
    metric = content(folder)["metrics"][0]  # type: ignore[index]
    assert (metric["key"], metric["options"]["name"]) == ("SCORE", "score:zest")


def test_init__agent_command_over_the_questions_of_the_folder(folder: Path) -> None:
    (folder / "questions.csv").write_text("id,question,answer\nsum,What is 1+1?,2\n")
    command = f"{shlex.quote(sys.executable)} bot.py {{input}}"
    # The key of an admin of the service is none that the agent needs.
    keys = {"OPENAI_API_KEY": "sk-secret", "MOSAICO_API_KEY": "mosaico_admin"}
    result = init("--agent-command", command, **keys)
    assert result.exit_code == 0, result.output
    benchmark = content(folder)
    assert benchmark["datasetRef"] == "questions.csv"
    assert benchmark["harness"]["command"] == "bot"  # type: ignore[index]
    allowed = json.loads((folder / "agent-commands.json").read_text())
    assert allowed["bot"]["command"] == command
    assert allowed["bot"]["environment"] == ["OPENAI_API_KEY"]
    assert "sk-secret" not in (folder / "agent-commands.json").read_text()
    assert "MOSAICO_AGENT_COMMANDS=$PWD/agent-commands.json" in result.stderr


@pytest.mark.parametrize(
    ("file", "environment", "harness"),
    [
        (
            "demo/bash/tasks.jsonl",
            {"OPENAI_API_KEY": "k"},
            {"provider": "openai", "model": "gpt-5.4-mini"},
        ),
        ("demo/bench/tool_time.yaml", {}, {}),
    ],
)
def test_init__benchmarks_of_the_harnesses(
    folder: Path, file: str, environment: dict[str, str], harness: dict[str, str]
) -> None:
    source = ROOT / file
    (folder / source.name).write_bytes(source.read_bytes())
    result = init(**environment)
    assert result.exit_code == 0, result.output
    benchmark = content(folder)
    assert benchmark["datasetRef"] == source.name
    written = yaml.safe_load((folder / "mosaico.yaml").read_text())
    assert written["benchmarks"]["support-bot-nightly"]["harness"] == harness
    assert "MOSAICO_HARNESS_DIR=$PWD mosaico serve" in result.stderr


def test_init__service_that_runs_already_is_told_the_variables_of_its_workers(folder: Path) -> None:
    source = ROOT / "demo" / "bench" / "tool_time.yaml"
    (folder / source.name).write_bytes(source.read_bytes())
    result = init(MOSAICO_URL="http://127.0.0.1:9")
    assert result.exit_code == 0, result.output
    assert "MOSAICO_HARNESS_DIR=$PWD" in result.stderr
    assert "mosaico serve" not in result.stderr


@pytest.mark.parametrize("command", ["./missing {input}", "cat | sort", "'open", ""])
def test_init__command_that_cannot_be_run_is_refused(folder: Path, command: str) -> None:
    result = init("--agent-command", command)
    assert result.exit_code == 2
    assert "hint:" in result.stderr
    assert not (folder / "mosaico.yaml").exists()


def test_init__opentelemetry_service_of_the_resource(folder: Path) -> None:
    result = init(OTEL_RESOURCE_ATTRIBUTES="team=a,service.name=shop bot")
    assert result.exit_code == 0, result.output
    assert content(folder)["source"] == "otel"
    [agent] = read_project_file(folder / "mosaico.yaml", {}).of_kind(ObjectKind.AGENT)
    assert (agent.key.name, agent.fields["otelServiceName"]) == ("shop bot", "shop bot")


@pytest.fixture
def langfuse() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse() as running:
        yield running


def keys_of(langfuse: FakeLangfuse) -> dict[str, str]:
    return {
        "LANGFUSE_PUBLIC_KEY": langfuse.public_key,
        "LANGFUSE_SECRET_KEY": langfuse.secret_key,
        "LANGFUSE_BASE_URL": langfuse.url,
    }


def test_init__langfuse_with_its_only_dataset(folder: Path, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(dataset="support", run="monday", items=3)
    result = init(**keys_of(langfuse))
    assert result.exit_code == 0, result.output
    benchmark = content(folder, **keys_of(langfuse))
    assert (benchmark["source"], benchmark["datasetRef"]) == ("langfuse", "support")
    text = (folder / "mosaico.yaml").read_text()
    assert "${LANGFUSE_SECRET_KEY}" in text
    assert langfuse.secret_key not in text
    assert langfuse.public_key not in text


def test_init__langfuse_without_a_dataset_is_production(
    folder: Path, langfuse: FakeLangfuse
) -> None:
    assert init(**keys_of(langfuse)).exit_code == 0
    benchmark = content(folder, **keys_of(langfuse))
    assert benchmark["production"]["since"] == "24h"  # type: ignore[index]


def test_init__of_several_datasets_the_terminal_is_asked_once(
    folder: Path, langfuse: FakeLangfuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        langfuse.experiment(dataset=name, run="monday", items=1)
    # Without a terminal: the default, which is said.
    guessed = init(**keys_of(langfuse))
    assert "guessed: Which dataset of Langfuse is judged?" in guessed.stderr
    monkeypatch.setattr(init_cli, "is_interactive", lambda _: True)
    answered = init("--force", stdin="third\nfirst\n", **keys_of(langfuse))
    assert answered.exit_code == 0, answered.output
    assert "third is not one of them" in answered.stderr
    assert "guessed: Which" not in answered.stderr
    assert content(folder, **keys_of(langfuse))["datasetRef"] == "first"


def test_init__server_that_does_not_answer_is_said(folder: Path) -> None:
    result = init(**SECRETS, LANGFUSE_HOST="http://127.0.0.1:9")
    assert result.exit_code == 0, result.output
    assert "guessed: the dataset 'support-bot': the datasets of Langfuse" in result.stderr
    assert "very-secret" not in (folder / "mosaico.yaml").read_text() + result.output


def test_init__never_overwrites(folder: Path) -> None:
    (folder / "mosaico.yaml").write_text("mine")
    refused = init(OTEL_SERVICE_NAME="bot")
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert (folder / "mosaico.yaml").read_text() == "mine"
    (folder / "mosaico.yaml").unlink()
    (folder / "agent-commands.json").write_text("mine")
    bot = f"{shlex.quote(sys.executable)} bot.py {{input}}"
    assert init("--agent-command", bot).exit_code == 2
    assert not (folder / "mosaico.yaml").exists()
    assert (folder / "agent-commands.json").read_text() == "mine"
    assert init("--force", "--agent-command", bot).exit_code == 0


def test_init__several_things_are_said_and_from_chooses(folder: Path) -> None:
    write_results(folder, "after.csv", 3, age=0)
    write_results(folder, "before.csv", 1, age=1)
    result = init(OTEL_SERVICE_NAME="bot")
    assert "found: the OpenTelemetry service bot in the environment" in result.stderr
    assert "files, not otel" in result.stderr
    assert content(folder)["source"] == "local"
    assert init("--force", "--from", "otel", OTEL_SERVICE_NAME="bot").exit_code == 0
    assert content(folder)["source"] == "otel"
    assert init("--force", "--from", "spans").exit_code == 2


@pytest.mark.parametrize(
    "name", ['a"b: ${HOME} #c', "on", "12", "- x", "größe 🤖", "{a: b}", "'", "a\\n", "@x", "no"]
)
def test_init__hostile_names_stay_names(folder: Path, name: str) -> None:
    result = init("--name", name, OTEL_SERVICE_NAME=name)
    assert result.exit_code == 0, result.output
    file = read_project_file(folder / "mosaico.yaml", {})
    [agent] = file.of_kind(ObjectKind.AGENT)
    assert agent.fields["otelServiceName"] == name
    # In a name that others refer to, `${` would begin a variable.
    assert agent.key.name == name.replace("${", "{")


def test_init__slack_of_the_environment_gets_the_alerts(folder: Path) -> None:
    url = "https://hooks.slack.com/services/T/B/secret"
    assert init(OTEL_SERVICE_NAME="bot", SLACK_WEBHOOK_URL=url).exit_code == 0
    assert url not in (folder / "mosaico.yaml").read_text()
    file = read_project_file(folder / "mosaico.yaml", {"SLACK_WEBHOOK_URL": url})
    [rule] = file.of_kind(ObjectKind.RULE)
    assert rule.fields["endpoints"] == ["team-slack"]


@pytest.mark.parametrize("value", [None, True, 1.5, "yes", "a: b", [1, {"a b": "c"}], {"": ""}])
def test_flow_text__is_the_value(value: object) -> None:
    assert yaml.safe_load(flow_text(value)) == value


def write_unknown_columns(folder: Path) -> None:
    for name, wrong, age in (("before.csv", 1, 7), ("after.csv", 8, 0)):
        answers = ["Berlin" if n < wrong else f"the town {n}" for n in range(20)]
        rows = [f"{n},a town {n},{answer}\n" for n, answer in enumerate(answers)]
        (folder / name).write_text("nr,foo,bar\n" + "".join(rows))
        os.utime(folder / name, (1_000_000_000 - age, 1_000_000_000 - age))


def test_init__columns_that_are_not_recognized_are_named_in_the_error(folder: Path) -> None:
    write_unknown_columns(folder)
    result = init()
    assert result.exit_code == 2
    assert "nr, foo, bar" in result.stderr
    assert "mosaico init --map" in result.stderr
    mistyped = init("--map", "output=baz")
    assert mistyped.exit_code == 2
    assert "'baz'" in mistyped.stderr


def test_init__named_columns_are_those_of_the_next_commands(folder: Path) -> None:
    write_unknown_columns(folder)
    result = init("--map", "output=bar,expected=foo", "--map", "item=nr")
    assert result.exit_code == 0, result.output
    assert content(folder)["columns"] == {"output": "bar", "expected": "foo", "item": "nr"}
    file = read_project_file(folder / "mosaico.yaml", {})
    [benchmark] = file.of_kind(ObjectKind.BENCHMARK)
    # The service has no such field.
    assert "columns" not in wanted_fields(file, benchmark)
    upload = next(line for line in result.stderr.splitlines() if "datasets upload" in line)
    assert "--map output=bar" in upload
    compared = CliRunner().invoke(cli, ["compare", "before.csv", "after.csv"])
    assert compared.exit_code == 0, compared.stderr
    assert "item=nr, output=bar, expected=foo" in compared.stderr
    previewed = CliRunner().invoke(cli, ["compare", "before.csv", "after.csv", "--preview"])
    assert previewed.exit_code == 0, previewed.stderr
    assert "Berlin" in previewed.stdout
    scored = CliRunner().invoke(cli, ["score", "after.csv", "--map", "output=foo"])
    # The option has precedence over the file.
    assert "output=foo" in scored.stderr


def test_compare__columns_of_the_file_are_those_of_tables_only(folder: Path) -> None:
    write_unknown_columns(folder)
    assert init("--map", "output=bar,expected=foo").exit_code == 0
    traces = [{"traceId": f"t{n}", "output": "a", "expectedOutput": "a"} for n in range(20)]
    (folder / "traces.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    compared = CliRunner().invoke(cli, ["compare", "traces.jsonl", "traces.jsonl"])
    assert compared.exit_code == 0, compared.stderr
    assert "columns that are not used" in compared.stderr


def test_python__columns_of_the_caller_precede_those_of_the_file(folder: Path) -> None:
    write_unknown_columns(folder)
    assert init("--map", "output=bar,expected=foo").exit_code == 0
    # No answer equals the expected one, but for the expected ones themselves.
    by_file = mosaico.score("after.csv", config="mosaico.yaml", metrics=["ACCURACY"])
    own = ReadOptions(mapping={"output": "foo"})
    by_caller = mosaico.score(
        "after.csv", config="mosaico.yaml", metrics=["ACCURACY"], read_options=own
    )
    assert (by_file["ACCURACY"], by_caller["ACCURACY"]) == (0.0, 1.0)


def test_columns__of_an_unknown_field_are_an_error_with_its_line(folder: Path) -> None:
    write_unknown_columns(folder)
    init("--map", "output=bar")
    path = folder / "mosaico.yaml"
    path.write_text(path.read_text().replace("{output: bar}", "{outptu: bar}"))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "outptu" in text)
    for words in (("score", "after.csv"), ("apply", "mosaico.yaml", "--dry-run")):
        refused = CliRunner().invoke(cli, [*words])
        assert refused.exit_code == 65
        assert f"mosaico.yaml:{line}:" in refused.stderr


def test_init__named_columns_are_those_of_files_whatever_else_is_there(folder: Path) -> None:
    write_unknown_columns(folder)
    other = {"OTEL_SERVICE_NAME": "bot"}
    assert init("--map", "output=baz", **other).exit_code == 2
    assert init("--map", "output=bar", "--from", "otel", **other).exit_code == 2
    assert init("--map", "output=bar", "--agent-command", "cat").exit_code == 2
    assert init("--map", "output=bar,expected=foo", **other).exit_code == 0
    assert content(folder)["columns"] == {"output": "bar", "expected": "foo"}


def test_init__names_results_that_it_leaves_out_for_something_else(folder: Path) -> None:
    write_unknown_columns(folder)
    result = init(OTEL_SERVICE_NAME="bot")
    assert result.exit_code == 0
    assert "not used: after.csv" in result.stderr
    assert "mosaico init --force --map" in result.stderr
    assert (
        init("--force", "--map", "output=bar,expected=foo", OTEL_SERVICE_NAME="bot").exit_code == 0
    )
    assert "not used" not in init("--force", "--from", "otel", OTEL_SERVICE_NAME="bot").stderr
    assert "not used" not in init("--force", "--agent-command", "cat").stderr


def test_init__asks_for_columns_on_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_unknown_columns(folder)
    monkeypatch.setattr(init_cli, "is_interactive", lambda _stream: True)
    result = init(stdin="output=bar,expected=foo\n")
    assert result.exit_code == 0, result.output
    assert content(folder)["columns"] == {"output": "bar", "expected": "foo"}


def test_init__recipients_of_the_environment(folder: Path) -> None:
    write_results(folder, "today.csv", 8, age=0)
    write_results(folder, "last-week.csv", 1, age=7)
    variables = {"WEBHOOK_URL": "http://127.0.0.1:9/hook", "SLACK_WEBHOOK_URL": "https://slack/x"}
    assert init(**variables).exit_code == 0
    file = read_project_file(folder / "mosaico.yaml", variables)
    assert {endpoint.fields["channel"] for endpoint in file.of_kind(ObjectKind.ENDPOINT)} == {
        "SLACK",
        "WEBHOOK",
    }
    [rule] = file.of_kind(ObjectKind.RULE)
    assert len(rule.fields["endpoints"]) == 2
    assert variables["WEBHOOK_URL"] not in (folder / "mosaico.yaml").read_text()
