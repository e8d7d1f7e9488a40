"""Writes to alert rules: create, update, delete, and their validation."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.alerts import queries
from mosaico.alerts.evaluation.watched_values import find_metric_spec
from mosaico.alerts.models import AlertRule, AlertRuleRevision
from mosaico.alerts.rules import Condition
from mosaico.alerts.schemas import AlertConfigBody, AlertConfigCreate
from mosaico.alerts.service import reset_states
from mosaico.benchmarks.models import Benchmark
from mosaico.benchmarks.queries import get_benchmark, get_kpis, lock_against_edits
from mosaico.benchmarks.service import evaluated_agent_errors
from mosaico.core.dependents import DEPENDENTS, MAX_FOUND, DeletedResource, Dependent, DependentKind
from mosaico.core.encryption import SecretBox
from mosaico.core.errors import Conflict, ErrorItem, Invalid, NotFound
from mosaico.core.ids import new_id
from mosaico.core.registry import suggest_names
from mosaico.core.row_counts import count_selected
from mosaico.core.schemas import all_fields
from mosaico.formula import compile_formula, read_reference
from mosaico.metrics.registry import column_of, provider_for
from mosaico.metrics.types import ERROR_RATE, Direction
from mosaico.notifications.endpoints import decrypt_recipient, ensure_endpoints
from mosaico.notifications.models import Endpoint
from mosaico.notifications.queries import get_endpoints_in_order
from mosaico.notifications.registry import InvalidRecipient, resolve_targets

# After a change of one of these fields the states of the rule mean nothing any more.
STATE_FIELDS = frozenset(
    {"benchmark_id", "agent_id", "metric", "kpi", "condition", "threshold", "enabled", "no_data",
     "for_runs", "baseline_runs", "minimum_effect"}
)  # fmt: skip
# Only a change of one of these is validated: a rule whose KPI was deleted can still be disabled.
VALIDATED_FIELDS = frozenset(
    {"benchmark_id", "agent_id", "metric", "kpi", "condition", "threshold", "channels", "for_runs",
     "false_pages_per_month"}
)  # fmt: skip
# Of the advisory locks of those who count rules and add one.
_COUNT_SEED: Final = 4
# Of one agent of a benchmark, or of all of its agents. A run is judged by both.
MAX_RULES: Final = 500


class TooManyAlertRules(Conflict):
    """The benchmark has 500 alert rules for this agent, or 500 for every agent; delete some of them."""


def create_rule(session: Session, body: AlertConfigCreate, box: SecretBox) -> AlertRule:
    """Raises: `NotFound` for an unknown benchmark or agent, `Invalid` with all errors of the rule,
    `Conflict` when its ID is taken, `TooManyAlertRules`.
    """
    values = all_fields(body)
    recipients = values.pop("recipients")
    rule = AlertRule(**{**with_defaults(values, values["condition"]), "id": body.id or new_id()})
    # Whoever retires a KPI locks the benchmark and then looks for the rules that watch the KPI.
    lock_against_edits(session, rule.benchmark_id)
    _require_room(session, rule.benchmark_id, rule.agent_id)
    validate_rule(session, rule, recipients)
    rule.endpoints = _endpoint_ids(session, rule, recipients, box)
    session.add(rule)
    try:
        session.flush()
    except IntegrityError as error:
        if _is_foreign_key(error):
            raise _target_deleted() from None
        raise Conflict(
            f"the alert rule ID {rule.id!r} is taken; choose another or PATCH that rule"
        ) from None
    session.refresh(rule)
    return rule


def update_rule(
    session: Session, rule_id: str, body: AlertConfigBody, box: SecretBox, now: datetime
) -> AlertRule:
    """Write the given fields. A change of one of `STATE_FIELDS` resolves open incidents. A redacted
    recipient keeps the stored recipient.

    Raises: as `create_rule`.
    """
    rule = queries.get_rule(session, rule_id, for_update=True)
    values = body.given_fields()
    benchmark_id = values.get("benchmark_id", rule.benchmark_id)
    lock_against_edits(session, benchmark_id)
    condition = values.get("condition", rule.condition)
    kpi_id = _find_kpi_id(session, benchmark_id, values.get("kpi"))
    new_values = {**with_defaults(values, condition), "kpi": kpi_id}
    recipients = _reveal_recipients(session, rule, new_values.pop("recipients", None), box)
    changed = {
        name for name in values if name in new_values and getattr(rule, name) != new_values[name]
    }
    if changed & {"benchmark_id", "agent_id"}:
        _require_room(session, benchmark_id, values.get("agent_id", rule.agent_id))
    if changed & STATE_FIELDS:
        verb = "disabled" if values.get("enabled") is False else "changed"
        reset_states(session, rule, f"The alert rule was {verb}.", now)
    try:
        for name in changed:
            setattr(rule, name, new_values[name])
        if changed & VALIDATED_FIELDS or "recipients" in values:
            validate_rule(session, rule, recipients)
        if values.keys() & {"channels", "recipients"}:
            rule.endpoints = _endpoint_ids(session, rule, recipients, box)
        if values:
            rule.revision += 1
            rule.updated_at = now
            names = sorted(changed | ({"recipients"} & values.keys()))
            session.add(
                AlertRuleRevision(
                    rule_id=rule_id,
                    revision=rule.revision,
                    changes=[name.removesuffix("_id").replace("_", " ") for name in names],
                    changed_at=now,
                )
            )
        session.flush()
    except IntegrityError as error:  # the queries of the validation flush what was set before
        if not _is_foreign_key(error):
            raise
        raise _target_deleted() from None
    return rule


def delete_rule(session: Session, rule_id: str, now: datetime) -> None:
    """Delete a rule. Its open incidents are resolved, its alerts stay."""
    rule = queries.get_rule(session, rule_id, for_update=True)
    reset_states(session, rule, "The alert rule was deleted.", now)
    session.delete(rule)
    session.flush()


def _find_rules_of(session: Session, owner: DeletedResource) -> list[Dependent]:
    statement = select(AlertRule.id, AlertRule.name).where(*_rules_of(owner))
    rows = session.execute(statement.order_by(AlertRule.name, AlertRule.id).limit(MAX_FOUND))
    return [Dependent("alert rule", row.id, row.name) for row in rows]


def _delete_rules_of(session: Session, owner: DeletedResource, now: datetime) -> None:
    for rule_id in session.scalars(select(AlertRule.id).where(*_rules_of(owner))).all():
        delete_rule(session, rule_id, now)


def _rules_of(owner: DeletedResource) -> list[ColumnElement[bool]]:
    if owner.kind == "agent":
        return [AlertRule.agent_id == owner.id]
    if owner.kind == "benchmark":
        return [AlertRule.benchmark_id == owner.id]
    return [AlertRule.benchmark_id == owner.benchmark_id, AlertRule.kpi == owner.id]


# The rules of an agent, a benchmark or a KPI mean nothing without it.
DEPENDENTS.append(DependentKind({"agent", "benchmark", "KPI"}, _find_rules_of, _delete_rules_of))


def with_defaults(values: Mapping[str, Any], condition: str) -> dict[str, Any]:
    """The fields of a rule with the defaults that depend on its condition."""
    filled = dict(values)
    if "keep_firing_for_runs" in filled and filled["keep_firing_for_runs"] is None:
        filled["keep_firing_for_runs"] = 0 if condition == Condition.REGRESSED else 1
    return filled


def validate_rule(session: Session, rule: AlertRule, recipients: Sequence[str]) -> None:
    """Raise `NotFound` or `Invalid` with every error; replaces the name of a KPI by its ID."""
    benchmark = get_benchmark(session, rule.benchmark_id)
    if rule.agent_id is not None:
        get_agent(session, rule.agent_id)
    agent_errors = (
        evaluated_agent_errors(session, benchmark.id, rule.agent_id) if rule.agent_id else []
    )
    errors = [
        *agent_errors,
        *_target_errors(session, benchmark, rule),
        *_threshold_errors(rule),
        *_direction_errors(session, rule),
    ]
    try:
        resolve_targets(rule.channels, recipients)
    except InvalidRecipient as error:
        errors += error.errors
    if errors:
        raise Invalid("the alert rule is not valid; see `errors`", errors=errors)


def _require_room(session: Session, benchmark_id: str, agent_id: str | None) -> None:
    """Raise `TooManyAlertRules` if no other rule fits; the count is locked until the transaction ends."""
    # The lock of the benchmark does not exclude others who create rules.
    key = func.hashtextextended(f"{benchmark_id}/{agent_id or ''}", _COUNT_SEED)
    session.execute(select(func.pg_advisory_xact_lock(key)))
    stored = select(AlertRule.id).where(
        AlertRule.benchmark_id == benchmark_id, AlertRule.agent_id == agent_id
    )
    if count_selected(session, stored.limit(MAX_RULES)) == MAX_RULES:
        raise TooManyAlertRules


def _is_foreign_key(error: IntegrityError) -> bool:
    return getattr(error.orig, "sqlstate", None) == "23503"


def _target_deleted() -> NotFound:
    return NotFound("the benchmark or the agent was deleted in the meantime; choose another")


def _endpoint_ids(
    session: Session, rule: AlertRule, recipients: Sequence[str], box: SecretBox
) -> list[str]:
    targets = resolve_targets(rule.channels, recipients)
    return [endpoint.id for endpoint in ensure_endpoints(session, targets, box)]


def _reveal_recipients(
    session: Session, rule: AlertRule, recipients: Sequence[str] | None, box: SecretBox
) -> list[str]:
    """The full addresses: a recipient that is given as it is shown, redacted, is replaced by the
    address that the rule has. None: all recipients of the rule.
    """
    endpoints: dict[str, list[Endpoint]] = defaultdict(list)
    for endpoint in get_endpoints_in_order(session, rule.endpoints):
        endpoints[endpoint.recipient].append(endpoint)
    revealed: list[str] = []
    for recipient in endpoints if recipients is None else recipients:
        addresses = [decrypt_recipient(endpoint, box) for endpoint in endpoints.get(recipient, [])]
        revealed += [address.reveal() for address in addresses if address] or [recipient]
    return list(dict.fromkeys(revealed))


def _target_errors(session: Session, benchmark: Benchmark, rule: AlertRule) -> list[ErrorItem]:
    if (rule.metric is None) == (rule.kpi is None):
        detail = "a rule watches either a metric or a KPI; send one of them, and clear the other"
        return [ErrorItem(pointer="/metric", detail=detail)]
    if rule.kpi is not None:
        return _kpi_errors(session, benchmark, rule, rule.kpi)
    assert rule.metric is not None
    columns = _measured_columns(session, benchmark)
    reference = read_reference(rule.metric)
    if reference is not None and column_of(reference.key) in columns:
        return []
    detail = (
        f"{rule.metric!r} is neither a metric of the benchmark nor a statistic of one of its "
        f"metrics.{suggest_names(rule.metric, sorted(columns))} It computes "
        f"{', '.join(sorted(columns))}."
    )
    return [ErrorItem(pointer="/metric", detail=detail)]


def _kpi_errors(
    session: Session, benchmark: Benchmark, rule: AlertRule, kpi: str
) -> list[ErrorItem]:
    rule.kpi = _find_kpi_id(session, benchmark.id, kpi)
    kpis = get_kpis(session, benchmark.id)
    kpi_keys = {definition.id for definition in kpis} | {definition.name for definition in kpis}
    if rule.kpi in kpi_keys:
        return []
    detail = f"the benchmark has no KPI {kpi!r}.{suggest_names(kpi, sorted(kpi_keys))}"
    return [ErrorItem(pointer="/kpi", detail=detail)]


def _measured_columns(session: Session, benchmark: Benchmark) -> set[str]:
    """The metrics of a benchmark, those that only its KPIs use, and that of failed answers."""
    columns = {ERROR_RATE, *(provider_for(metric.ref).spec.key for metric in benchmark.metrics)}
    for kpi in get_kpis(session, benchmark.id):
        columns |= {column_of(ref.key) for ref in compile_formula(kpi.formula).references}
    return columns


def _find_kpi_id(session: Session, benchmark_id: str, kpi: str | None) -> str | None:
    """The ID of a KPI that is given by its ID or name; what was given when there is none."""
    if not kpi:
        return kpi
    for definition in get_kpis(session, benchmark_id):
        if kpi == definition.id or kpi.casefold() == definition.name.casefold():
            return definition.id
    return kpi


def _threshold_errors(rule: AlertRule) -> list[ErrorItem]:
    condition = Condition(rule.condition)
    if condition is Condition.REGRESSED:
        return _regressed_errors(rule)
    if rule.false_pages_per_month is not None:
        detail = (
            f"{condition} does not limit the number of false alarms; omit this field, or use "
            "REGRESSED"
        )
        return [ErrorItem(pointer="/falsePagesPerMonth", detail=detail)]
    if rule.threshold is None:
        if condition is Condition.ANOMALY_DETECTED:
            return []
        return [ErrorItem(pointer="/threshold", detail=f"{condition} needs a threshold; send one")]
    if condition.uses_history and rule.threshold == 0:
        detail = f"{condition} with the threshold 0 fires at every change; send another threshold"
        return [ErrorItem(pointer="/threshold", detail=detail)]
    return []


def _regressed_errors(rule: AlertRule) -> list[ErrorItem]:
    """Verdicts exist for KPIs and for the means of metrics, and bring their own threshold."""
    errors = []
    if rule.threshold is not None:
        detail = "REGRESSED has no threshold; omit it and set `minEffect` of the KPI"
        errors.append(ErrorItem(pointer="/threshold", detail=detail))
    if rule.for_runs != 1:
        detail = "REGRESSED evaluates several runs itself; omit this field or send 1"
        errors.append(ErrorItem(pointer="/forRuns", detail=detail))
    reference = read_reference(rule.metric) if rule.metric else None
    if reference is not None and reference.stat != "mean":
        detail = f"REGRESSED compares the mean of a metric; send {reference.key} alone, or a KPI"
        errors.append(ErrorItem(pointer="/metric", detail=detail))
    return errors


def _direction_errors(session: Session, rule: AlertRule) -> list[ErrorItem]:
    """REGRESSED is about changes for the worse, which a value without a direction has not."""
    if rule.condition != Condition.REGRESSED:
        return []
    if rule.kpi is not None:
        kpis = get_kpis(session, rule.benchmark_id)
        kpi = next((kpi for kpi in kpis if kpi.id == rule.kpi), None)
        if kpi is None or kpi.direction != Direction.NEITHER:
            return []
        detail = (
            f"the KPI {kpi.name!r} has no direction, so REGRESSED cannot tell what is worse; set its"
            " `direction`, or use LESS_THAN, GREATER_THAN or ANOMALY_DETECTED"
        )
        return [ErrorItem(pointer="/kpi", detail=detail)]
    reference = read_reference(rule.metric) if rule.metric else None
    spec = find_metric_spec(column_of(reference.key)) if reference is not None else None
    if spec is None or spec.direction is not Direction.NEITHER:
        return []
    detail = (
        f"{rule.metric} has no direction, so REGRESSED cannot tell what is worse; watch a KPI with this"
        " formula and a `direction`, or use LESS_THAN, GREATER_THAN or ANOMALY_DETECTED"
    )
    return [ErrorItem(pointer="/metric", detail=detail)]
