"""Rules: made, changed and deleted, and what is wrong with one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.agents.queries import get_agent
from app.alerts import queries
from app.alerts.models import AlertConfig
from app.alerts.rules import Condition
from app.alerts.schemas import AlertConfigCreate
from app.alerts.service import forget_standings
from app.benchmarks.models import Benchmark
from app.benchmarks.queries import get_benchmark, get_kpis_by_benchmark
from app.core.encryption import SecretBox
from app.core.errors import AppError, Conflict, ErrorItem, Invalid, NotFound
from app.core.ids import new_id
from app.core.registry import near_matches
from app.core.schemas import all_fields
from app.formula import compile_formula, read_reference
from app.metrics.registry import column_of, parse_ref, provider_for
from app.notifications.endpoints import decrypt_recipient, ensure_endpoints
from app.notifications.models import Endpoint
from app.notifications.queries import get_endpoints_in_order
from app.notifications.registry import InvalidRecipient, resolve_targets

# A rule that asks something else now has not fired, and remembers nothing.
ASKS = frozenset(
    {"benchmark_id", "agent_id", "metric", "kpi", "condition", "threshold", "enabled", "no_data",
     "for_runs", "baseline_runs", "minimum_effect"}
)  # fmt: skip
# What else is edited cannot be wrong; so a rule whose KPI is gone can still be disabled.
CHECKED = frozenset(
    {"benchmark_id", "agent_id", "metric", "kpi", "condition", "threshold", "channels"}
)  # fmt: skip


def create_config(session: Session, body: AlertConfigCreate, box: SecretBox) -> AlertConfig:
    """Raises: `NotFound` for an unknown benchmark or agent, `Invalid` with what is wrong."""
    values = all_fields(body)
    recipients = values.pop("recipients")
    config = AlertConfig(**{**values, "id": body.id or new_id()})
    check_config(session, config, recipients)
    config.endpoints = _endpoint_ids(session, config, recipients, box)
    session.add(config)
    try:
        session.flush()
    except IntegrityError as error:
        raise _refusal(error, config.id) from None
    session.refresh(config)
    return config


def change_config(
    session: Session, config_id: str, values: Mapping[str, Any], box: SecretBox, now: datetime
) -> AlertConfig:
    """Write the given fields. What fires is resolved where the rule asks something else now. A
    recipient as it is shown stands for the one that the rule has.

    Raises: as `create_config`.
    """
    config = queries.get_config(session, config_id, for_update=True)
    benchmark_id = values.get("benchmark_id", config.benchmark_id)
    wanted = {**values, "kpi": _kpi_id(session, benchmark_id, values.get("kpi"))}
    recipients = _whole(session, config, wanted.pop("recipients", None), box)
    changed = {name for name in values if name in wanted and getattr(config, name) != wanted[name]}
    if changed & ASKS:
        why = "disabled" if values.get("enabled") is False else "changed"
        forget_standings(session, config, f"The rule was {why}.", now)
    try:
        for name in changed:
            setattr(config, name, wanted[name])
        if changed & CHECKED or "recipients" in values:
            check_config(session, config, recipients)
        if values.keys() & {"channels", "recipients"}:
            config.endpoints = _endpoint_ids(session, config, recipients, box)
        if values:
            config.revision += 1
            config.updated_at = now
        session.flush()
    except IntegrityError as error:  # any of these queries writes what was set before
        raise _refusal(error, config_id) from None
    return config


def delete_config(session: Session, config_id: str, now: datetime) -> None:
    """Delete a rule; what fires is resolved, and what was told stays."""
    config = queries.get_config(session, config_id, for_update=True)
    forget_standings(session, config, "The rule was deleted.", now)
    session.delete(config)
    session.flush()


def check_config(session: Session, config: AlertConfig, recipients: Sequence[str]) -> None:
    """Raise `NotFound` or `Invalid`, with every mistake; a KPI's name becomes its id."""
    benchmark = get_benchmark(session, config.benchmark_id)
    if config.agent_id is not None:
        get_agent(session, config.agent_id)
    errors = [*_subject_errors(session, benchmark, config), *_threshold_errors(config)]
    try:
        resolve_targets(config.channels, recipients)
    except InvalidRecipient as error:
        errors += error.errors
    if errors:
        raise Invalid("the alert rule is not valid; see `errors`", errors=errors)


def _refusal(error: IntegrityError, config_id: str) -> AppError:
    """What came in between after all was checked."""
    if getattr(error.orig, "sqlstate", None) == "23503":  # foreign key
        return NotFound("the benchmark or the agent was deleted at this moment; choose another")
    return Conflict(f"the alert rule id {config_id!r} is taken; choose another or PATCH that one")


def _endpoint_ids(
    session: Session, config: AlertConfig, recipients: Sequence[str], box: SecretBox
) -> list[str]:
    targets = resolve_targets(config.channels, recipients)
    return [endpoint.id for endpoint in ensure_endpoints(session, targets, box)]


def _whole(
    session: Session, config: AlertConfig, given: Sequence[str] | None, box: SecretBox
) -> list[str]:
    """Recipients with those opened that the rule has and that are given as they are shown; None:
    those that it has.
    """
    shown: dict[str, list[Endpoint]] = defaultdict(list)
    for endpoint in get_endpoints_in_order(session, config.endpoints):
        shown[endpoint.recipient].append(endpoint)
    whole: list[str] = []
    for recipient in shown if given is None else given:
        addresses = [decrypt_recipient(endpoint, box) for endpoint in shown.get(recipient, [])]
        whole += [address.reveal() for address in addresses if address] or [recipient]
    return list(dict.fromkeys(whole))


def _subject_errors(session: Session, benchmark: Benchmark, config: AlertConfig) -> list[ErrorItem]:
    if (config.metric is None) == (config.kpi is None):
        detail = "a rule looks at a metric or at a KPI; send one of them, and null for the other"
        return [ErrorItem(pointer="/metric", detail=detail)]
    kpis = get_kpis_by_benchmark(session, [benchmark.id]).get(benchmark.id, [])
    if config.kpi is not None:
        wanted = config.kpi
        config.kpi = _kpi_id(session, benchmark.id, wanted)
        ours = {kpi.id for kpi in kpis} | {kpi.name for kpi in kpis}
        if config.kpi in ours:
            return []
        detail = f"the benchmark has no KPI {wanted!r}.{near_matches(wanted, sorted(ours))}"
        return [ErrorItem(pointer="/kpi", detail=detail)]
    columns = {provider_for(parse_ref(metric)).spec.key for metric in benchmark.metrics}
    for kpi in kpis:
        columns |= {column_of(ref.key) for ref in compile_formula(kpi.formula).references}
    assert config.metric is not None
    reference = read_reference(config.metric)
    if reference is not None and column_of(reference.key) in columns:
        return []
    near = near_matches(config.metric, sorted(columns))
    detail = f"{config.metric!r} is no metric or statistic that the benchmark computes.{near}"
    return [ErrorItem(pointer="/metric", detail=f"{detail} It has {', '.join(sorted(columns))}.")]


def _kpi_id(session: Session, benchmark_id: str, wanted: str | None) -> str | None:
    """The id of a KPI that is called by its id or name; what was given where there is none."""
    for kpi in (
        get_kpis_by_benchmark(session, [benchmark_id]).get(benchmark_id, []) if wanted else []
    ):
        if wanted == kpi.id or (wanted or "").casefold() == kpi.name.casefold():
            return kpi.id
    return wanted


def _threshold_errors(config: AlertConfig) -> list[ErrorItem]:
    condition = Condition(config.condition)
    if condition is Condition.REGRESSED:
        return _verdict_errors(config)
    if config.threshold is None:
        if condition is Condition.ANOMALY_DETECTED:
            return []
        return [ErrorItem(pointer="/threshold", detail=f"{condition} needs a threshold; send one")]
    if condition.looks_back and config.threshold == 0:
        detail = f"{condition} with 0 fires at every change; send another number"
        return [ErrorItem(pointer="/threshold", detail=detail)]
    return []


def _verdict_errors(config: AlertConfig) -> list[ErrorItem]:
    """A verdict is on a KPI or on the mean of a metric, and says itself what counts as a change."""
    errors = []
    if config.threshold is not None:
        detail = "REGRESSED takes none: what counts is `minEffect` of the KPI; leave it out"
        errors.append(ErrorItem(pointer="/threshold", detail=detail))
    reference = read_reference(config.metric) if config.metric else None
    if reference is not None and reference.stat != "mean":
        detail = f"REGRESSED looks at the mean of a metric; name {reference.key} alone, or a KPI"
        errors.append(ErrorItem(pointer="/metric", detail=detail))
    return errors
