"""Tests of alert rules: on the newest runs, over stored history, with a message to recipients."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.alerts import queries
from mosaico.alerts.backtest import BacktestRun, Replay, replay
from mosaico.alerts.backtest_schemas import (
    BacktestCoverageView,
    BacktestRequest,
    BacktestView,
    ReplayedRunView,
    RuleTestAssessment,
    RuleTestView,
)
from mosaico.alerts.evaluation.rule_evidence import series_name
from mosaico.alerts.evaluation.run_evaluation import default_false_pages, read_budget
from mosaico.alerts.evaluation.series_decision import level_of_measurement
from mosaico.alerts.evaluation.value_history import MeasurementHistory
from mosaico.alerts.evaluation.watched_values import RuleTarget
from mosaico.alerts.messages import render_rule_test
from mosaico.alerts.models import AlertRule
from mosaico.alerts.publishing import benchmark_name
from mosaico.alerts.rule_service import validate_rule, with_defaults
from mosaico.alerts.rules import AlertEventState, AlertOutcome, Condition
from mosaico.alerts.schemas import rule_spec
from mosaico.comparison.stored_run_comparison import series_levels_in_child
from mosaico.core.db import Database
from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.resources import Resources
from mosaico.core.schemas import all_fields
from mosaico.kpis.series_types import SeriesState
from mosaico.notifications.service import publish
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.run_history import PastRun, list_agents_with_runs, list_ended_runs
from mosaico.statistics.sequential import RunLevel

MAX_RUNS = 1000
SERIES_CONDITIONS = (Condition.REGRESSED, Condition.ANOMALY_DETECTED)


class RuleHistory:
    """The runs of one agent with the values that a rule watches."""

    def __init__(
        self,
        session: Session,
        rule: AlertRule,
        agent_id: str,
        since: datetime | None = None,
        *,
        false_pages: float,
    ) -> None:
        self.agent_id = agent_id
        self.runs = list_ended_runs(
            session, rule.benchmark_id, agent_id, since=since, limit=MAX_RUNS
        )
        self._rule = rule
        self._spec = rule_spec(rule)
        self._name = rule.metric or rule.name
        self._false_pages = false_pages
        self._measurements = MeasurementHistory(session, self.runs).measurements(
            RuleTarget.of(rule.kpi, rule.metric)
        )

    def replay(self, db: Database) -> Replay:
        """Judge the runs; computes, so call it outside of any transaction.

        Raises: `ComparisonBusy`, `ComparisonFailed`.
        """
        stored = self._stored_levels(db)
        fingerprints = {past.seq: past.fingerprint for past in self.runs}

        def levels_of(series: SeriesState, run: PastRun) -> dict[int, RunLevel]:
            seqs = {seq for seq in series.runs if fingerprints.get(seq) == run.fingerprint}
            levels = (stored.get(seq) or self._level_of_value(seq) for seq in {*seqs, run.seq})
            return {level.run: level for level in levels if level is not None}

        return replay(
            self._spec, self._name, self.runs, self._measurements, levels_of, self._false_pages
        )

    def _stored_levels(self, db: Database) -> dict[int, RunLevel]:
        """The levels of the valid runs over their items, as new runs are judged."""
        has_series = RuleTarget.of(self._rule.kpi, self._rule.metric).has_series
        if not (has_series and self._spec.condition in SERIES_CONDITIONS):
            return {}
        groups: dict[str | None, list[int]] = defaultdict(list)
        for run in self.runs:
            if run.is_valid:
                groups[run.fingerprint].append(run.seq)
        return series_levels_in_child(db, series_name(self._rule), list(groups.values()))

    def _level_of_value(self, seq: int) -> RunLevel | None:
        """The level of a run whose items are not stored."""
        measurement = self._measurements.get(seq)
        return level_of_measurement(seq, measurement) if measurement else None

    def backtest(self, since: datetime, db: Database) -> BacktestView:
        """The replay with how much history there was and how many alerts it would have sent."""
        replayed = self.replay(db)
        outcomes = replayed.outcomes()
        failed = sum(run.status == RunStatus.FAILED for run in self.runs)
        valid = sum(run.is_valid for run in self.runs)
        return BacktestView(
            agent_id=self.agent_id,
            since=since,
            coverage=BacktestCoverageView(
                runs=len(self.runs),
                valid=valid,
                failed=failed,
                invalid=len(self.runs) - failed - valid,
                with_value=outcomes[AlertOutcome.BREACH] + outcomes[AlertOutcome.HEALTHY],
                no_data=outcomes[AlertOutcome.NO_DATA],
                warmup=outcomes[AlertOutcome.WARMUP],
            ),
            fired=replayed.count_notifications(AlertEventState.FIRING),
            resolved=replayed.count_notifications(AlertEventState.RESOLVED),
            no_data=replayed.count_notifications(AlertEventState.NO_DATA),
            false_alarms_per_month=replayed.false_alarms_per_month(),
            min_detectable_effect=replayed.min_detectable_effect(self._spec),
            paged_run_ids=replayed.paged_runs,
            runs=[_replayed_run_view(run) for run in replayed.runs],
        )


def backtest_rule(body: BacktestRequest, res: Resources) -> BacktestView:
    """Replay a rule over stored runs. The replay computes and so runs outside of any transaction.

    Raises: as saving the rule would; `AgentNotFound`, `ComparisonBusy`, `ComparisonFailed`.
    """
    since = res.clock() - timedelta(days=body.days)
    with res.db.read() as session:
        rule = _requested_rule(session, body)
        if body.agent_id is not None:
            get_agent(session, body.agent_id)
        agent_id = body.agent_id or rule.agent_id or _only_agent(session, rule.benchmark_id)
        false_pages = default_false_pages(session, read_budget(res.options))
        history = RuleHistory(session, rule, agent_id, since, false_pages=false_pages)
    return history.backtest(since, res.db)


def try_rule(rule_id: str, res: Resources) -> RuleTestView:
    """Assess the newest run of each agent, and send the recipients of the rule a test message."""
    with res.db.read() as session:
        false_pages = default_false_pages(session, read_budget(res.options))
        histories = _newest_histories(session, queries.get_rule(session, rule_id), false_pages)
    assessments = _assess_newest(histories, res.db)
    with res.db.begin() as session:
        return _send_test(session, queries.get_rule(session, rule_id), assessments)


def _newest_histories(session: Session, rule: AlertRule, false_pages: float) -> list[RuleHistory]:
    """Return the history of each agent that a rule watches."""
    agent_ids = (
        [rule.agent_id] if rule.agent_id else list_agents_with_runs(session, rule.benchmark_id)
    )
    return [RuleHistory(session, rule, agent_id, false_pages=false_pages) for agent_id in agent_ids]


def _assess_newest(histories: Sequence[RuleHistory], db: Database) -> list[RuleTestAssessment]:
    """The assessment of the newest valid run of each agent."""
    assessments = []
    for history in histories:
        valid_runs = [replayed for replayed in history.replay(db).runs if replayed.assessment]
        if valid_runs and (assessment := valid_runs[-1].assessment):
            assessments.append(
                RuleTestAssessment(
                    agent_id=history.agent_id,
                    run_id=valid_runs[-1].run.id,
                    outcome=assessment.outcome,
                    value=assessment.value,
                    baseline=assessment.baseline,
                    explanation=assessment.explanation,
                )
            )
    return assessments


def _send_test(
    session: Session, rule: AlertRule, assessments: list[RuleTestAssessment]
) -> RuleTestView:
    """Send a test message with the current assessments to the recipients of a rule."""
    sentences = [
        f"{get_agent(session, assessment.agent_id).name}: {assessment.explanation}"
        for assessment in assessments
    ]
    name = benchmark_name(session, rule.benchmark_id)
    message = render_rule_test(rule.id, rule.name, name, sentences)
    notification_id = publish(session, message, rule.endpoints)
    return RuleTestView(assessments=assessments, notification_id=notification_id)


def _requested_rule(session: Session, body: BacktestRequest) -> AlertRule:
    """The stored rule of a backtest, or its draft as a rule that is not stored."""
    if (body.alert_config_id is None) == (body.rule is None):
        raise Invalid(
            "send either the ID of an alert rule or an alert rule",
            errors=[ErrorItem(pointer="/rule", detail="send it or `alertConfigId`, not both")],
        )
    if body.rule is None:
        assert body.alert_config_id is not None
        return queries.get_rule(session, body.alert_config_id)
    values = all_fields(body.rule)
    recipients = values.pop("recipients")
    rule = AlertRule(**with_defaults(values, values["condition"]), endpoints=[])
    validate_rule(session, rule, recipients)
    return rule


def _only_agent(session: Session, benchmark_id: str) -> str:
    agent_ids = list_agents_with_runs(session, benchmark_id)
    if len(agent_ids) != 1:
        runs = f"has runs of {', '.join(agent_ids)}" if agent_ids else "has no runs yet"
        raise Invalid(
            f"the rule applies to every agent, and the benchmark {runs}; send the ID of the "
            "agent to backtest",
            errors=[
                ErrorItem(
                    pointer="/agentId",
                    detail="is required for a rule of every agent; send the ID of an agent",
                )
            ],
        )
    return agent_ids[0]


def _replayed_run_view(replayed: BacktestRun) -> ReplayedRunView:
    assessment = replayed.assessment
    anomaly = assessment.details.anomaly if assessment else None
    return ReplayedRunView(
        run_id=replayed.run.id,
        completed_at=replayed.run.completed_at,
        outcome=assessment.outcome if assessment else None,
        state=replayed.change.state.status,
        notified=replayed.change.notification,
        value=assessment.value if assessment else None,
        baseline=assessment.baseline if assessment else None,
        expected_low=anomaly.expected_low if anomaly else None,
        expected_high=anomaly.expected_high if anomaly else None,
        explanation=assessment.explanation if assessment else _explain_skipped(replayed.run),
    )


def _explain_skipped(run: PastRun) -> str:
    problem = "failed" if run.status == RunStatus.FAILED else "is not valid"
    return f"The run {problem}, so it does not change the state of the rule."
