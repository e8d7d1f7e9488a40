"""Tests of alert rules: on the newest runs, over stored history, with a message to recipients."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.alerts import queries
from mosaico.alerts.backtest import Replay
from mosaico.alerts.backtest_schemas import (
    BacktestCoverageView,
    BacktestRequest,
    BacktestView,
    ReplayedRunView,
    RuleTestAssessment,
    RuleTestView,
)
from mosaico.alerts.evaluation.judging import Judge, RuleEvaluation, explain_run
from mosaico.alerts.evaluation.rule_history import RuleHistory, RunHistoryReader
from mosaico.alerts.evaluation.run_evaluation import read_false_pages
from mosaico.alerts.messages import render_rule_test
from mosaico.alerts.models import AlertRule
from mosaico.alerts.publishing import benchmark_name
from mosaico.alerts.rule_service import validate_rule, with_defaults
from mosaico.alerts.rules import AlertEventState, AlertOutcome, RuleSpec
from mosaico.alerts.schemas import rule_spec
from mosaico.core.db import Database
from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.resources import Resources
from mosaico.core.schemas import all_fields
from mosaico.notifications.service import publish
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.run_history import list_agents_with_runs


class RuleReplay(NamedTuple):
    """A rule with the runs of one agent that it replays."""

    history: RuleHistory
    false_pages: float

    @property
    def spec(self) -> RuleSpec:
        return rule_spec(self.history.rule)

    def replay(self, db: Database) -> list[RuleEvaluation]:
        """What the rule makes of each run; computes, so call it outside of any transaction.

        Raises: `ComparisonBusy`, `ComparisonFailed`.
        """
        judge = Judge(self.spec, self.history.values(db), false_pages=self.false_pages)
        return judge.replay(self.history.runs)

    def backtest(self, since: datetime, db: Database) -> BacktestView:
        """The replay since a time, with how much history there was and how many alerts it would have sent."""
        evaluations = self.replay(db)
        replayed = Replay(runs=[each for each in evaluations if each.run.completed_at >= since])
        outcomes = replayed.outcomes()
        runs = [each.run for each in replayed.runs]
        failed = sum(run.status == RunStatus.FAILED for run in runs)
        valid = sum(run.is_valid for run in runs)
        return BacktestView(
            agent_id=self.history.agent_id,
            since=since,
            coverage=BacktestCoverageView(
                runs=len(runs),
                valid=valid,
                failed=failed,
                invalid=len(runs) - failed - valid,
                with_value=outcomes[AlertOutcome.BREACH] + outcomes[AlertOutcome.HEALTHY],
                no_data=outcomes[AlertOutcome.NO_DATA],
                warmup=outcomes[AlertOutcome.WARMUP],
            ),
            fired=replayed.count_notifications(AlertEventState.FIRING),
            resolved=replayed.count_notifications(AlertEventState.RESOLVED),
            no_data=replayed.count_notifications(AlertEventState.NO_DATA),
            false_alarms_per_month=replayed.false_alarms_per_month(),
            min_detectable_effect=replayed.min_detectable_effect(self.spec),
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
        # Also the runs before the period: the rule knows them, as it would know them live.
        history = RunHistoryReader(session, rule.benchmark_id, agent_id).read(rule)
    return RuleReplay(history, read_false_pages(res.options)).backtest(since, res.db)


def try_rule(rule_id: str, res: Resources) -> RuleTestView:
    """Assess the newest run of each agent, and send the recipients of the rule a test message."""
    with res.db.read() as session:
        histories = _newest_histories(session, queries.get_rule(session, rule_id))
    false_pages = read_false_pages(res.options)
    replays = [RuleReplay(history, false_pages) for history in histories]
    assessments = _assess_newest(replays, res.db)
    with res.db.begin() as session:
        return _send_test(session, queries.get_rule(session, rule_id), assessments)


def _newest_histories(session: Session, rule: AlertRule) -> list[RuleHistory]:
    """Return the history of each agent that a rule watches."""
    agent_ids = (
        [rule.agent_id] if rule.agent_id else list_agents_with_runs(session, rule.benchmark_id)
    )
    return [
        RunHistoryReader(session, rule.benchmark_id, agent_id).read(rule) for agent_id in agent_ids
    ]


def _assess_newest(replays: Sequence[RuleReplay], db: Database) -> list[RuleTestAssessment]:
    """The assessment of the last valid run of each agent whose condition was evaluated."""
    assessments = []
    for replay in replays:
        valid_runs = [evaluation for evaluation in replay.replay(db) if evaluation.assessment]
        if valid_runs and (assessment := valid_runs[-1].assessment):
            assessments.append(
                RuleTestAssessment(
                    agent_id=replay.history.agent_id,
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


def _replayed_run_view(replayed: RuleEvaluation) -> ReplayedRunView:
    assessment = replayed.assessment
    anomaly = assessment.details.anomaly if assessment else None
    return ReplayedRunView(
        run_id=replayed.run.id,
        completed_at=replayed.run.completed_at,
        result=replayed.result,
        outcome=assessment.outcome if assessment else None,
        state=replayed.change.state.status,
        notified=replayed.change.notification,
        value=assessment.value if assessment else None,
        baseline=assessment.baseline if assessment else None,
        expected_low=anomaly.expected_low if anomaly else None,
        expected_high=anomaly.expected_high if anomaly else None,
        explanation=_explain(replayed),
    )


def _explain(replayed: RuleEvaluation) -> str:
    if replayed.result is None:
        problem = "failed" if replayed.run.status == RunStatus.FAILED else "is not valid"
        return f"The run {problem}, so it does not change the state of the rule."
    alone = replayed.assessment.explanation if replayed.assessment else ""
    return explain_run(
        replayed.result,
        alone,
        replayed.memory.state.status,
        is_rescored=replayed.run.is_rescored,
    )
