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


def test_symbols_of_changes__stand_in_one_module() -> None:
    changes = {symbols.WORSE, symbols.BETTER, symbols.NO_EVIDENCE, symbols.INCONCLUSIVE}
    files = [*ROOT.glob("app/**/*.py"), *ROOT.glob("app/mosaico/core/web/templates/*.html")]
    # The signs in the cells of other people's tables mean what these people mean.
    files = [file for file in files if file.name != "cell_values.py"]
    assert [file.name for file in files if changes & {*file.read_text()}] == ["symbols.py"]


def test_symbol_of__a_state_without_one_has_a_dash() -> None:
    assert (symbols.symbol_of("scored"), symbols.symbol_of("CANCELLED")) == ("✓", "–")
