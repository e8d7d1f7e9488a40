"""Simulated recoveries: when an incident resolves, and what a later drop does."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from mosaico.kpis.series_types import SeriesEvent
from tests.support.series_campaign import HISTORIES, Show, sd_of
from tests.support.series_recovery_oracle import (
    FROM_1_5_SDS,
    FROM_1_SD,
    OF_CELLS_FROM_1_5_SDS,
    OF_CELLS_FROM_1_SD,
    OF_CELLS_FROM_2_SDS,
    OracleRecovery,
    RecoveryOracle,
    recover_by_oracle,
    single_fall,
)
from tests.support.series_simulation import (
    CELLS,
    Cell,
    Events,
    detection,
    drop,
    mean_of,
    pages_of,
    play,
    simulate,
    together,
)


class Recovery(NamedTuple):
    """Percent of the histories: paged, resolved before the recovery, resolved 3 and 10 runs after."""

    paged: float
    false: float
    by_3: float
    by_10: float

    def __str__(self) -> str:
        return (
            f"paged {self.paged:.0f}, falsely resolved {self.false:.1f},"
            f" resolved within 3/10 runs {self.by_3:.0f}/{self.by_10:.0f}"
        )


LARGE_FALL = 3


def recover(cell: Cell, size: float, bad_runs: int, histories: int) -> Recovery:
    start, end = 60, 60 + bad_runs
    events = play(simulate(cell, end + 30, histories, seed=4, shift=drop(size, start, end)))
    paged = [history for history in events if any(start <= run < end for run in pages_of(history))]
    false = sum(_resolved_between(history, start, end) is not None for history in paged)
    delays = [
        31 if resolved is None else resolved - end + 1
        for history in paged
        if _is_open_at(history, end)
        for resolved in [_resolved_between(history, end, end + 30)]
    ]
    within = [100 * sum(delay <= runs for delay in delays) / len(delays) for runs in (3, 10)]
    return Recovery(100 * len(paged) / histories, 100 * false / len(paged), *within)


def _resolved_between(events: Events, first: int, end: int) -> int | None:
    """The first resolution in a range of runs, of an incident that opened there or was open."""
    return next(
        (run for run, event in events if event is SeriesEvent.RESOLVED and first <= run < end), None
    )


def _is_open_at(events: Events, end: int) -> bool:
    before = [
        event
        for run, event in events
        if run < end and event in (SeriesEvent.OPENED, SeriesEvent.RESOLVED)
    ]
    return bool(before) and before[-1] is SeriesEvent.OPENED


@pytest.mark.prove
@pytest.mark.parametrize("bad_runs", [3, 30])
@pytest.mark.parametrize("multiple", [1, 1.5, 2, 3, 4])
def test_recovery__resolves_on_evidence(show: Show, multiple: float, bad_runs: int) -> None:
    recoveries = [recover(cell, multiple * sd_of(cell), bad_runs, HISTORIES // 2) for cell in CELLS]
    mean = Recovery._make(float(np.mean(column)) for column in zip(*recoveries, strict=True))
    show(
        f"\nRecovery from {multiple} SD of a run for {bad_runs:2} runs, mean of 12 cells, %: {mean}"
    )
    # The goal is 6 % below three standard deviations, and is missed below two; from three on it is 2 %. The
    # standard errors are 0.7 and 0.4.
    assert mean.false < {1: 24, 1.5: 13, 2: 7.7, 3: 2.8, 4: 2}[multiple]
    assert mean.by_10 >= (75 if multiple > 1 else 60)
    if multiple >= LARGE_FALL:
        # The goal is 90, with a standard error of 0.9.
        assert mean.by_3 >= 87


@pytest.mark.prove
def test_recovery__an_oracle_of_one_fall_hardly_misses_the_goal_for_one_sd(show: Show) -> None:
    """Few false ends and 75 % within ten runs: possible for whoever knows noise, level before and fall."""
    show("\nThe oracle of recoveries, told the noise and the fall")
    recoveries = {}
    for fall, limits, reference in (
        (1.0, (4.9, 5.15), None),
        (1.0, (4.9, 5.15), 60),
        (1.5, (5.3, 5.3), 60),
        (2.0, (5.1, 5.1), 60),
    ):
        level = "told" if reference is None else f"the mean of {reference} runs"
        for bad_runs in (3, 30):
            # Few falls of one standard deviation page within three runs.
            histories = 20_000 if bad_runs == 3 else 10_000
            oracle = single_fall(fall, *limits, reference)
            recovery = recover_by_oracle(oracle, fall, bad_runs, histories, seed=23)
            recoveries[fall, reference, bad_runs] = recovery
            show(f"  {fall} SD for {bad_runs:2} runs, level before {level}: {recovery}")
    assert all(recovery.false < 6.7 for recovery in recoveries.values())
    assert min(recoveries[1.0, None, bad].by_10 for bad in (3, 30)) >= 75
    assert recoveries[1.0, 60, 3].by_10 < 75
    assert min(recoveries[fall, 60, bad].by_10 for fall in (1.5, 2.0) for bad in (3, 30)) > 90


def show_oracle(
    show: Show, name: str, oracle: RecoveryOracle
) -> dict[tuple[float, int], OracleRecovery]:
    show(
        f"\nThe oracle of recoveries, {name}; weights {oracle.weights} of falls of {oracle.falls} SDs"
    )
    recoveries = {}
    for bad_runs in (3, 30):
        for fall in oracle.falls:
            recoveries[fall, bad_runs] = recover_by_oracle(oracle, fall, bad_runs, 10_000, seed=23)
            show(f"  {fall} SD for {bad_runs:2} runs: {recoveries[fall, bad_runs]}")
    return recoveries


@pytest.mark.prove
def test_recovery__an_oracle_reaches_the_goals_from_1_5_sds_on_or_few_false_ends_for_one(
    show: Show,
) -> None:
    """Few false ends for one SD leave less than 90 % within three runs for three of them."""
    method = "told noise and level before: few false ends from"
    from_1_5 = show_oracle(show, f"{method} 1.5 SDs on", FROM_1_5_SDS)
    from_1 = show_oracle(show, f"{method} 1 SD on", FROM_1_SD)
    assert max(from_1_5[fall, 30].false for fall in (1.5, 2.0)) < 6.5
    assert from_1_5[3.0, 30].false < 2
    assert from_1_5[3.0, 3].by_3 > 88
    assert from_1[1.0, 30].false < 6.5
    assert from_1[3.0, 3].by_3 < 86


@pytest.mark.prove
def test_recovery__an_oracle_that_knows_the_level_by_60_runs_reaches_the_goals_from_2_sds_on(
    show: Show,
) -> None:
    """Where bad runs vary more, as they do in the cells: few false ends of smaller falls cost those of large ones."""
    method = "told the noise, level before by 60 runs, bad runs vary more: few false ends from"
    from_2 = show_oracle(show, f"{method} 2 SDs on", OF_CELLS_FROM_2_SDS)
    from_1_5 = show_oracle(show, f"{method} 1.5 SDs on", OF_CELLS_FROM_1_5_SDS)
    from_1 = show_oracle(show, f"{method} 1 SD on", OF_CELLS_FROM_1_SD)
    assert from_2[2.0, 30].false < 6
    assert from_2[3.0, 30].false < 2.3
    assert min(from_2[3.0, bad].by_3 for bad in (3, 30)) >= 90
    assert from_1_5[1.5, 30].false > 7
    assert from_1_5[3.0, 3].by_3 < 90
    assert from_1[1.0, 30].false > 8
    assert from_1[3.0, 3].by_3 < 86


def false_incident_lengths(cells: Sequence[Cell], histories: int) -> list[int]:
    """How many runs the first incident of an unchanged agent lasts; 999: no end within 60 runs."""
    lengths = []
    for cell in cells:
        for events in play(simulate(cell, 150, histories, seed=31)):
            opened = next((run for run in pages_of(events) if run < 90), None)
            if opened is not None:
                resolved = _resolved_between(events, opened, opened + 61)
                lengths.append(999 if resolved is None else resolved - opened)
    return lengths


@pytest.mark.prove
def test_false_incident__ends_soon(show: Show) -> None:
    lengths = np.array(false_incident_lengths(CELLS, HISTORIES))
    shares = {runs: 100 * float((lengths <= runs).mean()) for runs in (3, 5, 10, 30, 60)}
    show(
        f"\nIncidents of an unchanged agent ({len(lengths)} of 12 cells) that have ended after"
        f" 3/5/10/30/60 runs: {'/'.join(f'{share:.0f}' for share in shares.values())} %"
    )
    # The standard errors are 1.6, 0.9 and 0.6.
    assert shares[10] >= 73
    assert shares[30] >= 92
    assert shares[60] >= 95


@pytest.mark.prove
@pytest.mark.parametrize("bad_runs", [5, 20])
def test_second_drop__is_paged_like_the_first(show: Show, bad_runs: int) -> None:
    shift = together(drop(0.1, 40, 40 + bad_runs), drop(0.1, 75))
    first, second = [], []
    for cell in CELLS:
        pages = [pages_of(events) for events in play(simulate(cell, 105, HISTORIES // 2, 5, shift))]
        first.append(detection(pages, 40))
        second.append(detection(pages, 75))
    show(
        f"\n10 points at run 40 for {bad_runs} runs: {mean_of(first)}; again at run 75: {mean_of(second)}"
    )
    # Each has a standard error of 0.9. After a short incident, the goal of the first is missed.
    assert mean_of(second).by_5 >= mean_of(first).by_5 - (3 if bad_runs > 5 else 7)
    assert mean_of(second).by_30 >= 95


@pytest.mark.prove
def test_outage__an_invalid_run_pages_nobody(show: Show) -> None:
    cell = Cell(items=58, run_sd=0.03)
    outage = simulate(cell, 90, HISTORIES, seed=6, shift=drop(0.6, 60, 61))
    marked = [{run: level for run, level in levels.items() if run != 60} for levels in outage]
    shares = [
        100 * np.mean([any(60 <= run < 65 for run in pages_of(events)) for events in play(levels)])
        for levels in (marked, outage)
    ]
    show(
        f"\nOutage at run 60, paged within 5 runs: INVALID {shares[0]:.1f} %, valid {shares[1]:.0f} %"
    )
    assert shares[0] <= 8
    assert shares[1] >= 95
