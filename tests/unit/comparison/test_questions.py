"""Two questions about one change: did these tasks change, and would others?"""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import ComparisonSpec, MetricComparisonSpec
from mosaico.comparison.verdict_text import render_verdict
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.matrix import ItemMatrix, ItemRow, matrix_of_rows
from mosaico.statistics.verdict_rules import (
    About,
    ChangeVerdict,
    Scale,
    Side,
    Verdict,
    VerdictNote,
    VerdictRule,
)
from tests.support.compared_runs import MULTIPLE, RATE

SEED = 43
CALLED = {Verdict.REGRESSED, Verdict.IMPROVED}


def tried(values: Sequence[Sequence[float]], clusters: int | None = None) -> ItemMatrix:
    """A run with the values of the trials of each item; `clusters` is the number of items in a cluster."""
    rows = [
        ItemRow(0, f"q{item:03d}", "r", [f"c:{item // clusters}"] if clusters else [], [value])
        for item, trials in enumerate(values)
        for value in trials
    ]
    return matrix_of_rows(rows, {0: ["A"]}, ["A"], cluster_field="c" if clusters else None)


def change_of(
    before: ItemMatrix,
    after: ItemMatrix,
    about: About | None = None,
    *,
    side: Side = Side.LOW,
    limits: ValueRange = RATE,
    scale: Scale = Scale.RATE,
) -> ChangeVerdict:
    metric = MetricComparisonSpec(
        column="A", rule=VerdictRule(side=side, scale=scale), limits=limits, is_judged=True
    )
    spec = ComparisonSpec(
        run=after, candidate=after, baseline=before, metrics=[metric], kpis=(), about=about
    )
    return compute(spec).metrics["A"]


def broken(count: int, items: int, trials: int) -> ItemMatrix:
    return tried([[float(item >= count)] * trials for item in range(items)])


@pytest.mark.parametrize(("items", "trials"), [(10, 5), (37, 10)])
def test_four_broken_tasks__are_a_regression_of_these_tasks(items: int, trials: int) -> None:
    change = change_of(broken(0, items, trials), broken(4, items, trials))
    assert (change.verdict, change.about) == (Verdict.REGRESSED, About.TASKS)
    assert change.tasks is not None
    assert change.tasks.fell == ("q000", "q001", "q002", "q003")
    answers = {answer.about: answer for answer in change.answers}
    assert answers[About.TASKS].p == change.p
    beyond = answers[About.POPULATION].p
    assert beyond is not None
    # The others may behave differently.
    assert beyond > 0.05
    verdict = render_verdict("passed", change, Scale.RATE)
    assert verdict.changed_tasks is not None
    assert (verdict.changed_tasks.fell, verdict.changed_tasks.tasks) == (4, items)
    for text in ("on these tasks", "Beyond these tasks", "q003", f"4 of {items} tasks"):
        assert text in verdict.explanation


def test_single_trials__are_about_other_tasks_unless_asked() -> None:
    before, after = broken(0, 40, 1), broken(5, 40, 1)
    data, asked = change_of(before, after), change_of(before, after, About.TASKS)
    assert (data.about, asked.about) == (About.POPULATION, About.TASKS)
    assert data.p != asked.p
    assert data.tasks is None


def test_population__is_what_was_asked() -> None:
    change = change_of(broken(0, 10, 5), broken(4, 10, 5), About.POPULATION)
    assert (change.verdict, change.about) == (Verdict.INCONCLUSIVE, About.POPULATION)


def test_clusters__cannot_say_whether_their_tasks_changed_and_say_so() -> None:
    before, after = (tried([[value] * 5] * 24, clusters=2) for value in (1.0, 0.0))
    asked, data = change_of(before, after, About.TASKS), change_of(before, after)
    assert (asked.about, data.about) == (About.POPULATION, About.POPULATION)
    assert VerdictNote.TASKS_UNKNOWN in asked.notes
    assert VerdictNote.TASKS_UNKNOWN not in data.notes


def test_costs_of_unequal_trials__are_about_other_tasks() -> None:
    before = tried([[1.0 + item, 2.0 + item] for item in range(20)])
    equal = tried([[1.5 + item, 2.5 + item] for item in range(20)])
    more = tried([[1.5 + item, 2.5 + item, 2.0 + item] for item in range(20)])
    abouts = [
        change_of(before, after, side=Side.HIGH, limits=MULTIPLE, scale=Scale.RATIO).about
        for after in (equal, more)
    ]
    assert abouts == [About.TASKS, About.POPULATION]


def test_both_answers__stay_within_the_possible_values() -> None:
    rendered = render_verdict(
        "A", change_of(broken(0, 10, 5), broken(4, 10, 5)), Scale.RATE, limits=RATE
    )
    # From 1.0 a share cannot rise.
    assert [answer.high for answer in rendered.answers if answer.about is About.POPULATION] == [0.0]
    assert all(-1.0 <= (answer.low or 0.0) <= 0.0 for answer in rendered.answers)


def test_too_few_tasks__may_be_helped_by_more_of_them() -> None:
    change = change_of(broken(0, 10, 5), broken(4, 10, 5), About.POPULATION)
    text = render_verdict("A", change, Scale.RATE, limits=RATE).explanation
    # Whole runs hide changes of a few points only; with 20 such tasks this change would be proved.
    assert change.effect == pytest.approx(-0.4)
    assert "cannot help" not in text


def test_a_rise_of_failures__names_the_tasks_that_broke() -> None:
    before, after = (tried([[float(item < n)] * 5 for item in range(10)]) for n in (0, 4))
    verdict = render_verdict("failed", change_of(before, after, side=Side.HIGH), Scale.RATE)
    assert verdict.verdict is Verdict.REGRESSED
    assert verdict.changed_tasks is not None
    assert (verdict.changed_tasks.rose, len(verdict.changed_tasks.names)) == (4, 4)


def test_detectable_change__is_stated_for_broken_tasks_too() -> None:
    flaky = tried([[1.0, 1.0, 1.0, 1.0, float(item % 2)] for item in range(37)])
    change = change_of(
        flaky, tried([[1.0, 1.0, float(item % 3 > 0), 1.0, 1.0] for item in range(37)])
    )
    assert change.about is About.TASKS
    assert change.mde is not None
    assert change.broken_items is not None
    assert change.mde >= change.broken_items / 37


@pytest.mark.parametrize("pairs", [100, pytest.param(400, marks=pytest.mark.prove)])
@pytest.mark.parametrize(
    ("items", "trials"),
    [
        (37, 5),
        *(
            pytest.param(items, trials, marks=pytest.mark.prove)
            for items, trials in ((10, 5), (37, 2))
        ),
    ],
)
@pytest.mark.parametrize("kind", ["passes", "costs"])
def test_unchanged_runs__are_called_in_at_most_one_of_twenty(
    items: int, trials: int, kind: str, pairs: int
) -> None:
    random = np.random.default_rng([SEED, items, trials])
    called = 0
    for _ in range(pairs):
        if kind == "passes":
            levels = random.beta(1.6, 0.4, items)
            before, after = (
                tried((random.random((items, trials)) < levels[:, None]).astype(float).tolist())
                for _ in range(2)
            )
            change = change_of(before, after)
        else:
            levels = random.lognormal(0, 1, items)
            before, after = (
                tried((levels[:, None] * random.lognormal(0, 0.5, (items, trials))).tolist())
                for _ in range(2)
            )
            change = change_of(before, after, side=Side.HIGH, limits=MULTIPLE, scale=Scale.RATIO)
        assert change.about is About.TASKS
        called += change.p is not None and change.p < 0.05
    # 5 %, and three standard errors of the simulation.
    assert called / pairs < 0.05 + 3 * math.sqrt(0.05 * 0.95 / pairs)
