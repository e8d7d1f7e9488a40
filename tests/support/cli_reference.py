"""The reference part of `docs/cli.md`: the help text of each command.

`python -m tests.support.cli_reference` writes it into the page.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.core.console.terminal import load_command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
MARK = "<!-- `python -m tests.support.cli_reference` generates the rest of this page. -->\n"


class LeafCommand(NamedTuple):
    """A command that is not a group, and the words that call it."""

    words: tuple[str, ...]
    command: Any


def commands() -> Iterator[LeafCommand]:
    """Every command, in the order of the help texts."""
    yield from _leaves((), typer.main.get_command(cli))


def reference() -> str:
    """The help text of each command as Markdown."""
    return "".join(
        f"\n### mosaico {' '.join(leaf.words)}\n\n```text\n{_help(leaf.words)}```\n"
        for leaf in commands()
    )


def page() -> str:
    """The whole page with a fresh reference."""
    before, mark, _ = PAGE.read_text().partition(MARK)
    return before + mark + reference()


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


if __name__ == "__main__":
    PAGE.write_text(page())
