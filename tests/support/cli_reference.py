"""The reference part of `docs/cli.md`: what each command says of itself.

`python -m tests.support.cli_reference` writes it into the page.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.testing import CliRunner

from app.cli import Deferred, cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
MARK = "<!-- What follows is written by `python -m tests.support.cli_reference`. -->\n"


class Leaf(NamedTuple):
    """A command and the words that call it."""

    words: tuple[str, ...]
    command: Any


def commands() -> Iterator[Leaf]:
    """Every command, in the order of the help texts."""
    for name, command in typer.main.get_command(cli).commands.items():  # type: ignore[attr-defined]
        loaded = command.load() if isinstance(command, Deferred) else command
        children = getattr(loaded, "commands", None)
        if children is None:
            yield Leaf((name,), loaded)
            continue
        for child, leaf in children.items():
            yield Leaf((name, child), leaf)


def reference() -> str:
    return "".join(
        f"\n### mosaico {' '.join(leaf.words)}\n\n```text\n{_help(leaf.words)}```\n"
        for leaf in commands()
    )


def page() -> str:
    """The whole page with a fresh reference."""
    before, mark, _ = PAGE.read_text().partition(MARK)
    return before + mark + reference()


def _help(words: tuple[str, ...]) -> str:
    result = CliRunner().invoke(cli, [*words, "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    return result.stdout


if __name__ == "__main__":
    PAGE.write_text(page())
