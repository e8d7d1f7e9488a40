"""Each acceptance criterion of the pages has the tests that its documentation names; needs no browser."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs" / "page-criteria.md"
# Besides the tests in a browser: those of an installed wheel, and of pages that need no browser.
OTHER_FILES: Final = (
    "tests/e2e/test_installed_wheel.py",
    "tests/integration/edge/test_api_pages.py",
    "tests/integration/edge/test_stale_edits.py",
    "tests/integration/edge/test_trend_page.py",
    "tests/integration/runs/test_failure_logs.py",
)
ROW: Final = re.compile(r"^\| (\d+) \| .+ \| ([^|]+) \|$", re.MULTILINE)
NUMBERS: Final = re.compile(r"\bcriteri(?:on|a) ((?:\d+(?:, | and )?)+)", re.IGNORECASE)
CRITERIA: Final = 42


def read_documented_tests() -> dict[int, set[str]]:
    rows = ROW.findall(DOCS.read_text(encoding="utf-8"))
    return {int(number): set(re.findall(r"`(\w+)`", tests)) for number, tests in rows}


def read_tests() -> dict[int, set[str]]:
    """The tests whose docstring names a criterion, by its number."""
    tests = defaultdict(set)
    files = [
        *(ROOT / "tests" / "browser").glob("test_*.py"),
        *(ROOT / name for name in OTHER_FILES),
    ]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for numbers in NUMBERS.findall(ast.get_docstring(node) or ""):
                    for number in re.findall(r"\d+", numbers):
                        tests[int(number)].add(node.name.removeprefix("test_"))
    return dict(tests)


def test_criteria__each_has_the_documented_tests() -> None:
    documented = read_documented_tests()
    assert list(documented) == list(range(1, CRITERIA + 1))
    assert documented == read_tests()
