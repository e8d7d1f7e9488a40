"""One symbol has one meaning."""

import re
from pathlib import Path

from mosaico.core import symbols
from mosaico.statistics.verdict_rules import Verdict

ROOT = Path(__file__).parents[3]


def test_verdicts__each_has_a_symbol_of_its_own() -> None:
    assert set(symbols.VERDICTS) == set(Verdict)
    assert len(set(symbols.VERDICTS.values())) == len(Verdict)


def test_verdicts__page_about_statistics_shows_the_same_symbols() -> None:
    text = (ROOT / "docs" / "statistics.md").read_text()
    assert dict(re.findall(r"^\| `([A-Z_]+)` (\S) \|", text, re.MULTILINE)) == symbols.VERDICTS
