"""What a run means for the alert rules about it; decided from stored rows, before any write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from sqlalchemy.orm import Session

from app.alerts import queries
from app.alerts.conditions import assess_evidence, evaluate_condition
from app.alerts.details import Confirmation, ContributingTrace
from app.alerts.incident_rules import SeriesStep, needs_confirmation
from app.alerts.models import AlertRule, AlertState
from app.alerts.queries import ValueSeries
from app.alerts.rules import (
    AlertOutcome,
    Assessment,
    Condition,
    Observation,
    RuleSpec,
    ValueSpec,
)
from app.alerts.schemas import rule_spec
from app.alerts.series_decision import decide_step
from app.alerts.value_history import MAX_TRACES, MeasurementHistory
from app.alerts.watched_values import RuleTarget, RunSpan, measure, observe
from app.core.db import Database
from app.core.errors import AppError, Unavailable
from app.formula import compile_formula
from app.kpis.series_types import SeriesState
from app.metrics.registry import column_of
from app.results.plan import RunPlan, describe_changes
from app.results.run_history import (
    PastRun,
    find_repeated_run,
    list_changed_traces,
    list_comparable_runs,
    read_plan,
)
from app.results.run_result import RunResult
from app.results.run_series import (
    SeriesJudgment,
    find_series_state,
    kpi_series,
    metric_series,
)
from app.statistics.anomaly import WINDOW
from app.statistics.sequential import DEFAULT_FALSE_PAGES, MAX_REFERENCE
from app.statistics.verdict_rules import Scale, Side
from app.traces.registry import TRACE_SOURCES

TRACES_PER_METRIC = 5
MAX_METRICS = 3

ContributingTraces = tuple[ContributingTrace, ...]


class RunFields(Protocol):
    """The fields of the run that changes a state."""

    @property
    def run_id(self) -> str: ...
    @property
    def run_seq(self) -> int: ...
    @property
    def benchmark_id(self) -> str: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def fingerprint(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDecision:
    """What a run says about one revision of a rule.

    `seen_seq` is the run after which the state of the rule was read; None: the state was not needed.
    `step` is the next state of the series of a REGRESSED rule. With `is_reference_lost` the run can
    no longer be compared with those before the open incident. With `wants_confirmation` the run is
    repeated first; `series_before` is the state of the series without it.
    """

    rule_id: str
    revision: int
    assessment: Assessment
    seen_seq: int | None = None
    step: SeriesStep | None = None
    series_before: SeriesState | None = None
    wants_confirmation: bool = False
    is_reference_lost: bool = False


class RuleObservation(NamedTuple):
    """A rule with the value it watches in the run and in the runs before."""

    rule: AlertRule
    value_spec: ValueSpec
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvidence:
    """Everything that is read to judge a run by one rule.

    `judgment` has the levels of the run and of the runs of `series`, the state of a REGRESSED rule;
    None for a value without levels. `open_fingerprint` is that of the open
    incident. `previous` is the last run of the history, and `changes` says what a person may have
    changed since then.
    """

    watched: RuleObservation
    seen_seq: int
    series: SeriesState
    judgment: SeriesJudgment | None
    open_fingerprint: str | None
    previous: PastRun | None
    changes: tuple[str, ...]


class AlertEvaluationService:
    """Judges runs by the rules about them. It only reads; `service.record_decisions` writes.

    `false_pages_budget` is the number of false pages in 30 runs of all series together; None: each
    series promises 0.25.
    """

    def __init__(self, db: Database, false_pages_budget: float | None = None) -> None:
        self._db = db
        self._budget = false_pages_budget

    def evaluate_alerts_for_run(self, result: RunResult) -> list[AlertDecision]:
        """The decision of each enabled rule; call it before the run is stored as completed.

        There are none for an invalid run: its numbers say nothing about the agent.
        """
        if not result.is_valid:
            return []
        with self._db.read() as session:
            repeated = find_repeated_run(session, result.run_seq)
            if repeated is not None:
                return self._evaluate_confirmation(session, result, repeated)
            rules = queries.list_enabled_rules(session, result.benchmark_id, result.agent_id)
            # Most runs have no rules: their history is not read.
            if not rules:
                return []
            promise = default_promise(session, self._budget)
            reader = _HistoryReader(session, result)
            histories = [reader.read(rule) for rule in rules]
        # From here on no transaction is open: anomaly statistics over the history take a while.
        traces = _TraceFinder(self._db, result)
        return [self._decide(history, result, promise, traces) for history in histories]

    def _evaluate_confirmation(
        self, session: Session, result: RunResult, repeated: PastRun
    ) -> list[AlertDecision]:
        """What a suspicious run and its repetition, whose result is given, say together."""
        promise = default_promise(session, self._budget)
        rules = queries.list_enabled_rules(session, result.benchmark_id, result.agent_id)
        decisions = []
        for rule in rules:
            state = queries.get_state(session, rule.id, result.agent_id)
            judgment = result.series.get(series_name(rule))
            confirmation = state.confirmation if state is not None else None
            if state is None or confirmation is None or judgment is None:
                continue
            if confirmation.run_id != repeated.id or repeated.seq not in judgment.levels:
                continue
            spec = rule_spec(rule)
            series = state.series or SeriesState()
            step = decide_step(
                series,
                judgment.levels,
                repeated.seq,
                judgment.point.scale,
                judgment.point.side,
                None,
                spec,
                promise,
            )
            decisions.append(
                AlertDecision(
                    rule_id=rule.id,
                    revision=rule.revision,
                    assessment=_assess_joint(confirmation, step, judgment),
                    step=step,
                )
            )
        return decisions

    def _decide(
        self, history: RuleEvidence, result: RunResult, promise: float, traces: "_TraceFinder"
    ) -> AlertDecision:
        rule, value_spec, observation = history.watched
        spec = rule_spec(rule)
        assessment = evaluate_condition(spec, value_spec, observation)
        step = None
        if spec.condition is Condition.REGRESSED and observation.value is not None:
            step = _next_step(history, result.run_seq, spec, promise)
            assessment = _assess_series(value_spec, assessment, step, history.judgment)
        columns = _watched_columns(rule, result)[:MAX_METRICS]
        details = assessment.details.model_copy(
            update={
                "value_name": value_spec.name,
                "unit": value_spec.unit,
                "is_share": value_spec.is_share,
                "is_relative": step is not None and _is_relative(history.judgment),
                "changes": history.changes,
                "traces": traces.find(rule, assessment, columns, history.previous),
            }
        )
        is_lost = (
            history.open_fingerprint is not None
            and history.open_fingerprint != result.fingerprint
            and assessment.outcome is AlertOutcome.WARMUP
        )
        return AlertDecision(
            rule_id=rule.id,
            # The revision that was read: `record_decisions` drops the decision if the rule was
            # edited meanwhile.
            revision=rule.revision,
            assessment=replace(assessment, details=details),
            seen_seq=history.seen_seq if spec.condition.excludes_incidents else None,
            step=step,
            series_before=history.series,
            wants_confirmation=step is not None
            and rule.confirm_runs
            and needs_confirmation(step.evidence)
            and _can_repeat(result.plan.source),
            is_reference_lost=is_lost or (step is not None and step.is_reference_lost),
        )


FALSE_PAGES_OPTION = "false_pages_per_month"


def read_budget(options: Mapping[str, str]) -> float | None:
    """The budget of false pages among the options of the service; None without one."""
    text = options.get(FALSE_PAGES_OPTION, "")
    return float(text) if text else None


def default_promise(session: Session, budget: float | None) -> float:
    """The false pages in 30 runs of one series, for rules that set none."""
    if budget is None:
        return DEFAULT_FALSE_PAGES
    return min(DEFAULT_FALSE_PAGES, budget / max(1, queries.count_series(session)))


class _HistoryReader:
    """Reads the histories of rules about one run; each value is read once for all of its rules."""

    def __init__(self, session: Session, result: RunResult) -> None:
        self._session = session
        self._result = result
        self._spans: dict[ValueSeries, list[RunSpan]] = {}
        self._plans: dict[int, RunPlan | None] = {}
        self._histories: dict[tuple[RunSpan, ...], tuple[list[PastRun], MeasurementHistory]] = {}

    def read(self, rule: AlertRule) -> RuleEvidence:
        session, result = self._session, self._result
        state = queries.get_state(session, rule.id, result.agent_id)
        key = ValueSeries(result.benchmark_id, result.agent_id, rule.kpi, rule.metric)
        if key not in self._spans:
            self._spans[key] = queries.excluded_runs(session, key)
        past, measurements = self._history(tuple(self._spans[key]))
        return RuleEvidence(
            watched=_observe(rule, result, past, measurements),
            seen_seq=state.run_seq if state is not None else 0,
            series=self._series(rule, state, past),
            judgment=self._result.series.get(series_name(rule)),
            open_fingerprint=self._open_fingerprint(state),
            previous=past[-1] if past else None,
            changes=self._changes(past[-1]) if past else (),
        )

    def _changes(self, previous: PastRun) -> tuple[str, ...]:
        if previous.seq not in self._plans:
            self._plans[previous.seq] = read_plan(self._session, previous.seq)
        earlier = self._plans[previous.seq]
        return describe_changes(earlier, self._result.plan) if earlier is not None else ()

    def _history(self, spans: tuple[RunSpan, ...]) -> tuple[list[PastRun], MeasurementHistory]:
        if spans not in self._histories:
            past = list_comparable_runs(
                self._session,
                self._result.benchmark_id,
                self._result.agent_id,
                fingerprint=self._result.fingerprint,
                before=self._result.run_seq,
                # The reference of a series has at most so many runs; all others look at fewer.
                limit=MAX_REFERENCE,
                excluded=spans,
            )
            # Anomaly detection looks at no more runs.
            self._histories[spans] = past, MeasurementHistory(self._session, past[-WINDOW:])
        return self._histories[spans]

    def _series(
        self, rule: AlertRule, state: AlertState | None, past: Sequence[PastRun]
    ) -> SeriesState:
        """The series of a rule; a new rule starts with the runs that exist already."""
        if rule.condition != Condition.REGRESSED:
            return SeriesState()
        # The repetition of the run before is late: that run counts as it was alone.
        if state is not None and state.confirmation is not None:
            return state.confirmation.state
        if state is not None and state.series is not None:
            return state.series
        runs = [run.seq for run in past]
        stored = find_series_state(self._session, series_name(rule), runs)
        return stored if stored.runs else SeriesState(levels=(tuple(runs),))

    def _open_fingerprint(self, state: AlertState | None) -> str | None:
        if state is None or state.incident_id is None:
            return None
        return queries.get_incident(self._session, state.incident_id).fingerprint


class _TraceFinder:
    """Finds the traces behind a breach; each metric is read once, however many rules breach."""

    def __init__(self, db: Database, result: RunResult) -> None:
        self._db = db
        self._result = result
        self._traces: dict[tuple[str, int | None, bool], ContributingTraces] = {}

    def find(
        self,
        rule: AlertRule,
        assessment: Assessment,
        columns: Sequence[str],
        previous: PastRun | None,
    ) -> ContributingTraces:
        # Larger runs are skipped: the query would read every trace of two runs for an illustration.
        if assessment.outcome is not AlertOutcome.BREACH or self._result.trace_count > MAX_TRACES:
            return ()
        fell = _value_fell(Condition(rule.condition), assessment)
        previous_seq = previous.seq if previous else None
        return tuple(
            trace
            for column in columns
            for trace in self._of_column(column, previous_seq, fell=fell)
        )

    def _of_column(
        self, column: str, previous_seq: int | None, *, fell: bool
    ) -> ContributingTraces:
        key = (column, previous_seq, fell)
        if key not in self._traces:
            with self._db.read() as session:
                traces = list_changed_traces(
                    session,
                    column,
                    self._result.run_seq,
                    previous_seq,
                    fell=fell,
                    limit=TRACES_PER_METRIC,
                )
            self._traces[key] = tuple(
                ContributingTrace(metric=column, **trace._asdict()) for trace in traces
            )
        return self._traces[key]


def _observe(
    rule: AlertRule, result: RunResult, past: Sequence[PastRun], history: MeasurementHistory
) -> RuleObservation:
    """The watched value with its history. A value that cannot be computed (its metric was removed,
    say) counts as no data: a rule never fails a run.
    """
    target, value_spec = RuleTarget.of(rule.kpi, rule.metric), ValueSpec(name=rule.name)
    with_items = rule.condition == Condition.ANOMALY_DETECTED
    try:
        measurement = measure(target, result)
        measurements = history.measurements(target, with_items=with_items)
    except Unavailable:  # the database is away: the job is tried again
        raise
    except AppError as error:
        return RuleObservation(rule, value_spec, Observation(value=None, reason=error.detail))
    observation = observe(measurement, result.fingerprint, past, measurements)
    return RuleObservation(rule, measurement.spec if measurement else value_spec, observation)


def series_name(rule: AlertRule) -> str:
    """The name of the series that a rule watches; only the mean of a metric has one."""
    target = RuleTarget.of(rule.kpi, rule.metric)
    if target.kpi_id is not None:
        return kpi_series(target.kpi_id)
    assert target.metric is not None, "checked when the rule was saved"
    return metric_series(column_of(target.metric.key))


def _next_step(
    history: RuleEvidence, run_seq: int, spec: RuleSpec, promise: float
) -> SeriesStep | None:
    """None for a run without a level: it changes nothing."""
    judgment = history.judgment
    if judgment is None or run_seq not in judgment.levels or judgment.point.side is Side.BOTH:
        return None
    return decide_step(
        history.series,
        judgment.levels,
        run_seq,
        judgment.point.scale,
        judgment.point.side,
        history.watched.observation.verdict,
        spec,
        promise,
    )


def _can_repeat(source: str) -> bool:
    """Whether a source makes the traces of a run itself, so that it can make them again."""
    spec = TRACE_SOURCES.find(source)
    return spec is not None and spec.runs_models


def _assess_joint(
    confirmation: Confirmation, step: SeriesStep, judgment: SeriesJudgment
) -> Assessment:
    details = confirmation.details
    alone = Assessment(
        outcome=AlertOutcome.WARMUP,
        value=confirmation.value,
        baseline=confirmation.baseline,
        explanation=confirmation.explanation,
        details=details,
    )
    value_spec = ValueSpec(
        name=details.value_name or "the value",
        is_share=details.is_share,
        logarithmic=_is_relative(judgment),
        unit=details.unit,
    )
    return assess_evidence(value_spec, alone, step.evidence)


def _is_relative(judgment: SeriesJudgment | None) -> bool:
    return judgment is not None and judgment.point.scale is Scale.RATIO


def _assess_series(
    value_spec: ValueSpec,
    alone: Assessment,
    step: SeriesStep | None,
    judgment: SeriesJudgment | None,
) -> Assessment:
    if step is None or judgment is None:
        return replace(alone, outcome=AlertOutcome.WARMUP)
    # The levels are logarithms on this scale, whatever the unit of the value is.
    spec = replace(value_spec, logarithmic=_is_relative(judgment))
    return assess_evidence(spec, alone, step.evidence)


def _watched_columns(rule: AlertRule, result: RunResult) -> list[str]:
    """The metrics behind the value that a rule watches."""
    target = RuleTarget.of(rule.kpi, rule.metric)
    if target.metric is not None:
        return [column_of(target.metric.key)]
    formulas = [value.kpi.formula for value in result.kpis if value.kpi.id == target.kpi_id]
    return sorted(
        {column_of(ref.key) for formula in formulas for ref in compile_formula(formula).references}
    )


def _value_fell(condition: Condition, assessment: Assessment) -> bool:
    """Whether the breach is a value that fell, so that traces with lower values explain it."""
    if condition in (Condition.LESS_THAN, Condition.PERCENTAGE_DROP):
        return True
    if assessment.value is None or assessment.baseline is None:
        # Without a baseline the direction of the condition decides.
        return condition is not Condition.GREATER_THAN
    return assessment.value < assessment.baseline
