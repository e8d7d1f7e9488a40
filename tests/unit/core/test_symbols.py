"""One symbol has one meaning."""

import re
from pathlib import Path

from mosaico.core import symbols
from mosaico.statistics.verdict_rules import Verdict

ROOT = Path(__file__).parents[3]


def test_verdicts__each_has_a_symbol_of_its_own() -> None:
    assert set(symbols.VERDICTS) == set(Verdict)
    assert len(set(symbols.VERDICTS.values())) == len(Verdict)


def test_verdicts__page_about_them_shows_the_same_symbols() -> None:
    text = (ROOT / "docs" / "verdicts.md").read_text()
    assert dict(re.findall(r"^\| `([A-Z_]+)` (\S) \|", text, re.MULTILINE)) == symbols.VERDICTS


def test_no_evidence__its_symbol_is_written_nowhere_else() -> None:
    """A circle of another kind, such as that of an ordinary cell, would read as a verdict."""
    app = ROOT / "app" / "mosaico"
    # Answers of people and of tools, where a circle says "right".
    readers = app / "traces" / "files"
    places = {
        path.relative_to(app).as_posix()
        for pattern in ("*.py", "*.html", "*.js", "*.css")
        for path in app.rglob(pattern)
        if symbols.NO_EVIDENCE in path.read_text("utf-8") and readers not in path.parents
    }
    assert places == {"core/symbols.py"}
