"""docs/formula*.md: tables, examples and commands."""

import json
import re
import shlex
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from typer.testing import CliRunner

from mosaico.formula import compile_formula, help_document, parse, read_reference
from mosaico.metrics.formula_cli import cli

PAGES = [
    Path(__file__).parents[3] / "docs" / f"{name}.md" for name in ("formula", "formula-reference")
]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
HELP = help_document()


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


TABLES = {
    "functions": table(
        ["Function", "Result", "Example"],
        [
            [f"`{row['signature']}`", row["meaning"], f"`{row['example']}`"]
            for row in HELP["functions"]
        ],
    ),
    "operators": table(
        ["Operator", "Rank", "Result", "Example"],
        [
            [f"`{row['symbol']}`", str(row["precedence"]), row["meaning"], f"`{row['example']}`"]
            for row in HELP["operators"]
        ],
    ),
    "statistics": table(
        ["Statistic", "Result"],
        [[f"`{row['name']}`", row["meaning"]] for row in HELP["statistics"]],
    ),
    "limits": table(
        ["Limit", "Maximum"], [[name, str(most)] for name, most in HELP["limits"].items()]
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_formula_page__tables_match_the_checker(name: str) -> None:
    example = re.search(rf"<!-- {name} -->\n(.*?)\n?<!-- end -->", TEXT, re.DOTALL)
    assert example is not None
    assert example[1] == TABLES[name]


def test_formula_page__python_examples_run() -> None:
    parser = Sybil(parsers=[PythonCodeBlockParser()])
    examples = [example for page in PAGES for example in parser.parse(page).examples()]
    assert len(examples) == 5
    for example in examples:
        example.evaluate()


def test_formula_page__formulas_have_the_documented_values() -> None:
    section = TEXT.split("## Examples")[1].split("\n## ")[0]
    examples = re.findall(r"`([^`]+)`\s=\s([0-9.]+[0-9]|[0-9])", section)
    values = {read_reference(name): float(value) for name, value in examples}
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", section, re.MULTILINE)
    assert (len(examples), len(rows)) == (6, 15)
    for text, expected in rows:
        value, reason = compile_formula(text).evaluate(values)  # type: ignore[arg-type]
        printed_value = f"undefined: {reason}" if value is None else f"{value:g}"
        assert (text, printed_value) == (text, expected)


def test_formula_page__commands_print_the_documented_output() -> None:
    blocks = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    commands = [command for block in blocks for command in block.split("$ mosaico formula ")[1:]]
    assert len(commands) == 3
    for command in commands:
        line, _, expected = command.partition("\n")
        result = CliRunner().invoke(cli, shlex.split(line))
        assert result.stdout + result.stderr == expected


def test_formula_help__every_example_is_a_valid_formula() -> None:
    examples = [row["example"] for part in ("functions", "operators") for row in HELP[part]]
    assert [text for text in examples if not parse(text).success] == []


def test_formula_help__is_valid_json() -> None:
    assert json.loads(json.dumps(HELP)) == HELP
