"""How much whole runs vary, in one sentence: what was used is what is said."""

import pytest

from mosaico.comparison.whole_run_text import describe_whole_runs
from mosaico.kpis.verdict_types import ValueVerdict, WholeRunVariation
from mosaico.statistics.verdict_rules import RunsBasis, Scale


def sentence(sd: float, basis: RunsBasis, runs: int = 0, scale: Scale = Scale.RATE) -> str:
    variation = WholeRunVariation(sd=sd, basis=basis, runs=runs)
    verdict = ValueVerdict(explanation="", effect=-0.1, scale=scale, whole_runs=variation)
    [text] = describe_whole_runs([verdict], is_file=True)
    return text


def test_describe_whole_runs__names_what_was_used() -> None:
    assert "--history" in sentence(0.015, RunsBasis.ASSUMED)
    # With two runs the assumption stays in use, and more of them help.
    kept = sentence(0.015, RunsBasis.ASSUMED, 2)
    assert "Assumed" in kept
    assert "2 earlier runs are too few" in kept
    assert "measured from 6 earlier runs" in sentence(0.004, RunsBasis.MEASURED, 6)
    assert "as stated" in sentence(0.02, RunsBasis.GIVEN)


@pytest.mark.parametrize(
    ("sd", "scale", "text"),
    [(0.0512711, Scale.RATIO, "5.13 %"), (0.0159312, Scale.RATE, "0.0159")],
)
def test_describe_whole_runs__has_three_digits(sd: float, scale: Scale, text: str) -> None:
    assert f"vary by {text} beyond" in sentence(sd, RunsBasis.MEASURED, 6, scale)
