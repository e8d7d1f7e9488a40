"""Conventions that every command follows."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.core.errors import AppError
from tests.support.cli_reference import LeafCommand, commands
from tests.support.generated_files import BEGIN, DOCS
from tests.support.generated_tables import import_every_module
from tests.support.waiting import LIVENESS_S

ALL = list(commands())
NAMES = [" ".join(leaf.words) for leaf in ALL]
# Each takes a large part of the quarter of a second that `--version` may take.
HEAVY = ("sqlalchemy", "fastapi", "httpx", "lark", "rich", "psycopg", "pydantic_settings")


def options(leaf: LeafCommand) -> list[Any]:
    return [
        param
        for param in leaf.command.params
        if param.param_type_name == "option" and param.name != "help"
    ]


def group_names() -> list[str]:
    return sorted(
        {" ".join(leaf.words[:depth]) for leaf in ALL for depth in range(len(leaf.words))}
    )


def mosaico(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mosaico.cli", *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIVENESS_S,
    )


@pytest.mark.parametrize(
    "group", ["agents", "benchmarks", "schedules", "alerts rules", "alerts silences"]
)
def test_editable_resources__have_all_verbs(group: str) -> None:
    verbs = ("list", "show", "create", "update", "delete")
    assert {f"{group} {verb}" for verb in verbs} <= set(NAMES)


@pytest.mark.parametrize("group", ["keys", "notify endpoints"])
def test_resources_that_are_never_deleted__have_all_other_verbs(group: str) -> None:
    assert {f"{group} {verb}" for verb in ("list", "show", "create", "update")} <= set(NAMES)


def test_help__every_command_and_option_has_a_text() -> None:
    assert [name for leaf, name in zip(ALL, NAMES, strict=True) if not leaf.command.help] == []
    without_help = [
        (name, option.name)
        for leaf, name in zip(ALL, NAMES, strict=True)
        for option in options(leaf)
        if not option.help
    ]
    assert without_help == []


def test_options__only_the_documented_environment_variable_exists() -> None:
    variables = {option.envvar for leaf in ALL for option in options(leaf)} - {None}
    assert variables <= {"MOSAICO_FORMAT"}
    prefixes = {leaf.command.context_settings.get("auto_envvar_prefix") for leaf in ALL}
    assert prefixes == {None}


def test_help__short_option_long_option_and_help_command_agree() -> None:
    # One command of each group: all are of one class, and each help page takes long to lay out.
    first_commands = {leaf.words[:-1]: " ".join(leaf.words) for leaf in reversed(ALL)}
    for name in [*group_names(), *first_commands.values()]:
        words = name.split()
        short, long = (CliRunner().invoke(cli, [*words, way]).stdout for way in ("-h", "--help"))
        by_command = CliRunner().invoke(cli, ["help", *words]).stdout
        assert short == long, name
        assert short.startswith("Usage: "), name
        # Without the first line, the usage, in which the name of the program differs.
        assert by_command.partition("\n")[2] == short.partition("\n")[2], name


def test_help__unknown_command_exits_2() -> None:
    refused = CliRunner().invoke(cli, ["help", "runs", "strat"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "'strat'" in refused.stderr


def test_completion_options__exist_at_the_root_only() -> None:
    helps = {
        name: CliRunner().invoke(cli, [*name.split(), "--help"]).stdout for name in group_names()
    }
    assert [name for name, text in helps.items() if "--install-completion" in text] == [""]


def test_options__none_takes_a_secret() -> None:
    names = {name for leaf in ALL for option in options(leaf) for name in option.opts}
    # Other users of the machine see the arguments of a process.
    assert not names & {"--key", "--api-key", "--token", "--password", "--langfuse-secret-key"}


def test_options__lists_and_details_have_a_json_format() -> None:
    readers = [
        leaf for leaf in ALL if leaf.words[-1] in ("list", "show", "status", "plugins", "score")
    ]
    without_format = [
        leaf.words
        for leaf in readers
        if "--format" not in {name for option in options(leaf) for name in option.opts}
    ]
    assert readers
    assert without_format == []


def test_plugins__json_is_one_document() -> None:
    result = CliRunner().invoke(cli, ["plugins", "--json"])
    assert result.exit_code == 0
    items = json.loads(result.stdout)["items"]
    assert {"kind": "metric", "name": "ROUGE", "origin": "built-in", "error": None} in items


def test_root__mistyped_command_suggests_the_nearest() -> None:
    refused = CliRunner().invoke(cli, ["rnus"])
    assert refused.exit_code == 2
    assert "Did you mean 'runs'?" in refused.stderr


def test_startup__version_and_help_import_no_heavy_package() -> None:
    program = (
        "import sys; from mosaico.cli import cli\n"
        "try: cli()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    for option in ("--version", "--help"):
        done = subprocess.run(
            [sys.executable, "-c", program, option],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIVENESS_S,
        )
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert not loaded & set(HEAVY)
        # Otherwise the program printed no modules, and the line above proves nothing.
        assert "mosaico.core.console.terminal" in done.stderr


def test_unexpected_error__is_one_line_and_exit_70_unless_debug() -> None:
    program = "import mosaico.cli as c; c._print_version = lambda: 1/0; c.main()"

    def crash(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
        )

    short = crash("--version")
    assert (short.returncode, short.stdout) == (70, "")
    assert short.stderr.startswith("error: ZeroDivisionError: division by zero\nhint: ")
    assert "Traceback" in crash("--debug", "--version").stderr


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        # 128 + SIGPIPE, as git and gh: not 1, which is the code of a regression.
        (["--help"], 141),
        # A command that fails keeps its code.
        (["score", "missing.csv"], 2),
    ],
)
def test_output__a_pipe_that_nobody_reads_ends_the_command_quietly(
    words: list[str], exit_code: int
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "mosaico.cli", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=LIVENESS_S,
    )
    os.close(writer)
    assert done.returncode == exit_code
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_output__ascii_terminal_is_not_an_error() -> None:
    # The port 1 is closed, so the service cannot be reached, which is exit code 69.
    refused = mosaico(
        "runs", "show", "é", MOSAICO_URL="http://127.0.0.1:1", PYTHONIOENCODING="ascii"
    )
    assert refused.returncode == 69
    assert "Traceback" not in refused.stderr


@pytest.mark.xdist_group("sdks of models")  # it loads every module, and those with them
def test_docs__list_every_exit_code() -> None:
    import_every_module()
    by_hand = (DOCS / "cli.md").read_text().partition(BEGIN)[0]

    def kinds(kind: type[AppError]) -> list[type[AppError]]:
        return [kind, *(kind for child in kind.__subclasses__() for kind in kinds(child))]

    for code in {kind.exit_code for kind in kinds(AppError)}:
        assert f"| {code} |" in by_hand
