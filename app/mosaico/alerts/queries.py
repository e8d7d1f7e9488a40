"""Reads of alert rules and their states."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Row, String, bindparam, func, or_, select, text
from sqlalchemy.orm import Session, aliased

from mosaico.alerts.models import AlertEvent, AlertRule, AlertRuleRevision, AlertState
from mosaico.alerts.rules import AlertStatus, Condition
from mosaico.benchmarks.kpi_watchers import KPI_WATCHERS, KpiWatcher
from mosaico.benchmarks.queries import OwnerFilter
from mosaico.core.batches import batched
from mosaico.core.dependents import DEPENDENTS, DeletedResource, Dependent, DependentKind
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, select_page
from mosaico.core.list_filters import filter_enabled
from mosaico.core.names import Names, list_newest_names
from mosaico.core.row_counts import count_rows
from mosaico.run_store.models import BenchmarkRun

# Of the states of a rule, and of the rules that an error names: of an endpoint, or of a KPI.
MAX_STATES: Final = 100
MAX_USERS: Final = 20
_RULES_PER_STATEMENT: Final = 20
# Without the columns that only an evaluation reads: `series` is a long document. The first rows from a key on, here
# and below: of `rule_id = rule.id` in the order of agents the planner may read the states of all other rules.
_FIRST_STATES: Final = text(
    """
    SELECT state.* FROM unnest(CAST(:rule_ids AS text[])) AS rule (id) CROSS JOIN LATERAL (
        SELECT rule_id, agent_id, state, run_id, value, baseline, explanation, fired_at, incident_id, evaluated_at
        FROM alert_states WHERE (rule_id, agent_id) > (rule.id, '') AND run_seq > 0
        ORDER BY rule_id, agent_id LIMIT :limit
    ) AS state WHERE state.rule_id = rule.id ORDER BY state.rule_id, state.agent_id
    """
)

# Of each KPI and condition the first rules, as above: the planner may find those of a KPI in the whole table.
_KPI_RULES: Final = text(
    """
    SELECT rule.kpi, rule.id, rule.name
    FROM unnest(CAST(:kpi_ids AS text[])) AS watched (kpi)
    CROSS JOIN unnest(CAST(:conditions AS text[])) AS condition (name)
    CROSS JOIN LATERAL (
        SELECT benchmark_id, kpi, condition, id, name FROM alert_rules
        WHERE (benchmark_id, kpi, condition) >= (:benchmark_id, watched.kpi, condition.name)
        ORDER BY benchmark_id, kpi, condition LIMIT :limit
    ) AS rule
    WHERE (rule.benchmark_id, rule.kpi, rule.condition) = (:benchmark_id, watched.kpi, condition.name)
    """
)
# The planner sees the endpoint, not a parameter: of few rules it reads the index, of many the table up to the limit.
_ENDPOINT_RULES: Final = text(
    "SELECT id, name FROM alert_rules WHERE endpoints @> CAST(:endpoint AS jsonb) LIMIT :limit"
).bindparams(bindparam("endpoint", type_=String, literal_execute=True))

# Built once: SQLAlchemy builds each column of an alias anew.
_OTHER_RUN = aliased(BenchmarkRun)


class AlertConfigNotFound(NotFound):
    """No alert rule has this ID; GET /api/v1/alert-configs lists all alert rules."""


class AcknowledgedCount(NamedTuple):
    """Number of alerts of a rule that were acknowledged as true and as noise."""

    true: int = 0
    noise: int = 0


class RuleFilter(OwnerFilter):
    """Filter of alert rules; `agent_ids` include the rules that judge every agent."""

    enabled: bool | None = None


def get_rule(session: Session, rule_id: str, *, for_update: bool = False) -> AlertRule:
    rule = session.get(
        AlertRule, rule_id, with_for_update=for_update or None, populate_existing=True
    )
    return AlertConfigNotFound.unless(
        rule,
        f"no alert rule has the ID {rule_id!r}; GET /api/v1/alert-configs lists them",
    )


def list_revisions(session: Session, rule_id: str, query: PageQuery) -> PageRows[AlertRuleRevision]:
    """The edits of an alert rule, newest first."""
    statement = select(AlertRuleRevision).where(AlertRuleRevision.rule_id == rule_id)
    return select_page(session, statement, keys=[AlertRuleRevision.revision], query=query)


def list_rules(session: Session, query: PageQuery, rule_filter: RuleFilter) -> PageRows[AlertRule]:
    """Alert rules, newest first."""
    statement, conditions = filter_enabled(
        select(AlertRule), AlertRule.enabled, enabled=rule_filter.enabled
    )
    if agent_ids := rule_filter.agent_ids:
        conditions.append(or_(AlertRule.agent_id.is_(None), AlertRule.agent_id.in_(agent_ids)))
    return select_page(
        session,
        statement,
        keys=[AlertRule.created_at, AlertRule.id],
        query=query,
        filters=[(AlertRule.benchmark_id, rule_filter.benchmark_ids)],
        conditions=conditions,
    )


def find_existing_rules(session: Session, rule_ids: Collection[str]) -> set[str]:
    """Those of some IDs whose rules exist; what rules have said outlives them."""
    return {
        rule_id
        for batch in batched(sorted(rule_ids))
        for rule_id in session.scalars(select(AlertRule.id).where(AlertRule.id.in_(batch)))
    }


def list_rule_names(session: Session) -> Names:
    """The names of the newest alert rules, as a form offers them."""
    names, keys = select(AlertRule.id, AlertRule.name), [AlertRule.created_at, AlertRule.id]
    return list_newest_names(session, names, keys, "/alerts", lambda _, name: name, "alert rules")


def list_enabled_rules(session: Session, benchmark_id: str, agent_id: str) -> list[AlertRule]:
    """The rules that judge the runs of an agent, by ID; `rule_service.MAX_RULES` limits their number."""
    statement = select(AlertRule).where(
        AlertRule.benchmark_id == benchmark_id, _judges(agent_id), AlertRule.enabled
    )
    return list(session.scalars(statement.order_by(AlertRule.id)))


def find_kpi_watchers(
    session: Session, benchmark_id: str, kpi_ids: Collection[str], *, need_direction: bool
) -> list[KpiWatcher]:
    """The first `MAX_USERS` alert rules, enabled or not, that watch KPIs of a benchmark, by name; with
    `need_direction`, those that need the direction of the KPI.
    """
    parameters = {
        "benchmark_id": benchmark_id,
        "kpi_ids": list(kpi_ids),
        "conditions": [Condition.REGRESSED] if need_direction else list(Condition),
        "limit": MAX_USERS,
    }
    rules = session.execute(_KPI_RULES, parameters)
    watchers = [KpiWatcher(rule.kpi, "alert rule", rule.id, rule.name) for rule in rules]
    return sorted(watchers, key=lambda watcher: (watcher.name, watcher.id))[:MAX_USERS]


# A KPI that a rule watches is not retired.
KPI_WATCHERS.append(find_kpi_watchers)


def find_rules_of_endpoint(session: Session, endpoint: DeletedResource) -> list[Dependent]:
    """The first `MAX_USERS` alert rules, enabled or not, that notify an endpoint, by name."""
    parameters = {"endpoint": json.dumps([endpoint.id]), "limit": MAX_USERS}
    rules = session.execute(_ENDPOINT_RULES, parameters)
    users = [Dependent("alert rule", row.id, row.name) for row in rules]
    return sorted(users, key=lambda user: (user.name, user.id))


# An endpoint that a rule notifies is not deleted.
DEPENDENTS.append(DependentKind({"endpoint"}, find_rules_of_endpoint))


def lock_enabled_rules(session: Session, rule_ids: Sequence[str]) -> dict[str, AlertRule]:
    """The rules of these that are still enabled, locked against edits, by ID."""
    statement = (
        select(AlertRule)
        .where(AlertRule.enabled)
        .order_by(AlertRule.id)  # one order everywhere: two transactions cannot deadlock
        .with_for_update(read=True)
        .execution_options(populate_existing=True)
    )
    return {
        rule.id: rule
        for batch in batched(sorted(rule_ids))
        for rule in session.scalars(statement.where(AlertRule.id.in_(batch)))
    }


def lock_states(session: Session, rule_ids: Sequence[str], agent_id: str) -> dict[str, AlertState]:
    """The states of rules for an agent, locked, by rule."""
    statement = (
        select(AlertState)
        .where(AlertState.rule_id.in_(rule_ids), AlertState.agent_id == agent_id)
        .order_by(AlertState.rule_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return {state.rule_id: state for state in session.scalars(statement)}


def states_by_rule(session: Session, rule_ids: Sequence[str]) -> dict[str, list[Row[Any]]]:
    """The states of rules, by rule: those of its first `MAX_STATES` agents by ID, without those that saw no run
    yet. A rule about every agent has as many states as there are agents.
    """
    states: dict[str, list[Row[Any]]] = defaultdict(list)
    for batch in batched(rule_ids, _RULES_PER_STATEMENT):
        parameters = {"rule_ids": list(batch), "limit": MAX_STATES}
        for state in session.execute(_FIRST_STATES, parameters):
            states[state.rule_id].append(state)
    return states


def count_states(session: Session, rule_id: str, listed_count: int) -> str | None:
    """The number of agents with a state of a rule, as a text; None if all of them are listed."""
    if listed_count < MAX_STATES:
        return None
    states = select(AlertState.agent_id).where(
        AlertState.rule_id == rule_id, AlertState.run_seq > 0
    )
    total = count_rows(session, states)
    return total if total != f"{listed_count:,}" else None


def count_acknowledged(session: Session, rule_ids: Iterable[str]) -> dict[str, AcknowledgedCount]:
    """The number of acknowledged alerts, by rule, with those of a deleted rule of the same ID."""
    statement = (
        select(
            AlertEvent.rule_id,
            func.count().filter(AlertEvent.verdict == "true"),
            func.count().filter(AlertEvent.verdict == "noise"),
        )
        .where(
            AlertEvent.rule_id.in_(list(rule_ids)),
            AlertEvent.state == AlertStatus.FIRING,
            # For the index: a rule may have many alerts that nobody acknowledged.
            AlertEvent.verdict.is_not(None),
        )
        .group_by(AlertEvent.rule_id)
    )
    return {
        str(rule_id): AcknowledgedCount(true, noise)
        for rule_id, true, noise in session.execute(statement)
    }


def list_watched_runs(session: Session, run_seq: int) -> set[int]:
    """The comparable runs whose levels the REGRESSED rules about the agent of a run need."""
    statement = (
        select(AlertState.series)
        .join(AlertRule, AlertRule.id == AlertState.rule_id)
        .join(
            BenchmarkRun,
            (BenchmarkRun.benchmark_id == AlertRule.benchmark_id)
            & (BenchmarkRun.agent_id == AlertState.agent_id),
        )
        .where(BenchmarkRun.seq == run_seq, AlertRule.enabled, AlertState.series.is_not(None))
    )
    runs = {run for state in session.scalars(statement) if state for run in state.runs}
    comparable = (
        select(_OTHER_RUN.seq)
        .join(BenchmarkRun, BenchmarkRun.fingerprint == _OTHER_RUN.fingerprint)
        .where(BenchmarkRun.seq == run_seq, _OTHER_RUN.seq.in_(runs))
    )
    return set(session.scalars(comparable)) if runs else set()


def get_state(session: Session, rule_id: str, agent_id: str) -> AlertState | None:
    return session.get(AlertState, (rule_id, agent_id))


def _judges(*agent_ids: str) -> ColumnElement[bool]:
    return or_(AlertRule.agent_id.is_(None), AlertRule.agent_id.in_(agent_ids))
