"""The reference of the command line: the list in `docs/cli.md`, and the help texts in `docs/cli/`."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import typer
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.core.console.terminal import load_command


class LeafCommand(NamedTuple):
    """A command that is not a group, and the words that call it."""

    words: tuple[str, ...]
    command: Any


def commands() -> Iterator[LeafCommand]:
    """Every command, in the order of the help texts."""
    yield from _leaves((), typer.main.get_command(cli))


def pages() -> dict[str, str]:
    """Each page of `docs/cli/` by its file name: one for each first word."""
    by_name: dict[str, list[LeafCommand]] = {}
    for leaf in commands():
        by_name.setdefault(leaf.words[0], []).append(leaf)
    return {f"{name}.md": _page_of_command(name, leaves) for name, leaves in by_name.items()}


def list_of_commands() -> str:
    """The first words of commands below their headings in the help, each with its line."""
    lines: list[str] = []
    heading = None
    root: Any = typer.main.get_command(cli)
    for name in root.list_commands(typer.Context(root)):
        command = root.commands[name]
        if command.rich_help_panel != heading:
            heading = command.rich_help_panel
            lines += ["", f"### {heading}", ""]
        short_help = command.get_short_help_str(limit=200)
        lines.append(f"- [`mosaico {name}`](cli/{name}.md): {short_help}")
    return "\n".join(lines) + "\n"


def _page_of_command(name: str, leaves: list[LeafCommand]) -> str:
    """The help text of each command that begins with a word."""
    note = "`make generate` writes this page; [the command line](../cli.md) has what all share."
    sections = [
        f"## mosaico {' '.join(leaf.words)}\n\n```text\n{_help(leaf.words)}```\n" for leaf in leaves
    ]
    return "\n".join([f"# mosaico {name}\n\n{note}\n", *sections])


def _leaves(words: tuple[str, ...], command: Any) -> Iterator[LeafCommand]:
    loaded = load_command(command)
    children = getattr(loaded, "commands", None)
    if children is None:
        yield LeafCommand(words, loaded)
        return
    for name, child in children.items():
        yield from _leaves((*words, name), child)


def _help(words: tuple[str, ...]) -> str:
    result = CliRunner().invoke(cli, [*words, "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    return result.stdout
