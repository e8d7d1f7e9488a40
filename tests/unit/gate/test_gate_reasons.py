"""The sentences that say why a check has its outcome."""

from dataclasses import replace

from mosaico.gating.reports import (
    sentences,
)
from mosaico.gating.rules import GateOutcome, GateTerms, decide, with_remarks
from mosaico.statistics.verdict_rules import (
    Verdict,
    VerdictNote,
    without_change,
)
from tests.unit.gate.changes import NO_TERMS, SAME, compared, judged


def test_gate__explains_what_is_not_proved() -> None:
    [check] = decide(compared({"quality": judged(-0.03, 0.1, 0.07)}), NO_TERMS).checks
    assert "chance alone could explain the change" in check.reason
    assert check.reason.count(" CI ") <= 1


def test_gate__identical_runs_pass_with_the_share_that_is_unknown() -> None:
    same = judged(0.0, 0.0, 1.0, items=37, notes=(VerdictNote.IDENTICAL,))
    result = decide(compared({"quality": same}), NO_TERMS)
    # 1 - 0.025 ** (1 / 37) = 0.0949
    assert (result.outcome, result.exit_code) == (GateOutcome.PASS, 0)
    assert "all 37 items gave the same value" in result.checks[0].reason
    assert "9.5 %" in result.checks[0].reason


def test_gate__requested_metric_without_values_is_invalid_with_its_name() -> None:
    missing = without_change(Verdict.INVALID, VerdictNote.NO_ITEMS)
    comparison = compared(
        {}, metrics={"ACCURACY": SAME, "TASK_PASSED": missing}, primary="ACCURACY"
    )
    # Unless it is requested, a metric that does not apply is no defect.
    assert decide(comparison, NO_TERMS).exit_code == 0
    result = decide(comparison, GateTerms(requested=("ACCURACY", "TASK_PASSED")))
    assert result.exit_code == 3
    [line] = [line for line in sentences(result) if line.startswith("TASK_PASSED")]
    assert line == "TASK_PASSED: no item has a value in both runs."


def test_gate__detectable_effect_is_named_only_above_the_observed_change() -> None:
    lines = [
        decide(compared({"quality": judged(effect, 0.3, 0.2)}), NO_TERMS).checks[0].reason
        for effect in (-0.05, -0.25)
    ]
    # The detectable effect is 0.1: a sentence that only 0.1 is seen would contradict -0.25.
    assert ["0.100 or more" in line for line in lines] == [True, False]


def test_gate__items_that_detect_nothing_name_the_number_that_would_do() -> None:
    blind = replace(judged(-0.05, 0.3, 0.2), mde=None, items_needed=24)
    [check] = decide(compared({"cost": blind}), NO_TERMS).checks
    assert check.reason.endswith(
        "cannot reliably detect any change: at least 24 items are required"
    )


def test_gate__samples_say_what_their_change_is() -> None:
    # 0.035 to 0.107 USD beside +76 % needs a reason.
    cost = judged(0.4, 0.01, 0.1, notes=(VerdictNote.TYPICAL,))
    passes = judged(-0.03, 0.1, 0.07, notes=(VerdictNote.UNPAIRED,))
    result = decide(compared({"cost": cost, "passes": passes, "quality": SAME}), NO_TERMS)
    lines = list(sentences(with_remarks(result, is_file=True)))
    assert [line for line in lines if line.startswith("cost: ") and "typical trace" in line]
    assert [line for line in lines if line.startswith("passes: ") and "different items" in line]
    assert not any(line.startswith("quality: the runs") for line in lines)


def test_gate__failed_answers_are_named_in_plain_words() -> None:
    metrics = {"ERROR_RATE": judged(-0.4, 0.001, 0.1), "ACCURACY": SAME}
    result = decide(compared({}, metrics=metrics, primary="ERROR_RATE"), NO_TERMS)
    lines = [line for line in sentences(result) if line.startswith("ERROR_RATE")]
    assert "share of answers that failed" in lines[0]
