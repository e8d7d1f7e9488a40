"""Rules tried out: on the newest runs, on stored history, on their recipients."""

import sys
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from app.agents.queries import get_agent
from app.alerts import queries
from app.alerts.alert_rules import check_config
from app.alerts.backtest import Replay, ReplayedRun, replay
from app.alerts.history import (
    PastRun,
    Source,
    StoredValues,
    confirmed_stretches,
    past_runs,
)
from app.alerts.messages import trial_message
from app.alerts.models import AlertConfig
from app.alerts.rules import AlertState, Condition, Outcome
from app.alerts.schemas import (
    BacktestRequest,
    BacktestView,
    CoverageView,
    ReplayedRunView,
    TrialAssessment,
    TrialView,
    rule_of,
)
from app.core.errors import ErrorItem, Invalid
from app.core.schemas import all_fields
from app.notifications.service import publish

MOST_RUNS = 1000
NEVER = sys.maxsize
NOT_VALID = "The run {}: it says nothing about the rule, which stays as it was."


class History:
    """The runs of one agent and what they say about one rule; a stored one takes what it told and
    was acknowledged as true for normal no more than it did.
    """

    def __init__(
        self, session: Session, config: AlertConfig, agent_id: str, first: datetime | None = None
    ) -> None:
        self.agent_id = agent_id
        self.runs = past_runs(
            session,
            config.benchmark_id,
            agent_id,
            before=NEVER,
            everything=True,
            since=first,
            most=MOST_RUNS,
        )
        self._rule = rule_of(config)
        stored = [config.id] if config.id else []
        self._confirmed = confirmed_stretches(session, stored, agent_id).get(config.id, [])
        self._name = config.metric or config.name
        source = Source.of(config.kpi, config.metric)
        self._readings = StoredValues(session, self.runs).readings(
            source, with_items=self._rule.condition is Condition.ANOMALY_DETECTED
        )

    def replay(self) -> Replay:
        """What the rule would have made of them; computes, so outside of any transaction."""
        return replay(self._rule, self._name, self.runs, self._readings, self._confirmed)

    def backtest(self, first: datetime) -> BacktestView:
        done = self.replay()
        outcomes = done.outcomes()
        return BacktestView(
            agent_id=self.agent_id,
            since=first,
            coverage=CoverageView(
                runs=len(self.runs),
                valid=sum(run.is_valid for run in self.runs),
                failed=sum(run.status == "FAILED" for run in self.runs),
                invalid=sum(run.status != "FAILED" and not run.is_valid for run in self.runs),
                with_value=outcomes[Outcome.BREACH] + outcomes[Outcome.HEALTHY],
                no_data=outcomes[Outcome.NO_DATA],
                learning=outcomes[Outcome.LEARNING],
            ),
            fired=done.told(AlertState.FIRING),
            resolved=done.told(AlertState.RESOLVED),
            no_data=done.told(AlertState.NO_DATA),
            false_alarms_per_month=done.false_alarms_per_month(),
            smallest_visible=done.smallest_visible(self._rule),
            runs=[_replayed_view(each) for each in done.runs],
        )


def backtest_history(session: Session, body: BacktestRequest, now: datetime) -> History:
    """The history that a request asks for. Raises: as saving the rule would, and `AgentNotFound`."""
    config = _config_of(session, body)
    if body.agent_id is not None:
        get_agent(session, body.agent_id)
    agent_id = body.agent_id or config.agent_id or _only_agent(session, config.benchmark_id)
    return History(session, config, agent_id, since(body, now))


def since(body: BacktestRequest, now: datetime) -> datetime:
    """Where the history begins that a request asks for."""
    return now - timedelta(days=body.days)


def newest_histories(session: Session, config: AlertConfig) -> list[History]:
    """The history of each agent that a rule is about."""
    agents = (
        [config.agent_id]
        if config.agent_id
        else queries.agents_with_runs(session, config.benchmark_id)
    )
    return [History(session, config, agent_id) for agent_id in agents]


def assess_newest(histories: list[History]) -> list[TrialAssessment]:
    """What the newest valid run of each agent says."""
    found = []
    for history in histories:
        valid = [each for each in history.replay().runs if each.assessment]
        if valid and (assessment := valid[-1].assessment):
            found.append(
                TrialAssessment(
                    agent_id=history.agent_id,
                    run_id=valid[-1].run.id,
                    outcome=assessment.outcome,
                    value=assessment.value,
                    baseline=assessment.baseline,
                    explanation=assessment.explanation,
                )
            )
    return found


def send_trial(
    session: Session, config: AlertConfig, assessments: list[TrialAssessment]
) -> TrialView:
    """Tell the recipients of a rule that somebody tries it, and what it says now."""
    sentences = [f"{each.agent_id}: {each.explanation}" for each in assessments]
    message = trial_message(config.name, config.benchmark_id, sentences)
    notification_id = publish(session, message, config.endpoints)
    return TrialView(assessments=assessments, notification_id=notification_id)


def _config_of(session: Session, body: BacktestRequest) -> AlertConfig:
    if (body.alert_config_id is None) == (body.rule is None):
        raise Invalid(
            "send either the id of a rule or a rule",
            errors=[ErrorItem(pointer="/rule", detail="send it or `alertConfigId`, not both")],
        )
    if body.rule is None:
        assert body.alert_config_id is not None
        return queries.get_config(session, body.alert_config_id)
    values = all_fields(body.rule)
    recipients = values.pop("recipients")
    config = AlertConfig(**values, endpoints=[])
    check_config(session, config, recipients)
    return config


def _only_agent(session: Session, benchmark_id: str) -> str:
    agents = queries.agents_with_runs(session, benchmark_id)
    if len(agents) != 1:
        known = f"it has runs of {', '.join(agents)}" if agents else "it has no run yet"
        raise Invalid(
            f"the rule is about every agent of the benchmark, and {known}; name one",
            errors=[ErrorItem(pointer="/agentId", detail="is needed here; send one")],
        )
    return agents[0]


def _replayed_view(each: ReplayedRun) -> ReplayedRunView:
    found = each.assessment
    return ReplayedRunView(
        run_id=each.run.id,
        completed_at=each.run.completed_at,
        outcome=found.outcome if found else None,
        state=each.step.standing.state,
        told=each.step.told,
        value=found.value if found else None,
        baseline=found.baseline if found else None,
        explanation=found.explanation if found else NOT_VALID.format(_why(each.run)),
    )


def _why(run: PastRun) -> str:
    return "failed" if run.status == "FAILED" else "is not valid"
