"""What a gate returns for changes without a direction, missing proofs and failed answers."""

import pytest

from mosaico.comparison.direction_remedy import direct_metric
from mosaico.gating.reports import (
    PASSES_INCONCLUSIVE,
    gate_junit,
    sentences,
)
from mosaico.gating.rules import GateOutcome, GateTerms, decide
from mosaico.kpis.verdict_types import RunVerdict
from mosaico.statistics.verdict_rules import (
    ChangeVerdict,
    Side,
    Verdict,
    VerdictNote,
)
from tests.unit.gate.changes import NO_TERMS, SAME, UNSURE, WORSE, compared, judged


@pytest.mark.parametrize("effect", [-0.2, 0.2])
def test_gate__significant_change_without_a_direction_is_changed(effect: float) -> None:
    change = judged(effect, 0.1, 0.001, side=Side.BOTH)
    assert (change.verdict, VerdictNote.NO_DIRECTION in change.notes) == (Verdict.CHANGED, True)
    result = decide(compared({"quality": change}), GateTerms(inconclusive_passes=True))
    [check] = result.checks
    assert (check.outcome, result.exit_code) == (GateOutcome.CHANGED, 4)


def test_gate__insignificant_change_without_a_direction_is_as_any_other() -> None:
    for change, verdict, outcome in (
        (judged(-0.03, 0.1, 0.4, side=Side.BOTH), Verdict.INCONCLUSIVE, GateOutcome.INCONCLUSIVE),
        (judged(0.0, 0.01, 0.9, side=Side.BOTH), Verdict.NO_EVIDENCE, GateOutcome.PASS),
    ):
        [check] = decide(compared({"quality": change}), NO_TERMS).checks
        assert (change.verdict, check.outcome) == (verdict, outcome)
        assert VerdictNote.NO_DIRECTION not in change.notes


@pytest.mark.parametrize(
    ("terms", "code"),
    [
        (GateTerms(), 0),
        (GateTerms(inconclusive_passes=False), 4),
        (GateTerms(inconclusive_passes=True, non_inferiority_margins={"quality": 0.05}), 0),
        (GateTerms(non_inferiority_margins={"quality": 0.05}), 4),
        (GateTerms(max_drop={"quality": 0.05}), 0),
        # The required proof is there; the other check is allowed to be open.
        (GateTerms(non_inferiority_margins={"other": 0.05}, max_drop={"quality": 0.05}), 0),
    ],
)
def test_exit_code__inconclusive_passes_unless_a_proof_was_required(
    terms: GateTerms, code: int
) -> None:
    result = decide(compared({"quality": UNSURE, "other": SAME}), terms)
    assert (result.outcome, result.exit_code) == (GateOutcome.INCONCLUSIVE, code)
    assert (PASSES_INCONCLUSIVE in list(sentences(result))) is (code == 0)


@pytest.mark.parametrize("passes", [None, True, False])
def test_changed__value_without_direction_is_neither_pass_nor_regression(
    *, passes: bool | None
) -> None:
    changed = judged(-0.2, 0.1, 0.001, side=Side.BOTH)
    comparison = compared({}, metrics={'SCORE["tone"]': changed})
    remedy = direct_metric('SCORE["tone"]', is_file=True)
    [row] = comparison.metrics
    row = row.model_copy(update={"verdict": row.verdict.model_copy(update={"remedy": remedy})})
    terms = GateTerms(requested=('SCORE["tone"]',), inconclusive_passes=passes)
    result = decide(comparison.model_copy(update={"metrics": [row]}), terms)
    assert (result.outcome, result.exit_code) == (GateOutcome.CHANGED, 4)
    # The option to add is named.
    assert "--better tone=higher or --better tone=lower" in result.checks[0].reason
    assert "failure" in gate_junit(result)


def test_not_measured__nothing_that_measures_quality_has_exit_code_3() -> None:
    verdict = RunVerdict(verdict=Verdict.NOT_MEASURED, reason="no column", explanation="")
    result = decide(compared({}, metrics={"STATUS": SAME}, verdict=verdict), NO_TERMS)
    assert (result.outcome, result.exit_code, result.reason) == (
        GateOutcome.NOT_MEASURED, 3, "no column",
    )  # fmt: skip


@pytest.mark.parametrize(("guard", "code"), [(WORSE, 1), (UNSURE, 0), (SAME, 0)])
def test_guard__counts_only_if_more_answers_failed(guard: ChangeVerdict, code: int) -> None:
    comparison = compared({}, metrics={"ROUGE": SAME, "STATUS": guard}, primary="ROUGE")
    result = decide(comparison.model_copy(update={"guard": "STATUS"}), NO_TERMS)
    assert result.exit_code == code
    assert [check.name for check in result.checks] == ["ROUGE", "STATUS"][: 1 + (code == 1)]
