"""Every command has examples in its help, and each example is a command line that parses."""

import re
import shlex

from typer.exceptions import TyperException

from mosaico.core.console.examples import EXAMPLES, examples_of
from mosaico.core.web.pages import TEMPLATES
from tests.support.cli_reference import commands

LEAVES = {" ".join(leaf.words): leaf for leaf in commands()}
LINES = [(words, line) for words, lines in EXAMPLES.items() for line in lines]
# The commands that pages name.
PAGE_LINES = sorted(
    {
        line
        for template in TEMPLATES.iterdir()
        for line in re.findall(r'"(mosaico [a-z][^"]+)"(?! ~)', template.read_text())
    }
)
# The help of an 80-column terminal, with its indent.
MAX_LENGTH = 78


def test_every_command__has_examples() -> None:
    without_example = [name for name in LEAVES if not EXAMPLES.get(name)]
    assert without_example == [], "add lines to app/mosaico/core/console/examples.py"


def parse(line: str, words: str) -> None:
    """Parse a line as the command that these words call. Raises: `AssertionError` naming the line."""
    program, *arguments = shlex.split(line)
    count = len(words.split())
    assert [program, *arguments[:count]] == ["mosaico", *words.split()], line
    try:
        LEAVES[words].command.make_context(words, arguments[count:])
    except TyperException as error:
        raise AssertionError(f"{line}: {error}") from error


def test_every_example__parses() -> None:
    for words, line in LINES:
        assert len(line) <= MAX_LENGTH, line
        parse(line, words)


def test_pages__commands_of_empty_states_parse() -> None:
    for line in PAGE_LINES:
        arguments = shlex.split(line)[1:]
        words = next(name for name in LEAVES if arguments[: len(name.split())] == name.split())
        if arguments[len(words.split()) :] != ["--help"]:
            parse(line, words)


def test_examples__of_a_harness_as_its_own_program() -> None:
    assert examples_of("ot-bench schema") == ("mosaico ot-bench schema",)
    assert examples_of("bashkit-eval lint") == ("mosaico bash-eval lint tasks.jsonl",)
    assert examples_of("mosaico") == ()
