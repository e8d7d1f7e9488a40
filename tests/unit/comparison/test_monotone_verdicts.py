"""A worse run never gets a milder verdict."""

from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.margins import MarginOutcome, assess_drop, harm_of
from mosaico.statistics.verdict_rules import ChangeVerdict, Verdict, VerdictNote
from tests.support.compared_runs import change_of, passes, run

SEVERITY = {
    Verdict.IMPROVED: 0,
    Verdict.NO_EVIDENCE: 1,
    Verdict.INCONCLUSIVE: 2,
    Verdict.REGRESSED: 3,
}


# Only from MONOTONE_UNITS on is it promised.
GRADES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=10, max_size=25)


@given(GRADES, st.data())
def test_verdict__a_larger_drop_never_undoes_a_regression(
    after: list[float], data: st.DataObject
) -> None:
    before = [1.0] * len(after)
    item = data.draw(st.integers(0, len(after) - 1))
    worse = [*after]
    worse[item] = data.draw(
        st.sampled_from([g for g in (0.0, 0.25, 0.5, 0.75, 1.0) if g <= after[item]])
    )
    first, second = change_of(run(before), run(after)), change_of(run(before), run(worse))
    if first.verdict is Verdict.REGRESSED:
        assert second.verdict is Verdict.REGRESSED


def outcome(change: ChangeVerdict, margin: float) -> MarginOutcome:
    assert change.effect is not None
    return assess_drop(
        harm_of(change.effect, change.low_adjusted, change.high_adjusted, change.side), margin
    )


@given(st.integers(0, 12), st.integers(0, 12), st.sampled_from([0.02, 0.05, 0.1, 0.2, 0.3]))
def test_gate__one_more_failed_item_is_never_milder(
    failed: int, recovered: int, margin: float
) -> None:
    severity = {MarginOutcome.PASS: 0, MarginOutcome.INCONCLUSIVE: 1, MarginOutcome.FAIL: 2}
    before = [0.0] * recovered + [1.0] * (40 - recovered)
    after = [1.0] * recovered + [0.0] * failed + [1.0] * (40 - recovered - failed)
    worse = [*after]
    worse[-1] = 0.0
    first, second = (change_of(run(before), run(values)) for values in (after, worse))
    # Identical runs leave room for a change of 9 % that was not
    # seen: more than one failed item does.
    if VerdictNote.IDENTICAL not in first.notes:
        assert severity[outcome(second, margin)] >= severity[outcome(first, margin)]


@given(GRADES, st.floats(0.01, 0.5), st.floats(0.0, 0.5))
def test_gate__a_wider_margin_never_fails_more(
    after: list[float], margin: float, wider: float
) -> None:
    change = change_of(run([0.75] * len(after)), run(after))
    if outcome(change, margin) is MarginOutcome.PASS:
        assert outcome(change, margin + wider) is MarginOutcome.PASS
    if outcome(change, margin + wider) is MarginOutcome.FAIL:
        assert outcome(change, margin) is MarginOutcome.FAIL


def test_gate__max_drop_of_forty_items_is_monotone() -> None:
    # Base 37 of 40, largest drop 0.2: once a number of passes fails, every smaller one fails, too.
    severities = []
    for failed in range(3, 41):
        change = change_of(run(passes(3, 40)), run(passes(failed, 40)))
        severities.append(
            [MarginOutcome.PASS, MarginOutcome.INCONCLUSIVE, MarginOutcome.FAIL].index(
                outcome(change, 0.2)
            )
        )
    assert severities == sorted(severities)
    assert severities[-1] == 2
