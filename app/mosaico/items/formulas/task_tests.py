"""What the trials of exactly these items, and the scores of equal answers, tell about a change.

Imports numpy; call it only in a process that computes.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from mosaico.formula.ast import Metric
from mosaico.items.formulas.linearization import (
    LinearChange,
)
from mosaico.items.formulas.pair import FormulaPair
from mosaico.items.formulas.properties import ValueRange
from mosaico.metrics.registry import column_of
from mosaico.statistics.fixed_items import (
    FixedItemsChange,
    FixedItemsPower,
    fixed_items_change,
    fixed_items_power,
)
from mosaico.statistics.judge_drift import AnswerScores, MeasuredDrift, measure_drift
from mosaico.statistics.task_changes import find_task_changes
from mosaico.statistics.trials import (
    REPEATED_TRIALS,
    ItemSums,
    reduce_trials,
)
from mosaico.statistics.verdict_rules import (
    Judgement,
    Side,
    TaskChanges,
)
from mosaico.statistics.whole_runs import RunEffect


class TaskTest(NamedTuple):
    """The test of exactly these items, with what it finds; `is_repeated`: most items have several trials in both runs."""

    change: FixedItemsChange
    power: FixedItemsPower
    found: TaskChanges | None
    is_repeated: bool


def assess_tasks(
    pair: FormulaPair, linear: LinearChange, limits: ValueRange, harm: Side, runs: RunEffect
) -> TaskTest | None:
    """The test of exactly these items; None where the data do not allow it. `runs` is what whole runs add.

    It needs the trials of each item in both runs, independent of those of other items: no clusters, and a formula
    of means. Of costs and times an item needs as many trials in both runs: the mean of a few heavy-tailed values
    is lower than that of many, most of the time (simulated).
    """
    if not pair.is_paired or pair.cluster_count is not None:
        return None
    sides = _trial_sums(pair, linear)
    if sides is None:
        return None
    before, after = sides
    if linear.is_logarithm and not (before.n == after.n).all():
        return None
    width = None if linear.is_logarithm else limits.width
    change = fixed_items_change(before, after, width=width, runs=runs)
    if change is None:
        return None
    power = fixed_items_power(
        before,
        after,
        is_less_better=harm is Side.HIGH,
        is_relative=linear.is_logarithm,
        runs=runs,
    )
    found = _task_changes(pair, runs)
    return TaskTest(
        change=change.with_tasks(found) if found else change,
        power=power,
        found=found,
        is_repeated=all(float(np.median(side.n)) >= REPEATED_TRIALS for side in sides),
    )


def _trial_sums(pair: FormulaPair, linear: LinearChange) -> tuple[ItemSums, ItemSums] | None:
    """What the trials of each item add to the change, times the number of items; None for other formulas than
    those of means, and when an item lacks a part.
    """
    scores = [pair.trace_values(linear, run) for run in pair.runs]
    if any(run_scores is None for run_scores in scores):
        return None
    sides = [
        reduce_trials(run.item_index, run_scores, run.item_count)
        for run, run_scores in zip(pair.runs, scores, strict=True)
        if run_scores is not None
    ]
    has_values = (sides[0].n > 0) & (sides[1].n > 0)
    if int(has_values.sum()) != len(linear.changes):
        return None
    before, after = (side.where(has_values) for side in sides)
    effect = float((after.means - before.means).mean())
    if effect == linear.effect or effect * linear.effect <= 0:
        # A formula that bends may have no change along its slope.
        return (before, after) if math.isclose(effect, linear.effect, abs_tol=1e-12) else None
    # Of large changes the slope between the runs is too coarse.
    factor = linear.effect / effect
    if math.isclose(factor, 1.0):
        return before, after
    return before.times(factor), after.times(factor)


def _task_changes(pair: FormulaPair, runs: RunEffect) -> TaskChanges | None:
    """The items that changed by themselves, of a metric whose values are passes and failures."""
    if not isinstance(pair.formula.root, Metric):
        return None
    mask = pair.any_value
    column = column_of(pair.formula.root.reference.key)
    before, after = (run.item_sums(column).where(mask) for run in pair.runs)
    names = [name for name, is_read in zip(pair.runs[1].matrix.items, mask, strict=True) if is_read]
    return find_task_changes(names, before, after, runs_variance=runs.variance)


def judge_drift(
    pair: FormulaPair, linear: LinearChange, judgements: Mapping[str, Judgement]
) -> MeasuredDrift | None:
    """How the scores of these metrics moved where the answers are equal; None without such answers or scores.

    Scores of the source may judge what is not in the answer: passes and failures a database, faithfulness the
    documents that were found. So its passes and failures do not count, nor its scores where most answers are equal.
    """
    if not pair.is_paired:
        return None
    scores = [pair.trace_values(linear, run, judgements) for run in pair.runs]
    judged = [
        AnswerScores(values, run.item_index, np.asarray(run.matrix.answers, dtype=np.intp))
        for values, run in zip(scores, pair.runs, strict=True)
        if values is not None and run.matrix.answers
    ]
    if len(judged) < len(pair.runs):
        return None
    columns = {column_of(ref.key) for ref in pair.formula.references} & {*judgements}
    of_source = [column for column in columns if judgements[column] is Judgement.SOURCE]
    are_checks = any(
        all(run.item_sums(column).are_binary for run in pair.runs) for column in of_source
    )
    measured = measure_drift(*judged)
    if measured is None or not of_source:
        return measured
    are_most_equal = measured.drift.answers > pair.item_count / 2
    return measured.uncounted() if are_checks or are_most_equal else measured
