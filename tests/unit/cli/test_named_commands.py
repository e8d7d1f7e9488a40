"""Every command that a message, a hint or a documentation page names exists, with its options."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from mosaico.cli import cli
from mosaico.core.console.error_messages import LIST_COMMANDS, REMEDIES
from mosaico.core.console.terminal import load_command
from mosaico.core.errors import NotFound
from mosaico.harness.bash.cli import cli as bash_cli
from mosaico.harness.mcp.cli.ot_bench import cli as mcp_cli
from tests.support.generated_tables import import_every_module

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = {"mosaico": cli, "bashkit-eval": bash_cli, "ot-bench": mcp_cli}
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted((ROOT / "app").rglob("*.py"))
TEMPLATES = sorted((ROOT / "app" / "mosaico" / "core" / "web" / "templates").glob("*.html"))
CI_FILES = [ROOT / "ci" / "github" / "action.yml", ROOT / "ci" / "gitlab.yml"]

PROGRAM = rf"(?:{'|'.join(PROGRAMS)})"
QUOTED = re.compile(rf"`\s*(?:\$ )?({PROGRAM}(?: [^`]*)?)`")
UNQUOTED = re.compile(rf": ({PROGRAM} [a-z][^\n`]*)")
MARKED_UP = re.compile(
    rf'command="({PROGRAM} [^"]*)"|"({PROGRAM} [a-z][^"]*)"|<code>({PROGRAM} [^<{{]*)<'
)
LEADING = re.compile(rf"^\s*(?:\$ |\w+=\$\()?({PROGRAM} .*)$", re.MULTILINE)
# A word that ends the command: a comment, a pipe or redirection, an ellipsis, an assignment.
END = re.compile(r"^(#|\||>|<|&&|;|…|\.\.\.|\\|=)")


class NamedCommand(NamedTuple):
    """A command line in a text, and its location."""

    location: str
    text: str


class UnknownCommandError(AssertionError):
    """A command line does not exist."""


def resolve(text: str) -> None:
    """Look up the groups, the command and the options of a command line.

    Raises: `UnknownCommandError`.
    """
    program, *words = split(text)
    command = load_program(program)
    for word in words:
        if END.match(word):
            return
        if word.startswith("-"):
            require_option(command, word, text)
        elif children := getattr(command, "commands", None):
            if word not in children:
                # A placeholder: `mosaico help COMMAND`.
                if word.isupper():
                    return
                raise UnknownCommandError(f"{text!r}: no command {word!r}")
            command = load_command(children[word])


@cache
def load_program(name: str) -> Any:
    return typer.main.get_command(PROGRAMS[name])


def split(text: str) -> list[str]:
    """The words of a command line; what a shell would refuse is split at spaces."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def require_option(command: Any, word: str, text: str) -> None:
    """Raises: `UnknownCommandError` if the command has no such option."""
    name = word.partition("=")[0].rstrip("`,.;:)")
    names = {"-h", "--help"}
    for param in command.params:
        names |= {*param.opts, *param.secondary_opts}
    if "--format" in names:
        names.add("--json")
    is_group_option = name in ("--install-completion", "--show-completion")
    # A negative value, as in `--max-drop -1`.
    is_number = re.fullmatch(r"-\d.*", name)
    accepts_all = command.context_settings.get("ignore_unknown_options")
    if not (name in names or is_group_option or is_number or accepts_all):
        raise UnknownCommandError(f"{text!r}: no option {name!r}")


def commands_of_page(path: Path) -> Iterator[NamedCommand]:
    """Commands in code spans and code blocks of a Markdown page."""
    text = path.read_text().replace("\\\n", " ")
    location = str(path.relative_to(ROOT))
    for pattern in (QUOTED, LEADING):
        for match in pattern.finditer(text):
            yield NamedCommand(location, " ".join(match[1].split()))


def commands_of_template(path: Path) -> Iterator[NamedCommand]:
    """Commands in arguments of macros, `<code>` and code spans of a template."""
    text = path.read_text()
    for match in [*MARKED_UP.finditer(text), *QUOTED.finditer(text)]:
        [command] = filter(None, match.groups())
        yield NamedCommand(path.name, command)


def commands_of_module(path: Path) -> Iterator[NamedCommand]:
    """Commands in code spans of the texts of a module, after a colon, and as a whole hint."""
    source = path.read_text()
    # An import names the package without a space.
    if not re.search(rf"{PROGRAM}[ `]", source):
        return  # parsing all modules takes seconds
    module = path.relative_to(ROOT)
    for node in ast.walk(ast.parse(source)):
        location = f"{module}:{getattr(node, 'lineno', 0)}"
        text = literal_text(node) or ""
        if isinstance(node, ast.keyword) and node.arg == "hint":
            hint = literal_text(node.value) or ""
            if re.match(rf"{PROGRAM} ", hint):
                yield NamedCommand(location, hint)
        for match in QUOTED.finditer(text):
            yield NamedCommand(location, " ".join(match[1].split()))
        for match in UNQUOTED.finditer(text):
            yield NamedCommand(location, match[1])


def literal_text(node: ast.AST) -> str | None:
    """The text of a string literal; a placeholder of an f-string is the word `VALUE`."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
        return "".join(map(str, parts))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def errors_in(commands: Iterator[NamedCommand]) -> list[str]:
    """The command lines that do not exist, with their locations."""
    errors = []
    for command in commands:
        try:
            resolve(command.text)
        except UnknownCommandError as error:
            errors.append(f"{command.location}: {error}")
    return errors


def test_pages__name_existing_commands() -> None:
    commands = [command for path in PAGES for command in commands_of_page(path)]
    assert len(commands) > 50
    assert errors_in(iter(commands)) == []


def test_templates__name_existing_commands() -> None:
    commands = [command for path in TEMPLATES for command in commands_of_template(path)]
    assert len(commands) >= 10
    assert errors_in(iter(commands)) == []


def test_ci_files__run_existing_commands() -> None:
    commands = [command for path in CI_FILES for command in commands_of_page(path)]
    assert commands
    assert errors_in(iter(commands)) == []


def test_modules__messages_name_existing_commands() -> None:
    commands = [command for path in MODULES for command in commands_of_module(path)]
    assert len(commands) > 50
    assert errors_in(iter(commands)) == []


@pytest.mark.xdist_group("sdks of models")  # it loads every module, and those with them
def test_not_found_errors__of_resources_with_a_list_command_name_it() -> None:
    import_every_module()
    without_command = {"not-found", "webhook-secret-not-found"}
    without_command |= {"trigger-event-not-found", "unsupported-signal", "no-provider"}
    without_command |= {"setup-draft-not-found", "item-not-in-run", "unknown-note"}
    # Those of plugins name `mosaico plugins` themselves.
    codes = {kind.code for kind in subclasses(NotFound) if "`mosaico" not in (kind.__doc__ or "")}
    codes -= without_command
    assert codes <= LIST_COMMANDS.keys() | REMEDIES.keys()


def subclasses(kind: type[NotFound]) -> Iterator[type[NotFound]]:
    """The class and all classes derived from it."""
    yield kind
    for child in kind.__subclasses__():
        yield from subclasses(child)
