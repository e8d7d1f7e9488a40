"""Every command has examples in its help, and each example is a command line that parses."""

import re
import shlex

import pytest

from app.core.console.examples import EXAMPLES, examples_of
from app.core.web.pages import TEMPLATES
from tests.support.cli_reference import commands

LEAVES = {" ".join(leaf.words): leaf for leaf in commands()}
LINES = [(words, line) for words, lines in EXAMPLES.items() for line in lines]
# The commands that pages name.
PAGE_LINES = sorted(
    {
        line
        for template in TEMPLATES.iterdir()
        for line in re.findall(r'"(mosaico [a-z][^"]+)"', template.read_text())
    }
)
# The help of an 80-column terminal, with its indent.
MAX_LENGTH = 78


@pytest.mark.parametrize("name", LEAVES)
def test_command__has_examples(name: str) -> None:
    assert EXAMPLES.get(name), "add a line to app/core/console/examples.py"


@pytest.mark.parametrize(("words", "line"), LINES, ids=[line for _, line in LINES])
def test_example__parses(words: str, line: str) -> None:
    leaf = LEAVES[words]
    program, *arguments = shlex.split(line)
    assert (program, arguments[: len(leaf.words)]) == ("mosaico", list(leaf.words))
    assert len(line) <= MAX_LENGTH
    leaf.command.make_context(words, arguments[len(leaf.words) :])


@pytest.mark.parametrize("line", PAGE_LINES)
def test_page__command_of_an_empty_state_parses(line: str) -> None:
    arguments = shlex.split(line)[1:]
    words = next(name for name in LEAVES if arguments[: len(name.split())] == name.split())
    options = arguments[len(words.split()) :]
    if options != ["--help"]:
        LEAVES[words].command.make_context(words, options)


def test_examples__of_a_harness_as_its_own_program() -> None:
    assert examples_of("ot-bench schema") == ("mosaico ot-bench schema",)
    assert examples_of("bashkit-eval lint") == ("mosaico bash-eval lint tasks.jsonl",)
    assert examples_of("mosaico") == ()
