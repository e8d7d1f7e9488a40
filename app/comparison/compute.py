"""The numbers behind the verdicts of a run; computed in a child process, from tables of items.

Imports numpy, and so belongs into the process that computes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from app.comparison.comparison_spec import (
    EXTREMES,
    Findings,
    KpiInterval,
    KpiQuestion,
    MetricQuestion,
    Question,
    Repeats,
)
from app.comparison.item_matrix import ItemTable
from app.formula import Reference, compile_formula
from app.formula.rows import FormulaRows, InstabilityKind, Mask, Rows, evaluate_rows
from app.metrics.registry import column_of, load_metrics, provider_for
from app.metrics.types import CountedMetric, MetricRef
from app.statistics.intervals import Interval
from app.statistics.means import estimate_mean
from app.statistics.multiplicity import adjust_verdicts, benjamini_hochberg
from app.statistics.paired_change import compare_items, compare_resampled
from app.statistics.resampling import (
    SEED,
    Draws,
    draw_items,
    resampled_counts,
    resampled_error,
    resampled_interval,
    resampled_statistic,
    share_at_least,
)
from app.statistics.trials import (
    IntArray,
    ItemSums,
    at_least_k,
    mean_over_items,
    pass_at_k,
    pass_hat_k,
    reduce_trials,
)
from app.statistics.unpaired_change import compare_unpaired
from app.statistics.verdict import (
    ChangeVerdict,
    Note,
    Verdict,
    VerdictRule,
    drop_non_finite,
    without_change,
)

# A table of more is no longer read.
MOST_TRIALS = 10
# What these say of a run is made of all its items, whether they have a value or not.
_OF_ALL = frozenset({"n", "count", "coverage"})
_UNSTEADY = {InstabilityKind.TIE: Note.TIE, InstabilityKind.CLIFF: Note.CLIFF}


@np.errstate(all="ignore")
def answer(asked: Question) -> Findings:
    """Every interval and every judgement of a run; the same question gives the same bits.

    What is too large for a number is left out.
    """
    if not asked.run.items:
        return Findings()
    counted = {one.column: one.counted for one in asked.metrics if one.counted}
    run = _Resampled(asked.run, counted)
    intervals = {one.column: run.interval(one) for one in asked.metrics}
    found = Findings(
        metric_intervals={name: each for name, each in intervals.items() if each},
        kpi_intervals={
            one.id: run.kpi_interval(one, intervals.get(one.column or "")) for one in asked.kpis
        },
        repeats={
            one.column: repeats
            for one in asked.metrics
            if one.is_success and (repeats := repeats_of(run.sums(one.column)))
        },
    )
    if asked.candidate is None or asked.base is None:
        return found
    return _compared(asked, found, asked.base, asked.candidate)


def errors_of_change(asked: Question) -> dict[str, float | None]:
    """How far each KPI moves by chance, by its id: the standard error of its change between two runs
    of the same items, or of its value where there is no baseline; None where it is not known.
    """
    counted = {one.column: one.counted for one in asked.metrics if one.counted}
    run = _Resampled(asked.candidate or asked.run, counted)
    base = _Resampled(asked.base, counted, run.draws) if asked.base else None
    if base is not None:
        base.other, run.other = run, base
    found: dict[str, float | None] = {}
    for one in asked.kpis:
        rows = run.formula_rows(one.formula).values
        if base is not None:
            rows = rows - base.formula_rows(one.formula).values
        found[one.id] = resampled_error(rows, run.draws.unit_count)
    return found


def repeats_of(sums: ItemSums) -> list[Repeats]:
    """pass@k and its kin for each k, up to `MOST_TRIALS`; none of grades, or of single trials."""
    trials = int(sums.n.max(initial=0))
    if trials < 2 or not sums.are_binary:  # noqa: PLR2004
        return []
    return [_repeats(sums, k) for k in range(1, min(trials, MOST_TRIALS) + 1)]


def _repeats(sums: ItemSums, k: int) -> Repeats:
    kin = [mean_over_items(of_item, sums, k) for of_item in (pass_at_k, pass_hat_k, at_least_k)]
    one, every, least = (0.0 if value is None else value for value in kin)
    items = int((sums.n >= k).sum())
    return Repeats(k=k, items=items, pass_at_k=one, pass_hat_k=every, at_least_k=least)


def _compared(asked: Question, found: Findings, base: ItemTable, candidate: ItemTable) -> Findings:
    metrics = {one.column: one.rule for one in asked.metrics if one.rule is not None}
    kpis = [one for one in asked.kpis if one.rule is not None]
    if not candidate.items:
        nothing = without_change(Verdict.INCONCLUSIVE, Note.NO_ITEMS)
        return replace(
            found,
            metrics=dict.fromkeys(metrics, nothing),
            kpis={one.id: nothing for one in kpis},
        )
    counted = {one.column: one.counted for one in asked.metrics if one.counted}
    pair = (_Pair if asked.paired else _Samples)(base, candidate, counted)
    gates = {one.id for one in kpis if one.is_gate}
    return replace(
        found,
        metrics=_together({name: pair.judge_metric(name, rule) for name, rule in metrics.items()}),
        kpis=_together({one.id: pair.judge_kpi(one) for one in kpis}, gates),
    )


def _within_numbers(found: Interval | None) -> Interval | None:
    if found is None or not math.isfinite(found.high - found.low):
        return None
    return found


def _together(
    found: Mapping[str, ChangeVerdict], alone: AbstractSet[str] = frozenset()
) -> Mapping[str, ChangeVerdict]:
    """Judged for how many they are; those of `alone` as they stand."""
    found = {name: drop_non_finite(each) for name, each in found.items()}
    others = [name for name in found if name not in alone]
    adjusted = adjust_verdicts([found[name] for name in others], benjamini_hochberg)
    return {**found, **dict(zip(others, adjusted, strict=True))}


class _Resampled:
    """A run, and what it might have been with other items; each column is drawn once. `counted` are
    the metrics whose value is read off counts. Beside `other`, a run of the same items, a metric is
    that of the items that have a value of it in both.
    """

    other: "_Resampled | None" = None

    def __init__(
        self, table: ItemTable, counted: Mapping[str, MetricRef], draws: Draws | None = None
    ) -> None:
        self.table = table
        self.counted = counted
        self.clusters = table.clusters or None
        self.draws = draws or draw_items(len(table.items), clusters=self.clusters)
        self._places = np.asarray(table.places, dtype=np.intp)
        self._known: dict[Reference, Rows] = {}
        self._valued: dict[str, Mask] = {}

    def sums(self, column: str) -> ItemSums:
        """A metric by item: trials are reduced before anything else is done."""
        values = np.asarray(self.table.values[column])
        return reduce_trials(self._places, values, len(self.table.items))

    def valued(self, column: str) -> Mask:
        """Which items have a value of a metric."""
        if column not in self._valued:
            places: IntArray = self._places[np.isfinite(np.asarray(self.table.values[column]))]
            if column in self.counted:
                places = np.asarray(self.table.counts[column].places, dtype=np.intp)
            self._valued[column] = np.bincount(places, minlength=len(self.table.items)) > 0
        return self._valued[column]

    def shared(self, column: str) -> Mask:
        """Which items are looked at: those with a value, in the other run, too."""
        valued = self.valued(column)
        return valued if self.other is None else valued & self.other.valued(column)

    def scarcest(self, references: Iterable[Reference]) -> Mask:
        """The items of the metric that the fewest have: no more of them speak for a formula."""
        masks = [self.shared(column_of(ref.key)) for ref in references if ref.stat not in _OF_ALL]
        every = np.ones(len(self.table.items), dtype=np.bool_)
        return min((mask for mask in masks if mask.any()), key=np.count_nonzero, default=every)

    def formula_rows(self, text: str) -> FormulaRows:
        """A formula as it was seen, then composed anew in every resample."""
        formula = compile_formula(text)
        return evaluate_rows(formula, {ref: self.rows(ref) for ref in formula.references})

    def interval(self, asked: MetricQuestion) -> Interval | None:
        """Where a metric lies; where all items are the same, what is read off counts lies as they do."""
        if asked.column in self.counted:
            reference = Reference(asked.column, "mean")
            units = self.draws.size(self.scarcest([reference])).units
            drawn = resampled_interval(self.rows(reference), units)
            if drawn is not None and drawn.low < drawn.high:
                return drawn
        found = estimate_mean(self.sums(asked.column), scale=asked.scale, clusters=self.clusters)
        return _within_numbers(found.interval) if found else None

    def kpi_interval(self, asked: KpiQuestion, plain: Interval | None) -> KpiInterval:
        """Where a KPI lies; `plain` is the interval of the metric that it is the mean of."""
        found = self.formula_rows(asked.formula)
        limit, is_known = asked.threshold_min, np.isfinite(found.values[0])
        units = self.draws.size(self.scarcest(compile_formula(asked.formula).references)).units
        drawn = _within_numbers(resampled_interval(found.values, units)) if is_known else None
        return KpiInterval(
            interval=plain or drawn,
            reaches_threshold=None if limit is None else share_at_least(found.values, limit),
            notes=(*_notes(found, asked.formula), *_alike(plain or drawn)),
        )

    def rows(self, reference: Reference) -> Rows:
        """A statistic of a metric: as it was seen, then in every resample."""
        if reference not in self._known:
            column = column_of(reference.key)
            self._known[reference] = (
                self._counted_rows(column)
                if column in self.counted and reference.stat == "mean"
                else self._statistic_rows(column, reference.stat)
            )
        return self._known[reference]

    def _statistic_rows(self, column: str, stat: str) -> Rows:
        values = np.asarray(self.table.values[column])
        if stat not in _OF_ALL and self.other is not None:
            values = np.where(self.shared(column)[self._places], values, np.nan)
        return resampled_statistic(stat, values, self._places, self.draws)

    def _counted_rows(self, column: str) -> Rows:
        load_metrics()
        found, provider = self.table.counts[column], provider_for(self.counted[column])
        assert isinstance(provider, CountedMetric)
        places = np.asarray(found.places, dtype=np.intp)
        kept = self.shared(column)[places]
        return resampled_counts(
            np.array(found.columns).T[kept],
            places[kept],
            np.asarray(found.of_names, dtype=np.intp)[kept],
            self.draws,
            lambda known, sums: provider.values_of_counts([found.names[i] for i in known], sums),
        )


class _TwoRuns(ABC):
    """A run beside its baseline, compared as far as their items let them be."""

    def __init__(self, before: _Resampled, after: _Resampled) -> None:
        self._before, self._after = before, after
        self._trials = len(after.table.places) / len(after.table.items)

    def judge_metric(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        """What is read off counts is resampled; of all else every item has a mean."""
        counted = column in self._after.counted
        return (self._judge_resampled if counted else self._judge_items)(column, rule)

    def judge_kpi(self, asked: KpiQuestion) -> ChangeVerdict:
        """A KPI that is a metric is judged as one; any other is composed anew in each resample."""
        assert asked.rule is not None
        if asked.column is not None:
            return self.judge_metric(asked.column, asked.rule)
        before = self._before.formula_rows(asked.formula)
        after = self._after.formula_rows(asked.formula)
        notes = dict.fromkeys((*_notes(after, asked.formula), *_notes(before, asked.formula)))
        read = compile_formula(asked.formula).references
        return self._judge_rows(before.values, after.values, asked.rule, read, notes)

    def _judge_resampled(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        reference = Reference(column, "mean")
        rows = self._before.rows(reference), self._after.rows(reference)
        return self._judge_rows(*rows, rule, [reference])

    @abstractmethod
    def _judge_items(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        """A metric from its values by item."""

    @abstractmethod
    def _judge_rows(
        self,
        before: Rows,
        after: Rows,
        rule: VerdictRule,
        read: Sequence[Reference],
        notes: Iterable[Note] = (),
    ) -> ChangeVerdict:
        """Values of each resample, made of the metrics that were `read`."""


class _Pair(_TwoRuns):
    """Two runs drawn together: the same items in each resample of both."""

    def __init__(
        self, base: ItemTable, candidate: ItemTable, counted: Mapping[str, MetricRef]
    ) -> None:
        after = _Resampled(candidate, counted)
        before = _Resampled(base, counted, after.draws)
        before.other, after.other = after, before
        super().__init__(before, after)

    def _judge_items(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        before, after = self._before.sums(column), self._after.sums(column)
        return compare_items(before, after, rule, clusters=self._after.clusters)

    def _judge_rows(
        self,
        before: Rows,
        after: Rows,
        rule: VerdictRule,
        read: Sequence[Reference],
        notes: Iterable[Note] = (),
    ) -> ChangeVerdict:
        items = self._after.scarcest(read)
        draws = self._after.draws
        return compare_resampled(
            before, after, rule, draws, trials=self._trials, notes=notes, items=items
        )


class _Samples(_TwoRuns):
    """Two runs of other items: each drawn by itself, and compared as two samples."""

    def __init__(
        self, base: ItemTable, candidate: ItemTable, counted: Mapping[str, MetricRef]
    ) -> None:
        own = draw_items(len(base.items), clusters=base.clusters or None, seed=SEED + 1)
        super().__init__(_Resampled(base, counted, own), _Resampled(candidate, counted))

    def _judge_items(self, column: str, rule: VerdictRule) -> ChangeVerdict:
        """Grouped items are resampled by group."""
        if self._after.clusters is not None:
            return self._judge_resampled(column, rule)
        return compare_unpaired(self._before.sums(column), self._after.sums(column), rule)

    def _judge_rows(
        self,
        before: Rows,
        after: Rows,
        rule: VerdictRule,
        read: Sequence[Reference],
        notes: Iterable[Note] = (),
    ) -> ChangeVerdict:
        smaller = min(
            (self._before, self._after),
            key=lambda side: side.draws.size(side.scarcest(read)).units,
        )
        found = compare_resampled(
            before,
            after,
            rule,
            smaller.draws,
            items=smaller.scarcest(read),
            trials=self._trials,
            notes=dict.fromkeys((Note.UNPAIRED, *notes)),
        )
        return replace(found, method="bootstrap of two samples")


def _notes(found: FormulaRows, text: str) -> tuple[Note, ...]:
    extreme = any(ref.stat in EXTREMES for ref in compile_formula(text).references)
    unsteady = (_UNSTEADY[each.kind] for each in found.instabilities)
    return tuple(dict.fromkeys((*unsteady, *(Note.EXTREME,) * extreme)))


def _alike(drawn: Interval | None) -> tuple[Note, ...]:
    return (Note.ALL_ALIKE,) if drawn is not None and drawn.low == drawn.high else ()
