"""The targets of the Makefile that no other test runs."""

from pathlib import Path

from benchmarks.__main__ import ONLY_BY_NAME

MAKEFILE = Path(__file__).parents[3] / "Makefile"


def test_makefile__busy_runs_the_kills_and_the_takeover_under_load() -> None:
    recipe = MAKEFILE.read_text().partition("\nbusy:")[2].partition("\n\n")[0]
    assert "--busy-loops 20 -n 0 tests/e2e" in recipe
    assert "-m benchmarks takeover-busy" in recipe
    assert "takeover-busy" in ONLY_BY_NAME
