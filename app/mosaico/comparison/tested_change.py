"""A tested change between two runs, and its verdict in the unit of the value.

Imports numpy; call it only in a process that computes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from mosaico.formula import Reference
from mosaico.items.formulas.linearization import log_ratio
from mosaico.items.formulas.properties import Line
from mosaico.items.formulas.task_tests import TaskTest
from mosaico.statistics.change import (
    ChangeTest,
)
from mosaico.statistics.decisions import decide_verdict, drop_non_finite
from mosaico.statistics.fixed_items import DetectableChange, FixedItemsChange
from mosaico.statistics.power import ChangeModel, items_to_detect_any, settle_equivalence
from mosaico.statistics.verdict_rules import (
    FEW,
    About,
    Answer,
    ChangeMethod,
    ChangeVerdict,
    JudgeDrift,
    Remedy,
    RunVariation,
    Scale,
    Side,
    Verdict,
    VerdictNote,
    VerdictRule,
)
from mosaico.statistics.whole_runs import NO_RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedChange:
    """The tested change of one statistic or formula, before any adjustment.

    `sampled` is the test of the items as a sample, None when the change cannot be tested; the notes say why. `tasks` is
    that of exactly these items, None where the data do not allow it. `about` says which one decides. With
    `is_logarithm` the tests are of the logarithms. `model` is None when the spread of the items is unknown.
    """

    baseline: float
    candidate: float
    sampled: ChangeTest | None
    is_logarithm: bool
    items: int
    trials: float
    clusters: int | None
    method: ChangeMethod
    model: ChangeModel | None = None
    notes: tuple[VerdictNote, ...] = ()
    tasks: TaskTest | None = None
    about: About = About.POPULATION
    whole_runs: RunVariation | None = None
    judge: JudgeDrift | None = None

    @property
    def test(self) -> ChangeTest | FixedItemsChange | None:
        """The test that decides."""
        tasks = self._deciding_tasks
        return self.sampled if tasks is None else tasks.change

    @property
    def _deciding_tasks(self) -> TaskTest | None:
        return self.tasks if self.about is About.TASKS else None

    @property
    def deciding_notes(self) -> tuple[VerdictNote, ...]:
        """The notes about the question that decides: few items are enough for a question about themselves."""
        tasks = self._deciding_tasks
        if tasks is None or not tasks.change.can_decide:
            return self.notes
        return tuple(note for note in self.notes if note not in FEW)

    @property
    def deciding_model(self) -> ChangeModel | None:
        """The spread that more trials would reduce."""
        tasks = self._deciding_tasks
        if tasks is None:
            return self.model
        return ChangeModel(
            scale=Scale.NUMBER, items=0.0, trial=tasks.power.trial, runs=tasks.power.runs
        )

    @property
    def _is_constant(self) -> bool:
        """Whether all values are equal, which says nothing about how much they would vary."""
        model = self.deciding_model
        if model is None or model.costs is not None:
            return False
        by_items = replace(model, runs=NO_RUNS)
        return by_items.detectable_effect(self.items, max(1.0, self.trials)) <= 0

    def detectable(self) -> DetectableChange | None:
        """The minimum detectable effect of the test; infinite where it finds no change as often, None when that is
        unknown, or when even the largest change of these units could be chance.
        """
        if FEW & {*self.deciding_notes} or self._is_constant:
            return None
        if self._deciding_tasks:
            found = self._deciding_tasks.power.detectable()
            width = self._deciding_tasks.change.width
            is_possible = found is not None and (width is None or found.effect <= width)
            return found if is_possible else DetectableChange(effect=math.inf, broken_items=None)
        if self.model is None:
            return None
        effect = self.model.detectable_effect(self.items, max(1.0, self.trials))
        return DetectableChange(effect=effect, broken_items=None)

    @property
    def p(self) -> float | None:
        return None if self.test is None else self.test.p

    def verdict(
        self, rule: VerdictRule, p_adjusted: float | None, line: Line | None = None
    ) -> ChangeVerdict:
        """The verdict by a rule, of the value or of a linear function of it.

        The adjusted interval is that of the level at which the unadjusted p-value decides the same.
        """
        shape = line or Line(Reference("", ""), 1.0, 0.0)
        start = shape.offset + shape.slope * self.baseline
        scale = _DisplayScale(self, rule.scale, shape.slope, abs(start))
        alpha = rule.alpha
        if self.p and p_adjusted:
            alpha *= min(1.0, self.p / p_adjusted)
        low, high = scale.interval(rule.alpha)
        low_adjusted, high_adjusted = scale.interval(alpha)
        margin, mde = rule.margin * scale.unit, scale.detectable(rule.side)
        return decide_verdict(
            drop_non_finite(
                ChangeVerdict(
                    verdict=Verdict.INCONCLUSIVE,
                    effect=scale.display(self._effect) + 0.0,
                    low=low,
                    high=high,
                    low_adjusted=low_adjusted,
                    high_adjusted=high_adjusted,
                    p=self.p,
                    p_adjusted=p_adjusted,
                    mde=mde,
                    n_items=self.items,
                    trials=self.trials,
                    method=ChangeMethod.STRATIFIED if self._deciding_tasks else self.method,
                    baseline_value=start,
                    value=shape.offset + shape.slope * self.candidate,
                    min_effect=rule.min_effect * scale.unit,
                    margin=margin,
                    side=rule.side,
                    alpha=rule.alpha,
                    clusters=self.clusters,
                    items_needed=scale.items_needed() if mde is None else None,
                    remedy=scale.remedy(margin),
                    notes=self._all_notes(p_adjusted, rule),
                    about=self.about,
                    answers=tuple(self._answers(rule, shape, abs(start))),
                    tasks=self.tasks and self.tasks.found,
                    whole_runs=scale.whole_runs(),
                    judge=self.judge and self.judge._replace(shift=scale.display(self.judge.shift)),
                )
            )
        )

    def _answers(self, rule: VerdictRule, line: Line, start: float) -> Iterator[Answer]:
        """The answers to all questions that the data allow."""
        for about in About:
            if (self.tasks if about is About.TASKS else self.sampled) is None:
                continue
            answering = replace(self, about=about)
            scale = _DisplayScale(answering, rule.scale, line.slope, start)
            low, high = scale.interval(rule.alpha)
            yield Answer(
                about=about,
                low=low,
                high=high,
                p=answering.p,
                mde=scale.detectable(rule.side),
                broken_items=scale.broken_items(),
            )

    def _all_notes(self, p: float | None, rule: VerdictRule) -> tuple[VerdictNote, ...]:
        """The notes, and whether a change of these items says nothing about others."""
        is_called = p is not None and p < rule.alpha
        is_only_here = self.sampled is None or self.sampled.p >= rule.alpha or FEW & {*self.notes}
        if self._deciding_tasks and is_called and is_only_here:
            return (*self.deciding_notes, VerdictNote.THESE_ITEMS)
        return self.deciding_notes

    @property
    def _effect(self) -> float:
        return self.sampled.effect if self.sampled else self._difference

    @property
    def _difference(self) -> float:
        if self.is_logarithm:
            return log_ratio(self.candidate, self.baseline)
        return self.candidate - self.baseline


class _DisplayScale(NamedTuple):
    """Converts changes on the scale of a test into changes of a value.

    The value is a linear function with this slope of the tested one, and `start` its size in the
    baseline: changes on the scale RATIO are divided by it.
    """

    change: TestedChange
    scale: Scale
    slope: float
    start: float

    @property
    def is_relative(self) -> bool:
        return self.scale is Scale.RATIO and self.start > 0

    @property
    def unit(self) -> float:
        """The limits of a rule, which are fractions on the scales NUMBER and RATIO, in this unit."""
        if self.scale is Scale.RATE:
            return 1.0
        size = abs(self.slope * self.change.baseline)
        return size / self.start if self.is_relative else size

    def display(self, effect: float) -> float:
        absolute = self.slope * (
            self.change.baseline * math.expm1(min(effect, 700.0))
            if self.change.is_logarithm
            else effect
        )
        return absolute / self.start if self.is_relative else absolute

    def interval(self, alpha: float) -> tuple[float, float] | tuple[None, None]:
        interval = self.change.test.interval(alpha) if self.change.test else None
        if interval is None:
            return (None, None)
        low, high = sorted((self.display(interval.low), self.display(interval.high)))
        return (low, high)

    def whole_runs(self) -> RunVariation | None:
        """How much whole runs vary, in the unit of a change."""
        runs = self.change.whole_runs
        # A standard deviation is no change: that of a logarithm is the fraction of the value that was stated.
        size = abs(self.change.baseline) if self.change.is_logarithm else 1.0
        unit = abs(self.slope) * size / (self.start if self.is_relative else 1.0)
        return runs and runs._replace(sd=runs.sd * unit)

    def broken_items(self) -> int | None:
        """The number of items that have to break to be found."""
        detectable = self.change.detectable()
        return None if detectable is None else detectable.broken_items

    def items_needed(self) -> int | None:
        """The items that detect some change, where these detect none."""
        model, detectable = self.change.model, self.change.detectable()
        if self.change.about is About.TASKS or model is None or detectable is None:
            return None
        if math.isfinite(detectable.effect):
            return None
        return items_to_detect_any(model, trials=max(1.0, self.change.trials))

    def detectable(self, side: Side) -> float | None:
        detectable = self.change.detectable()
        if detectable is None or not math.isfinite(detectable.effect):
            return None
        effect = detectable.effect
        if effect <= 0:
            return None
        # A ratio and its inverse are equally far from 1 as logarithms only.
        is_fall = (side is Side.LOW) is (self.slope > 0)
        return abs(self.display(-effect if is_fall else effect))

    def remedy(self, margin: float) -> Remedy | None:
        model, change = self.change.deciding_model, self.change
        scale = abs(self.slope) / (self.start if self.is_relative else 1.0)
        if change.is_logarithm:
            scale *= abs(change.baseline)
        if model is None or scale == 0:
            return None
        trials, tested_margin = max(1.0, change.trials), margin / scale
        if change.is_logarithm:
            # The end above 0 is the farther one: a rise by m is less as a logarithm than a fall.
            tested_margin = math.log1p(tested_margin)
        remedy = settle_equivalence(model, items=change.items, trials=trials, margin=tested_margin)
        if remedy is None or remedy.more_trials is None:
            return remedy
        return remedy._replace(more_trials=max(1, math.ceil(remedy.more_trials - trials)))
