"""Conventions of commands: streams, errors, confirmation."""

import io
import json
import sys

import pytest
import typer
from typer.testing import CliRunner, Result

from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    confirm,
    escape_line,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.errors import AppError, Conflict, ErrorItem, Invalid

group = CommandGroup("toy", help="Toy commands.")

ERROR: AppError = Invalid(
    "the body is wrong",
    errors=[ErrorItem(pointer="/name", detail="is missing; send it", span=(0, 2))],
    hint="write a name",
)


@group.command("refuse")
def refuse(words: list[str] | None = None, output: Format = OutputFormat.TABLE) -> None:
    print_status("on the way")
    if words:
        print_result(" ".join(words))
    raise ERROR


@group.command("echo")
def echo(word: str, output: Format = OutputFormat.TABLE) -> None:
    if output is OutputFormat.JSON:
        print_json({"word": word})
    else:
        print_result(word)


def run(*words: str) -> Result:
    return CliRunner().invoke(group, list(words))


@group.command("delete-all")
def delete_all(yes: bool = False) -> None:
    confirm("delete everything?", yes=yes)
    print_result("deleted")


def test_error__is_lines_on_stderr_and_its_exit_code() -> None:
    refused = run("refuse")
    assert (refused.exit_code, refused.stdout) == (65, "")
    assert refused.stderr.splitlines() == [
        "on the way",
        "error: the body is wrong",
        "  name: is missing; give it",
        "hint: write a name",
    ]


def test_error__with_json_is_a_problem_document_on_stderr() -> None:
    refused = run("refuse", "--format", "json")
    assert (refused.exit_code, refused.stdout) == (65, "")
    assert json.loads(refused.stderr.splitlines()[1]) == {
        "type": "/problems/invalid",
        "title": "Invalid",
        "status": 422,
        "detail": "the body is wrong",
        "errors": [{"pointer": "/name", "detail": "is missing; send it", "span": [0, 2]}],
        "hint": "write a name",
    }


def test_json_option__is_format_json_except_after_two_dashes() -> None:
    assert run("echo", "x", "--json").stdout == '{"word": "x"}\n'
    assert run("echo", "--", "--json").stdout == "--json\n"


def test_format_option__default_comes_from_the_environment() -> None:
    result = CliRunner().invoke(group, ["echo", "x"], env={"MOSAICO_FORMAT": "json"})
    assert result.stdout == '{"word": "x"}\n'


def test_wrong_usage__exits_2_with_nothing_on_stdout() -> None:
    for words in (["echo"], ["echo", "x", "--no-such"], ["echo", "x", "--format", "xml"], ["ech"]):
        refused = run(*words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [(Conflict, 73), (Invalid, 65), (AppError, 70)],
)
def test_exit_code__depends_on_the_error_class(kind: type[AppError], exit_code: int) -> None:
    single = CommandGroup("single", help="Single.")

    @single.command("do")
    def do() -> None:
        raise kind("no")

    assert CliRunner().invoke(single, []).exit_code == exit_code


def test_confirm__without_a_terminal_requires_yes() -> None:
    refused = run("delete-all")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "hint: add --yes" in refused.stderr
    assert run("delete-all", "--yes").stdout == "deleted\n"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("reply", "agrees"),
    [("y\n", True), ("YES\n", True), ("\n", False), ("", False), ("n\n", False)],
)
def test_confirm__on_a_terminal_accepts_only_yes(
    reply: str, agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(reply))
    monkeypatch.setattr(sys, "stderr", screen)
    if agrees:
        confirm("delete everything?", yes=False)
    else:
        with pytest.raises(typer.Exit) as caught:
            confirm("delete everything?", yes=False)
        assert caught.value.exit_code == 1
    assert screen.getvalue().startswith("delete everything? [y/N]")


def test_escape_line__escapes_control_characters() -> None:
    assert escape_line("a\tb\nc\x1b[31m\u202e é 🚲") == "a\\tb\\nc\\x1b[31m\\u202e é 🚲"
