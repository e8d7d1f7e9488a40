"""The promises of `docs/alerts.md` about pages, on simulated histories.

The tests marked `prove` print the tables of that page. Each assertion leaves room for chance: beside its
goal, or beside the measured figure where the page says that the goal is missed.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from mosaico.statistics.sequential import limit_of
from tests.support.series_campaign import (
    HISTORIES,
    PROMISE,
    RATE_ERROR,
    Show,
    false_pages,
    sd_of,
)
from tests.support.series_known_noise import known_noise_shares
from tests.support.series_learning_oracle import (
    LATE_LIMIT_RUNS,
    learning_detections,
    prior_of_cells,
    told_noise,
    wide_prior,
)
from tests.support.series_oracle import Fall, drift_fall, oracle_detection, step_fall
from tests.support.series_rivals import RIVALS, play_rival, tune
from tests.support.series_simulation import (
    CELLS,
    CORRELATED,
    Cell,
    Detection,
    Floats,
    Shift,
    detection,
    drift,
    drop,
    levels_of_values,
    mean_of,
    pages_of,
    pages_per_month,
    play,
    simulate,
    together,
)

# The effects of whole runs are four of the five points by which a run varies, and correlated.
WANDERING = Cell(items=200, run_sd=0.04, correlation=0.6)


class SeriesScenario(NamedTuple):
    """A change of the level at the run `start`; the history ends 30 runs later. `fall` is its shape."""

    name: str
    start: int
    shift: Callable[[Cell], Shift]
    fall: Callable[[Cell], Fall]


SCENARIOS = (
    SeriesScenario(
        "1 SD @30", 30, lambda cell: drop(sd_of(cell), 30), lambda c: step_fall(sd_of(c))
    ),
    SeriesScenario("10 points @12", 12, lambda _: drop(0.1, 12), lambda _: step_fall(0.1)),
    SeriesScenario("10 points @90", 90, lambda _: drop(0.1, 90), lambda _: step_fall(0.1)),
    SeriesScenario("30 points @90", 90, lambda _: drop(0.3, 90), lambda _: step_fall(0.3)),
    SeriesScenario("drift 0.3 points", 30, lambda _: drift(0.003, 30), lambda _: drift_fall(0.003)),
)


def detect(cell: Cell, scenario: SeriesScenario, histories: int) -> Detection:
    levels = simulate(cell, scenario.start + 30, histories, seed=2, shift=scenario.shift(cell))
    return detection([pages_of(events) for events in play(levels)], scenario.start)


def test_series__a_sample_keeps_the_promise_and_detects_a_collapse() -> None:
    cell = Cell(items=58, run_sd=0.03)
    # 40 months: more than 20 pages at 0.25 a month have a probability of 0.0002.
    assert false_pages(play(simulate(cell, 60, 20, seed=1)), 60) < 0.5
    collapse = simulate(cell, 44, 20, seed=2, shift=drop(0.3, 40))
    assert detection([pages_of(events) for events in play(collapse)], 40).by_1 >= 95


@pytest.mark.prove
def test_false_pages__keep_the_promise(show: Show) -> None:
    show("\nFalse alarms in 30 runs, promise 0.25 (200 histories of 90 runs; 600 of the last cell)")
    rates = {}
    for cell in (*CELLS, *CORRELATED):
        # The rate of the last cell is close to the promise.
        histories = 3 * HISTORIES if cell == CORRELATED[-1] else HISTORIES
        events = play(simulate(cell, 90, histories, seed=1))
        early = [[event for event in history if event[0] < 12] for history in events]
        rates[cell] = false_pages(events, 90)
        show(f"  {cell!s:24} {rates[cell]:.3f}   runs 3 to 12: {false_pages(early, 12):.3f}")
    assert max(rates[cell] for cell in CELLS) <= PROMISE + RATE_ERROR
    assert max(rates[cell] for cell in CORRELATED) <= PROMISE + RATE_ERROR
    # The standard error is 0.01.
    rate = false_pages(play(simulate(WANDERING, 90, 5 * HISTORIES, seed=1)), 90)
    show(f"  {WANDERING!s:24} {rate:.3f}   effects of four points: the promise is broken")
    assert rate <= 0.35
    assert np.mean([rates[cell] for cell in CORRELATED]) <= PROMISE


@pytest.mark.prove
@pytest.mark.parametrize("promise", [1.0, 0.05])
def test_false_pages__follow_the_promise(show: Show, promise: float) -> None:
    cells = [cell for cell in CELLS if cell.items in (37, 200)]
    rates = [
        false_pages(play(simulate(cell, 90, HISTORIES, seed=3), promise), 90) for cell in cells
    ]
    show(f"\nPromise {promise}: mean {np.mean(rates):.3f}, highest {max(rates):.3f} in 30 runs")
    assert np.mean(rates) <= promise
    assert max(rates) <= 1.4 * promise


@pytest.mark.prove
def test_detection__of_all_scenarios(show: Show) -> None:
    show("\nPaged by run 1/5/10/30 after the change in %, mean delay; mean of 12 cells")
    means = {}
    for scenario in SCENARIOS:
        detections = [detect(cell, scenario, HISTORIES // 2) for cell in CELLS]
        means[scenario.name] = mean_of(detections)
        show(f"  {scenario.name:18} {means[scenario.name]}")
    assert means["30 points @90"].by_1 >= 95
    # The goal is 90 for both, with a standard error of 0.9. After 12 runs it is missed: the noise of the
    # series is hardly known (`test_detection__an_oracle_that_learns_the_noise_...`).
    assert means["10 points @90"].by_5 >= 88
    assert means["10 points @12"].by_5 >= 85


@pytest.mark.prove
def test_detection__against_rivals_at_the_same_rate(show: Show) -> None:
    names = ["product", *(rival.name for rival in RIVALS)]
    detections_by_key: dict[tuple[str, str], list[Detection]] = {
        (scenario.name, name): [] for scenario in SCENARIOS for name in names
    }
    for cell in CELLS:
        null = simulate(cell, 90, HISTORIES, seed=1)
        rate = false_pages(play(null), 90)
        limits = [tune(rival, null, rate) for rival in RIVALS]
        for scenario in SCENARIOS:
            runs = scenario.start + 30
            levels = simulate(cell, runs, HISTORIES // 2, seed=2, shift=scenario.shift(cell))
            product = [pages_of(events) for events in play(levels)]
            detections_by_key[scenario.name, "product"].append(detection(product, scenario.start))
            for rival, limit in zip(RIVALS, limits, strict=True):
                pages = play_rival(rival, levels, limit)
                detections_by_key[scenario.name, rival.name].append(
                    detection(pages, scenario.start)
                )
    show(
        "\nPaged by run 1/5/10/30 after the change in %, mean delay; mean of 12 cells, equal rates"
    )
    means = {key: mean_of(detections) for key, detections in detections_by_key.items()}
    for scenario in SCENARIOS:
        for name in names:
            show(f"  {scenario.name:18} {name:16} {means[scenario.name, name]}")
    assert means["30 points @90", "product"].by_1 >= 95
    assert means["10 points @90", "product"].by_5 >= 88
    for scenario in SCENARIOS:
        rivals = min(means[scenario.name, rival.name].delay for rival in RIVALS)
        behind = means[scenario.name, "product"].delay - rivals
        show(f"  {scenario.name:18} slower than the best rival by {behind:+.1f} runs")
        assert behind <= ALLOWED_BEHIND[scenario.name]


# Runs by which the best rival may be faster. The goal is 0; see `docs/alerts.md` for what is missed.
ALLOWED_BEHIND = {
    "1 SD @30": 2.3,
    "10 points @12": 0.6,
    "10 points @90": 0.6,
    "30 points @90": 0.0,
    "drift 0.3 points": 2.0,
}


@pytest.mark.prove
def test_detection__the_oracle_reaches_the_goals(show: Show) -> None:
    """The oracle is told noise and change: a goal that it reaches is not impossible."""
    show(
        "\nThe oracle at 0.25 false alarms: paged by run 1/5/10/30 in %, mean delay; mean of 12 cells"
    )
    nulls = {cell: simulate(cell, 60, HISTORIES, seed=21) for cell in CELLS}
    means = {}
    for name, start, shift, fall in SCENARIOS:
        detections = []
        for cell in CELLS:
            changed = simulate(cell, start + 30, HISTORIES // 2, seed=2, shift=shift(cell))
            detections.append(
                oracle_detection(cell, fall(cell), nulls[cell], changed, start, PROMISE)
            )
        means[name] = mean_of(detections)
        show(f"  {name:18} {means[name]}   least by run 5: {min(d.by_5 for d in detections):.0f}")
    assert means["10 points @12"].by_5 >= 90
    assert means["10 points @90"].by_5 >= 90
    assert means["30 points @90"].by_1 >= 95


@pytest.mark.prove
def test_detection__an_oracle_that_learns_the_noise_misses_the_goal_after_12_runs(
    show: Show,
) -> None:
    """10 points within five runs in 90 % need the variation of runs to be known in advance, and a promise
    that is broken where runs wander.
    """
    show(
        "\n10 points at run 12, paged by run 5 with one limit for all cells, noise and size learned"
    )
    cells, means = (*CELLS, *CORRELATED), {}
    for name, prior, unchanged in (
        ("prior of the cells", prior_of_cells, cells),
        (
            "the same, and 200x1 with correlated effects of four points",
            prior_of_cells,
            (*cells, WANDERING),
        ),
        ("wide prior", wide_prior, cells),
    ):
        detections = learning_detections(
            prior, unchanged, dict.fromkeys(CELLS, step_fall(0.1)),
            start=12, rate=PROMISE, histories=1000, seed=22,
        )  # fmt: skip
        means[name] = mean_of(list(detections.values())).by_5
        least = min(detections, key=lambda cell: detections[cell].by_5)
        show(f"  {name:60} {means[name]:.0f} %, least {detections[least].by_5:.0f} % ({least})")
    assert means["prior of the cells"] < 93
    assert means["wide prior"] < 82
    assert means["the same, and 200x1 with correlated effects of four points"] < 88


@pytest.mark.prove
def test_detection__of_one_sd_costs_runs_when_the_noise_is_learned(show: Show) -> None:
    """What a chart that is tuned for each series has in advance, measured by an oracle that has it or not."""
    show("\nOracles and charts, one SD at run 30: paged by run 1/5/10/30 in %, mean delay")
    falls, cells = {cell: step_fall(sd_of(cell)) for cell in CELLS}, (*CELLS, *CORRELATED)
    delays = {}
    for name, prior, unchanged in (
        ("told the noise, a limit for each cell", told_noise, None),
        ("learns the noise, a limit for each cell", prior_of_cells, None),
        ("learns the noise, one limit for 20 cells", prior_of_cells, cells),
        ("the same, and for effects of four points", prior_of_cells, (*cells, WANDERING)),
        ("wide prior, one limit for 20 cells", wide_prior, cells),
    ):
        detections = list[Detection]()
        for group in [[cell] for cell in CELLS] if unchanged is None else [CELLS]:
            learned = learning_detections(
                prior, unchanged or group, {cell: falls[cell] for cell in group},
                start=30, rate=PROMISE, histories=400, seed=25, limit_runs=LATE_LIMIT_RUNS,
            )  # fmt: skip
            detections += learned.values()
        delays[name] = mean_of(detections).delay
        show(f"  {name:42} {mean_of(detections)}")
    assert delays["told the noise, a limit for each cell"] < min(list(delays.values())[1:])
    assert (
        delays["learns the noise, one limit for 20 cells"]
        > delays["learns the noise, a limit for each cell"]
    )
    nulls = {cell: simulate(cell, 90, HISTORIES // 4, seed=1) for cell in cells}
    changed = {cell: simulate(cell, 60, HISTORIES // 2, 2, drop(sd_of(cell), 30)) for cell in CELLS}
    for rival in (rival for rival in RIVALS if rival.name in {"CUSUM", "EWMA"}):
        own = {cell: tune(rival, nulls[cell], PROMISE) for cell in cells}
        mean = tune(rival, [levels for null in nulls.values() for levels in null], MEAN_RATE)
        for name, limits in (
            ("a limit for each cell", own),
            ("one limit, the mean rate of the product", dict.fromkeys(cells, mean)),
            ("one limit, no cell above 0.25", dict.fromkeys(cells, max(own.values()))),
        ):
            pages = [play_rival(rival, changed[cell], limits[cell]) for cell in CELLS]
            means = mean_of([detection(page, 30) for page in pages])
            show(f"  {rival.name + ', ' + name:48} {means}")


# The false alarms of the product in 30 runs, as the mean of the 21 kinds of series.
MEAN_RATE = 0.13


@pytest.mark.prove
def test_detection__the_scan_reaches_the_goal_after_12_runs_when_the_noise_is_known(
    show: Show,
) -> None:
    """What is missing after 12 runs is knowledge of the noise, and not another statistic."""
    shares = known_noise_shares(
        (*CELLS, *CORRELATED), CELLS, size=0.1, start=12, rate=PROMISE, histories=400, seed=24
    )
    least = min(shares, key=lambda cell: shares[cell])
    mean = np.mean(list(shares.values()))
    show(
        f"\nThe scan, told the noise: 10 points at run 12, paged by run 5 in {mean:.0f} %,"
        f" least {shares[least]:.0f} % ({least})"
    )
    assert mean >= 90


@pytest.mark.prove
def test_detection__against_rivals_tuned_once(show: Show) -> None:
    """As a user has them: one limit for all series, with which none pages more than promised."""
    nulls = [simulate(cell, 90, HISTORIES // 2, seed=1) for cell in (*CELLS, *CORRELATED)]
    limits = {rival.name: max(tune(rival, null, PROMISE) for null in nulls) for rival in RIVALS}
    show("\nOne limit for 20 cells: paged by run 1/5/10/30 in %, mean delay; mean of 12 cells")
    for scenario in SCENARIOS:
        detections_by_name: dict[str, list[Detection]] = {name: [] for name in ("product", *limits)}
        for cell in CELLS:
            runs = scenario.start + 30
            levels = simulate(cell, runs, HISTORIES // 4, seed=2, shift=scenario.shift(cell))
            product = [pages_of(events) for events in play(levels)]
            detections_by_name["product"].append(detection(product, scenario.start))
            for rival in RIVALS:
                pages = play_rival(rival, levels, limits[rival.name])
                detections_by_name[rival.name].append(detection(pages, scenario.start))
        delays = {}
        for name, detections in detections_by_name.items():
            show(f"  {scenario.name:18} {name:16} {mean_of(detections)}")
            delays[name] = np.array([detection.delay for detection in detections])
        behind = delays["product"] - np.min([delays[name] for name in limits], axis=0)
        slower = [
            f"{cell} {runs:+.1f}" for cell, runs in zip(CELLS, behind, strict=True) if runs > 0
        ]
        show(f"  {scenario.name:18} a rival is faster in {len(slower)} cells: {', '.join(slower)}")
        assert delays["product"].mean() <= min(delays[name].mean() for name in limits)


def cost_values(rng: np.random.Generator, runs: int, items: int, run_sd: float) -> Floats:
    """Costs of items: log-normal with heavy tails, and an effect of each run."""
    levels = rng.normal(size=items)[None, :] + run_sd * rng.normal(size=(runs, 1))
    return np.exp(levels + 0.5 * rng.standard_t(3, size=(runs, items)))


@pytest.mark.prove
def test_heavy_tails__are_compared_as_logarithms(show: Show) -> None:
    rng = np.random.default_rng(12)
    costs = [cost_values(rng, 90, 58, 0.05) for _ in range(HISTORIES)]
    logarithmic = false_pages(play([levels_of_values(-np.log(run)) for run in costs]), 90)
    linear = false_pages(play([levels_of_values(-run / run.mean()) for run in costs]), 90)
    show(
        f"\nCost with heavy tails: {logarithmic:.3f} false alarms on logarithms, {linear:.3f} without"
    )
    assert logarithmic <= PROMISE + RATE_ERROR


@pytest.mark.prove
def test_weekly_pattern__costs_power_and_no_pages(show: Show) -> None:
    cell = Cell(items=58, run_sd=0.02)

    def weekly(runs: int) -> Floats:
        return 0.03 * np.sin(2 * np.pi * np.arange(runs) / 7)

    rate = false_pages(play(simulate(cell, 90, HISTORIES, 13, weekly)), 90)
    shift = together(weekly, drop(0.1, 60))
    pages = [pages_of(events) for events in play(simulate(cell, 90, HISTORIES, 14, shift))]
    show(f"\nWeekly pattern of 3 points: {rate:.3f} false alarms, 10 points {detection(pages, 60)}")
    assert rate <= PROMISE + RATE_ERROR


@pytest.mark.prove
@pytest.mark.parametrize(("missing", "replaced"), [(0.05, 0.0), (0.0, 0.02)])
def test_items__missing_and_replaced_items_page_nobody(
    show: Show, missing: float, replaced: float
) -> None:
    """`replaced` items of each run are new; all levels are fitted again with each run."""
    rng = np.random.default_rng(15)
    histories = [_changing_items(rng, missing, replaced) for _ in range(30)]
    rate = pages_per_month(histories, 60)
    show(
        f"\n{missing:.0%} missing, {replaced:.0%} of the items replaced each run: {rate:.3f} false alarms"
    )
    assert rate <= PROMISE + 0.15


def _changing_items(rng: np.random.Generator, missing: float, replaced: float) -> list[int]:
    from mosaico.alerts.evaluation.incident_rules import advance_series
    from mosaico.alerts.evaluation.series_evidence import PagePolicy
    from mosaico.kpis.series_types import SeriesState
    from mosaico.statistics.run_levels import RunItemValues, fit_levels

    keys, rates = np.arange(58), rng.beta(1.6, 0.4, size=58)
    state, values, pages = SeriesState(), list[RunItemValues](), list[int]()
    for run in range(60):
        is_new = rng.random(58) < replaced
        keys = np.where(is_new, keys + 1000, keys)
        rates = np.where(is_new, rng.beta(1.6, 0.4, size=58), rates)
        answers = rng.binomial(1, rates).astype(float)
        answers[rng.random(58) < missing] = np.nan
        values.append(RunItemValues(run=run, keys=keys, values=answers, traces=np.ones(58)))
        policy = PagePolicy(false_pages_per_month=PROMISE, prior_sd=0.03)
        state, evidence = advance_series(state, fit_levels(values[-61:]), run, policy)
        if evidence.event is not None and evidence.event.pages:
            pages.append(run)
    return pages


def test_limit__is_that_of_the_documentation() -> None:
    limits = [limit_of(promise) for promise in (0.25, 0.05, 1 / 600)]
    assert limits == pytest.approx([3.06, 3.58, 4.49], abs=0.01)
