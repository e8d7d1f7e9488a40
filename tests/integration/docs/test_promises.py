"""The table of promises: their words stand in the pages, and their tests exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = {"security.md", "deployment.md", "database.md", "langfuse.md", "monitoring.md"}


class Promise(NamedTuple):
    """A row of the table, and the page of its section."""

    page: str
    words: str
    tests: list[str]


def promises() -> Iterator[Promise]:
    sections = re.split(r"^## ", (DOCS / "promises.md").read_text(), flags=re.MULTILINE)[1:]
    for section in sections:
        page, _, rows = section.partition("\n")
        for words, tests in re.findall(r"^\| (.+?) \| (`test_.+) \|$", rows, re.MULTILINE):
            yield Promise(page, words, re.findall(r"`(test_\w+)`", tests))


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def test_promises__words_stand_in_their_pages() -> None:
    rows = list(promises())
    assert {row.page for row in rows} == PAGES
    texts = {page: on_one_line((DOCS / page).read_text()) for page in PAGES}
    assert [row.words for row in rows if row.words not in texts[row.page]] == []


def test_promises__tests_exist() -> None:
    paths = (ROOT / "tests").glob("**/test_*.py")
    defined = {
        name
        for path in paths
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    rows = list(promises())
    assert all(row.tests for row in rows)
    assert {test for row in rows for test in row.tests} - defined == set()
