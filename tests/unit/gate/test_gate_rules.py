"""Gate decisions and reports from comparisons."""

import pytest

from app.comparison.schemas import ComparedRun, Comparison, KpiComparison
from app.comparison.verdict_text import render_verdict
from app.gate.reports import gate_junit, gate_markdown
from app.gate.rules import GateOutcome, GateTerms, NothingToGate, change_of_verdict, decide
from app.kpis.verdict_types import RunVerdict
from app.statistics.verdict_rules import (
    ChangeVerdict,
    Note,
    Scale,
    Side,
    Verdict,
    decide_verdict,
    without_change,
)

NO_TERMS = GateTerms()


def judged(
    effect: float, half_width: float, p: float, *, side: Side = Side.LOW, items: int = 40
) -> ChangeVerdict:
    """A rate that changed by `effect`, of which an interval is known."""
    return decide_verdict(
        ChangeVerdict(
            verdict=Verdict.INCONCLUSIVE,
            effect=effect,
            low=effect - half_width,
            high=effect + half_width,
            p=p,
            p_adjusted=p,
            mde=0.1,
            n_items=items,
            trials=1.0,
            method="made up",
            baseline_value=0.9,
            value=0.9 + effect,
            min_effect=0.02,
            margin=0.05,
            side=side,
        )
    )


def compared(
    kpis: dict[str, ChangeVerdict],
    *,
    gates: tuple[str, ...] = (),
    traces: int = 40,
    verdict: RunVerdict | None = None,
) -> Comparison:
    def run(run_id: str) -> ComparedRun:
        return ComparedRun(
            id=run_id,
            benchmark_id="bench",
            agent_id="agent",
            run_name=None,
            created_at=None,
            validity="VALID",
            traces=traces,
        )

    return Comparison(
        baseline=run("before"),
        baseline_run_ids=["before"],
        candidate=run("now"),
        verdict=verdict or RunVerdict(verdict=Verdict.NO_EVIDENCE, explanation=""),
        kpis=[
            KpiComparison(
                kpi_id=name,
                name=name,
                gate=name in gates,
                verdict=render_verdict(name, change, Scale.RATE),
            )
            for name, change in kpis.items()
        ],
        metrics=[],
        usage=[],
        flipped_items=None,
        enriched_features=[],
        peers=[],
        constant_items=None,
    )


WORSE = judged(-0.2, 0.1, 0.001)
SAME = judged(0.0, 0.04, 0.9)
UNSURE = judged(-0.03, 0.1, 0.4)


def test_change_of_verdict__restores_the_change() -> None:
    assert change_of_verdict(render_verdict("q", WORSE, Scale.RATE)) == WORSE


@pytest.mark.parametrize(
    ("kpi", "outcome"),
    [
        (WORSE, GateOutcome.REGRESSION),
        (SAME, GateOutcome.PASS),
        (UNSURE, GateOutcome.INCONCLUSIVE),
        (judged(0.2, 0.1, 0.001), GateOutcome.PASS),
        (judged(0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.REGRESSION),
    ],
)
def test_gate__outcome_follows_the_verdict(kpi: ChangeVerdict, outcome: GateOutcome) -> None:
    assert decide(compared({"quality": kpi}), NO_TERMS).outcome is outcome


def test_gate__outcome_is_the_worst_of_its_checks() -> None:
    result = decide(compared({"a": SAME, "b": UNSURE, "c": WORSE}), NO_TERMS)
    assert result.outcome is GateOutcome.REGRESSION
    assert [check.outcome for check in result.checks] == [
        GateOutcome.PASS,
        GateOutcome.INCONCLUSIVE,
        GateOutcome.REGRESSION,
    ]


def test_gate__regression_outranks_an_unmeasured_kpi() -> None:
    without_items = without_change(Verdict.INVALID, Note.NO_ITEMS)
    for further_kpis, outcome in (
        ({"b": WORSE}, "REGRESSION"),
        ({"b": SAME, "c": UNSURE}, "INVALID"),
    ):
        assert decide(compared({"a": without_items, **further_kpis}), NO_TERMS).outcome == outcome


def test_gate__checks_only_gate_kpis_when_there_are_some() -> None:
    result = decide(compared({"a": SAME, "b": WORSE}, gates=("a",)), NO_TERMS)
    assert (result.outcome, [check.name for check in result.checks]) == (GateOutcome.PASS, ["a"])


def test_gate__checks_only_named_kpis() -> None:
    result = decide(compared({"a": SAME, "b": WORSE}), GateTerms(max_drop={"a": 0.05}))
    assert [check.name for check in result.checks] == ["a"]


def test_gate__max_drop_allows_a_larger_drop() -> None:
    comparison = compared({"quality": WORSE})
    assert decide(comparison, GateTerms(max_drop={"quality": 0.25})).outcome is GateOutcome.PASS
    dropped = decide(comparison, GateTerms(max_drop={"quality": 0.1}))
    assert dropped.outcome is GateOutcome.REGRESSION


def test_gate__adjusts_p_values_by_holm() -> None:
    # Each p = 0.03 alone would do; of two the smaller counts twice: 0.06.
    single, double = judged(-0.2, 0.1, 0.03), judged(-0.2, 0.1, 0.03)
    assert decide(compared({"a": single}), NO_TERMS).outcome is GateOutcome.REGRESSION
    both = decide(compared({"a": single, "b": double}), NO_TERMS)
    assert both.outcome is GateOutcome.INCONCLUSIVE
    assert [check.p_adjusted for check in both.checks] == pytest.approx([0.06, 0.06])


@pytest.mark.parametrize(
    ("kpi", "outcome"),
    [
        # The interval of the change: -0.04…0.04, -0.13…0.07, -0.3…-0.1; and of a price its mirror.
        (SAME, GateOutcome.PASS),
        (UNSURE, GateOutcome.INCONCLUSIVE),
        (WORSE, GateOutcome.REGRESSION),
        (judged(0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.REGRESSION),
        (judged(-0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.PASS),
        (judged(0.0, 0.04, 0.9, side=Side.BOTH), GateOutcome.PASS),
        (judged(0.2, 0.1, 0.001, side=Side.BOTH), GateOutcome.REGRESSION),
    ],
)
def test_non_inferiority__follows_the_interval(kpi: ChangeVerdict, outcome: GateOutcome) -> None:
    result = decide(
        compared({"quality": kpi}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is outcome


def test_non_inferiority__needs_five_items() -> None:
    alike = judged(0.0, 0.0, 1.0, items=4)
    result = decide(
        compared({"quality": alike}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is GateOutcome.INCONCLUSIVE
    assert "Fewer than 5 items" in result.checks[0].explanation


@pytest.mark.parametrize(
    ("items", "outcome"),
    [
        # Of items of which none among n changed, so many may: 1 - 0.025 ** (1 / n).
        (20, GateOutcome.INCONCLUSIVE),  # 16.8 %
        (71, GateOutcome.INCONCLUSIVE),  # 5.06 %
        (72, GateOutcome.PASS),  # 4.99 %
    ],
)
def test_non_inferiority__unchanged_items_prove_it_when_there_are_many(
    items: int, outcome: GateOutcome
) -> None:
    like = judged(0.0, 0.0, 1.0, items=items)
    result = decide(
        compared({"quality": like}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is outcome


def test_gate__invalid_run_never_passes() -> None:
    reason = "the candidate is invalid: coverage is 10.0%"
    verdict = RunVerdict(verdict=Verdict.INVALID, reason=reason, explanation="")
    result = decide(compared({"quality": SAME}, verdict=verdict), NO_TERMS)
    assert (result.outcome, result.reason) == (GateOutcome.INVALID, reason)
    assert "<error" in gate_junit(result)


def test_gate__refuses_empty_runs_and_unknown_kpis() -> None:
    with pytest.raises(NothingToGate, match="no trace"):
        decide(compared({"quality": SAME}, traces=0), NO_TERMS)
    with pytest.raises(NothingToGate, match=r"'speed'.*quality"):
        decide(compared({"quality": SAME}), GateTerms(max_drop={"speed": 0.1}))
    with pytest.raises(NothingToGate, match="neither"):
        decide(compared({}), NO_TERMS)


def test_gate_reports__escape_markup() -> None:
    result = decide(compared({"<b>|quality": WORSE}), NO_TERMS)
    assert "\\<b\\>\\|quality" in gate_markdown(result)
    junit = gate_junit(result)
    assert 'failures="1"' in junit
    assert "&lt;b&gt;|quality" in junit
