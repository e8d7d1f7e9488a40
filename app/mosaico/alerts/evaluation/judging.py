"""What a rule makes of the runs of an agent, one after the other; pure.

Live evaluation, backtests and tests of rules call `Judge`. It takes each completed run once:

    new data        the condition is evaluated against the runs before it, and the state of the rule moves on
    the same data   adds nothing: the state stays
    late            a later night was judged before: judged against the runs before its own night; the state stays
    not valid       its numbers say nothing about the agent
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Protocol

from mosaico.alerts.evaluation.conditions import (
    REFERENCE_LOST,
    assess_evidence,
    evaluate_condition,
)
from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.rule_memory import Memory, accept, bound_spans
from mosaico.alerts.evaluation.series_decision import decide_step
from mosaico.alerts.rules import (
    AlertEventState,
    AlertOutcome,
    AlertStatus,
    Assessment,
    Condition,
    Observation,
    RuleOutcome,
    RuleSpec,
    RuleState,
    RunSpan,
    StateChange,
    ValueSpec,
    advance,
    advance_by_evidence,
    loses_reference,
)
from mosaico.core.text import format_utc
from mosaico.kpis.series_types import SeriesState
from mosaico.run_store.run_history import PastRun
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES, RunLevel
from mosaico.statistics.verdict_rules import Scale, Side


class SeriesInput(NamedTuple):
    """The levels of a series in a run and in the runs that its state names; on the scale of the value."""

    levels: Mapping[int, RunLevel]
    scale: Scale
    side: Side


class WatchedRuns(Protocol):
    """The value that a rule watches in the runs of an agent."""

    def observe(
        self, run: PastRun, excluded: Sequence[RunSpan]
    ) -> tuple[ValueSpec, Observation]: ...

    def series_of(self, run: PastRun) -> SeriesInput | None:
        """None for a run without a level."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """The condition of a rule for one run. `step` is the next state of the series of a REGRESSED rule; with
    `is_reference_lost` the run can no longer be compared with those before the open incident.
    """

    value_spec: ValueSpec
    assessment: Assessment
    step: SeriesStep | None = None
    is_relative: bool = False
    is_reference_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvaluation:
    """What a rule made of one run: `result` is None for a run that is not valid, and `assessment` where
    the condition was not evaluated. `memory` is what the rule remembers after it.
    """

    run: PastRun
    result: RuleOutcome | None
    assessment: Assessment | None
    change: StateChange
    memory: Memory

    @property
    def is_step(self) -> bool:
        """Whether the run moved the state of the rule on."""
        return _is_judged(self.run)


def is_history_of(earlier: PastRun, run: PastRun) -> bool:
    """Return whether a run belongs to the history of another: its data were new, it was not late, and it is for no
    later night. A late run also has no history that was not there when it ended.
    """
    return (
        _is_judged(earlier)
        and earlier.night <= run.night
        and earlier.seq != run.seq
        and (not run.is_late or earlier.completed_at <= run.completed_at)
    )


def in_order(runs: Sequence[PastRun]) -> list[PastRun]:
    """Runs in the order in which they were judged: nights in their order, and each repeated or late run after those
    that had ended before it.
    """
    judged = sorted(filter(_is_judged, runs), key=lambda run: (run.night, run.seq))
    keyed, latest = [], None
    for run in judged:
        latest = run.completed_at if latest is None else max(latest, run.completed_at)
        keyed.append((latest, 0, run.night, run.seq, run))
    keyed += [(run.completed_at, 1, run.night, run.seq, run) for run in runs if not _is_judged(run)]
    return [entry[-1] for entry in sorted(keyed, key=lambda entry: entry[:-1])]


def _is_judged(run: PastRun) -> bool:
    return run.is_valid and run.has_new_data and not run.is_late


class Judge:
    """A rule and what it remembers. `runs` are given in the order in which they were judged.

    `memory` is what the rule remembers of earlier runs. A late run needs the memory at its own night: with a
    `memory` from elsewhere, `judge` only takes runs that are not late.
    `false_pages` is the number of false pages in 30 runs for a rule that sets none.
    """

    def __init__(
        self,
        spec: RuleSpec,
        data: WatchedRuns,
        *,
        memory: Memory | None = None,
        false_pages: float = DEFAULT_FALSE_PAGES,
    ) -> None:
        self._spec, self._data, self._false_pages = spec, data, false_pages
        self.memory = memory or Memory()
        self._nights: list[tuple[int, Memory]] = []

    def replay(self, runs: Sequence[PastRun]) -> list[RuleEvaluation]:
        """The evaluation of each run, in the order in which they were judged."""
        return [self.judge(run) for run in in_order(runs)]

    def judge(self, run: PastRun) -> RuleEvaluation:
        """The evaluation of the next run."""
        if not run.is_valid:
            return self._unchanged(run, None, None)
        if not run.has_new_data and not run.is_other_data:
            return self._unchanged(run, RuleOutcome.SAME_DATA, self.assess_alone(run))
        if run.is_late:
            return self._judge_late(run)
        assessed = self.assess(run, self.memory)
        self.memory, change = remember(self._spec, self.memory, run, assessed, run.completed_at)
        self._nights.append((run.night, self.memory))
        result = result_of(assessed.assessment, self.memory.state)
        evaluation = RuleEvaluation(
            run=run,
            result=result,
            assessment=assessed.assessment,
            change=change,
            memory=self.memory,
        )
        if run.is_accepted:
            self.memory = accept(self.memory, run.seq)
            self._nights[-1] = (run.night, self.memory)
        return evaluation

    def assess(self, run: PastRun, memory: Memory) -> Assessed:
        """The condition for a run, given what the rule remembers of the runs before it."""
        return assess(self._spec, memory, run, self._data, self._false_pages)

    def assess_alone(self, run: PastRun) -> Assessment | None:
        """The condition for a run that repeats another one, if it needs no other run; None otherwise."""
        if self._spec.condition.excludes_incidents:
            return None
        return evaluate_condition(self._spec, *self._data.observe(run, ()))

    def memory_at(self, run: PastRun) -> Memory:
        """What the rule remembered before the night of a late run."""
        return next(
            (memory for night, memory in reversed(self._nights) if night <= run.night), Memory()
        )

    def _judge_late(self, run: PastRun) -> RuleEvaluation:
        memory = self.memory_at(run)
        assessed = self.assess(run, memory)
        change = late_change(self._spec, memory, run, assessed, run.completed_at)
        return self._unchanged(run, RuleOutcome.LATE, assessed.assessment, change)

    def _unchanged(
        self,
        run: PastRun,
        result: RuleOutcome | None,
        assessment: Assessment | None,
        notification: AlertEventState | None = None,
    ) -> RuleEvaluation:
        return RuleEvaluation(
            run=run,
            result=result,
            assessment=assessment,
            change=StateChange(self.memory.state, notification),
            memory=self.memory,
        )


def assess(
    spec: RuleSpec, memory: Memory, run: PastRun, data: WatchedRuns, false_pages: float
) -> Assessed:
    """The condition of a rule for a run, given what the rule remembers of the runs before it."""
    value_spec, observation = data.observe(run, memory.excluded_runs)
    assessment, step = evaluate_condition(spec, value_spec, observation), None
    is_relative = False
    if spec.condition is Condition.REGRESSED and observation.value is not None:
        series = data.series_of(run)
        is_relative = series is not None and series.scale is Scale.RATIO
        step = _next_step(spec, memory.series, run, series, false_pages)
        assessment = _assess_series(value_spec, assessment, step, is_relative=is_relative)
    is_lost = memory.state.open and loses_reference(
        spec.condition,
        assessment.outcome,
        is_same_series=memory.fingerprint == run.fingerprint,
    )
    if is_lost:
        assessment = replace(assessment, explanation=REFERENCE_LOST)
    return Assessed(
        value_spec=value_spec,
        assessment=assessment,
        step=step,
        is_relative=is_relative,
        is_reference_lost=is_lost or (step is not None and step.is_reference_lost),
    )


def _next_step(
    spec: RuleSpec,
    state: SeriesState,
    run: PastRun,
    series: SeriesInput | None,
    false_pages: float,
) -> SeriesStep | None:
    """None for a run without a level: it changes nothing."""
    if series is None or run.seq not in series.levels or series.side is Side.BOTH:
        return None
    # Of these runs only: others say nothing to the rule, and a backtest may have read more than a new run.
    levels = {seq: series.levels[seq] for seq in (*state.runs, run.seq) if seq in series.levels}
    return decide_step(
        state,
        levels,
        run.seq,
        series.scale,
        series.side,
        spec,
        false_pages,
    )


def _assess_series(
    value_spec: ValueSpec, alone: Assessment, step: SeriesStep | None, *, is_relative: bool
) -> Assessment:
    if alone.outcome is AlertOutcome.NO_DATA:
        return alone
    if step is None:
        # Without a level there is no evidence, and the verdict of the run alone must not page.
        return replace(alone, outcome=AlertOutcome.WARMUP)
    # The levels are logarithms on this scale, whatever the unit of the value is.
    spec = replace(value_spec, logarithmic=is_relative)
    return assess_evidence(spec, alone, step.evidence)


def remember(
    spec: RuleSpec, memory: Memory, run: PastRun, assessed: Assessed, now: datetime
) -> tuple[Memory, StateChange]:
    """What a rule remembers after a run, and the change of its state."""
    change = _next_change(spec, memory.state, assessed, now)
    before, after = memory.state, change.state
    clear_seq = run.seq if after.clears and not before.clears else memory.clear_seq
    excluded = memory.excluded
    if before.open and not after.open and spec.condition.uses_history and memory.breach_seq:
        # A run that cannot be compared begins a new history; the bad runs before it stay what they are.
        end = run.seq if assessed.is_reference_lost else clear_seq or run.seq
        excluded = bound_spans((*excluded, RunSpan(memory.breach_seq, end)))
    is_bad = after.open or after.breaches > 0
    started = memory.breach_seq or run.seq
    if assessed.step is not None and assessed.step.state.incident is not None:
        started = assessed.step.state.incident.started
    return (
        replace(
            memory,
            run_seq=run.seq,
            run_id=run.id,
            state=after,
            series=memory.series if assessed.step is None else assessed.step.state,
            excluded=excluded,
            breach_seq=started if is_bad else None,
            clear_seq=clear_seq if after.open and after.clears else None,
            fingerprint=(memory.fingerprint if before.open else run.fingerprint)
            if after.open
            else None,
        ),
        change,
    )


def _next_change(
    spec: RuleSpec, before: RuleState, assessed: Assessed, now: datetime
) -> StateChange:
    if assessed.step is not None:
        return advance_by_evidence(before, assessed.step.evidence, spec, now)
    if assessed.is_reference_lost and before.open:
        return advance(before, AlertOutcome.HEALTHY, replace(spec, keep_firing_for_runs=0), now)
    return advance(before, assessed.assessment.outcome, spec, now)


def late_change(
    spec: RuleSpec, memory: Memory, run: PastRun, assessed: Assessed, now: datetime
) -> AlertEventState | None:
    """LATE for a late run that would have paged in its own night. A rescored run is no news."""
    _, change = remember(spec, memory, run, assessed, now)
    is_page = change.notification in (AlertEventState.FIRING, AlertEventState.WORSE)
    return AlertEventState.LATE if is_page and run.has_new_data else None


def result_of(assessment: Assessment, state: RuleState) -> RuleOutcome:
    """What a rule made of a run with new data, with the state after it."""
    match assessment.outcome:
        case AlertOutcome.BREACH:
            return RuleOutcome.FIRED if state.open else RuleOutcome.PENDING
        case AlertOutcome.HEALTHY:
            return RuleOutcome.NO_BREACH
        case AlertOutcome.WARMUP:
            return RuleOutcome.NO_HISTORY
        case _:
            return RuleOutcome.NO_VALUE


def explain_run(
    result: RuleOutcome,
    alone: str,
    state: AlertStatus,
    *,
    same_data_at: datetime | None = None,
    is_rescored: bool = False,
) -> str:
    """The explanation of an evaluation; `alone` is that of the condition."""
    if result is RuleOutcome.SAME_DATA:
        earlier = f"the run of {format_utc(same_data_at)}" if same_data_at else "an earlier run"
        reason = f"The run has the same data as {earlier}: the state stays {state}."
    elif result is RuleOutcome.LATE:
        cause = "scores an earlier run again" if is_rescored else "ended after a later one"
        reason = f"The run {cause}: it is judged for its own night, and the state stays {state}."
    else:
        return alone
    return f"{alone} {reason}".strip()
