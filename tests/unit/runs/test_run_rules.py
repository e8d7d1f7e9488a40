"""State transitions of runs, and their validity."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.run_store.rules import (
    MAX_RETRIES,
    IllegalTransition,
    RunStatus,
    TraceTally,
    Validity,
    assess_validity,
    judge_error_reason,
    require_retryable,
    require_transition,
)

PENDING, RUNNING, COMPLETED, FAILED, CANCELLED = RunStatus
LEGAL = {
    (PENDING, RUNNING),
    (PENDING, FAILED),
    (PENDING, CANCELLED),
    (RUNNING, COMPLETED),
    (RUNNING, FAILED),
    (RUNNING, CANCELLED),
}


@pytest.mark.parametrize(("now", "then"), list(itertools.product(RunStatus, RunStatus)))
def test_require_transition__allows_exactly_the_table(now: RunStatus, then: RunStatus) -> None:
    if (now, then) in LEGAL:
        require_transition("r-1", now, then)
    else:
        with pytest.raises(IllegalTransition, match=f"r-1 is {now}; .* become {then}"):
            require_transition("r-1", now, then)


@given(st.lists(st.sampled_from(RunStatus), max_size=30))
def test_require_transition__no_history_leaves_a_final_state(
    wishes: list[RunStatus],
) -> None:
    state, transitions = PENDING, []
    for wish in wishes:
        try:
            require_transition("r-1", state, wish)
        except IllegalTransition:
            continue
        transitions.append((state, wish))
        state = wish
    assert set(transitions) <= LEGAL
    assert len(transitions) <= 2
    assert not any(before.is_final for before, _ in transitions)


@pytest.mark.parametrize("status", RunStatus)
@pytest.mark.parametrize("retries", range(MAX_RETRIES + 2))
def test_require_retryable__failed_and_cancelled_runs_at_most_three_times(
    status: RunStatus, retries: int
) -> None:
    if status in (FAILED, CANCELLED) and retries < 3:
        require_retryable("r-1", status, retries)
    else:
        with pytest.raises(IllegalTransition, match=r"[Ss]tart a new run"):
            require_retryable("r-1", status, retries)


def tally(**changes: int) -> TraceTally:
    return TraceTally(
        **{"total": 100, "covered": 100, "errored": 0, "measurements": 200, "failed": 0, **changes}
    )


@pytest.mark.parametrize(
    ("trace_tally", "validity", "coverage", "error_share", "reasons"),
    [
        (tally(), Validity.VALID, 1.0, 0.0, 0),
        (tally(covered=90), Validity.VALID, 0.9, 0.0, 0),
        (tally(covered=89), Validity.INVALID, 0.89, 0.0, 1),
        (tally(errored=5, covered=95, measurements=190), Validity.VALID, 0.95, 0.05, 0),
        (tally(errored=6, covered=94, measurements=188), Validity.INVALID, 0.94, 0.06, 1),
        # 10 of 200 measurements are 5 %, 11 are 5.5 %.
        (tally(failed=10), Validity.VALID, 1.0, 0.05, 0),
        (tally(failed=11), Validity.INVALID, 1.0, 0.055, 1),
        (tally(covered=0, errored=100, measurements=0), Validity.INVALID, 0.0, 1.0, 2),
        (tally(total=0, covered=0, measurements=0), Validity.INVALID, 0.0, 0.0, 1),
    ],
)
def test_assess_validity__enough_coverage_and_few_errors_are_valid(
    trace_tally: TraceTally, validity: Validity, coverage: float, error_share: float, reasons: int
) -> None:
    verdict = assess_validity(trace_tally, min_coverage=0.9, max_error_share=0.05)
    assert (verdict.validity, verdict.coverage) == (validity, coverage)
    assert verdict.error_share == pytest.approx(error_share)
    assert len(verdict.reasons) == reasons


@given(
    total=st.integers(0, 1000),
    data=st.data(),
    min_coverage=st.floats(0, 1),
    max_error_share=st.floats(0, 1),
)
def test_assess_validity__has_reasons_exactly_when_invalid(
    total: int, data: st.DataObject, min_coverage: float, max_error_share: float
) -> None:
    lost_count = data.draw(st.integers(0, total))
    covered = data.draw(st.integers(0, total - lost_count))
    measurement_count = (total - lost_count) * 3
    failed = data.draw(st.integers(0, measurement_count))
    verdict = assess_validity(
        TraceTally(
            total=total,
            covered=covered,
            errored=lost_count,
            measurements=measurement_count,
            failed=failed,
        ),
        min_coverage=min_coverage,
        max_error_share=max_error_share,
    )
    assert (verdict.validity is Validity.INVALID) == bool(verdict.reasons)
    assert 0 <= verdict.coverage <= 1
    assert 0 <= verdict.error_share <= 1
    if not total:
        assert verdict.validity is Validity.INVALID


def test_judge_error_reason__none_within_the_mean_error() -> None:
    # Off by 0.1 and 0.3: 0.2 in the mean, on the strict side.
    gold, scores = [1.0, 0.5], [0.9, 0.2]
    assert judge_error_reason("J", gold, scores, max_error=0.21) is None
    reason = judge_error_reason("J", gold, scores, max_error=0.19)
    assert reason is not None
    assert "J scores lower than the gold scores of 2 answers, with a mean error of 0.2" in reason


def test_judge_error_reason__too_few_scores_are_a_reason() -> None:
    reason = judge_error_reason("J", [1.0, 0.5, 0.0], [1.0, None, None], max_error=1.0)
    assert reason == "J scored only 1 of 3 answers with gold scores"
    assert judge_error_reason("J", [1.0, 0.5], [1.0, None], max_error=0.0) is None
