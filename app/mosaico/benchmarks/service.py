"""Create, change and delete benchmarks and their KPIs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.agents.queries import lock_existing_agents
from mosaico.agents.service import default_source
from mosaico.benchmarks import queries, rules
from mosaico.benchmarks.config_types import JudgeCalibration, MetricSelection
from mosaico.benchmarks.kpi_watchers import require_no_direction_needed, require_unwatched
from mosaico.benchmarks.models import Benchmark, BenchmarkAgent, KpiDefinition
from mosaico.benchmarks.revisions import add_revision, split_note
from mosaico.benchmarks.schemas import (
    MAX_KPIS,
    BenchmarkBody,
    BenchmarkCreate,
    KpiBody,
    KpiCreate,
)
from mosaico.benchmarks.source_fit import SOURCE_FIELDS, source_fit_errors
from mosaico.core.dependents import (
    DEPENDENTS,
    MAX_FOUND,
    NO_CONSENT,
    Consent,
    Dependent,
    DependentKind,
    Owner,
    delete_dependents,
    find_obstacles,
    list_dependents,
)
from mosaico.core.errors import AppError, Conflict, ErrorItem, Invalid
from mosaico.core.ids import new_id
from mosaico.core.schemas import all_fields, given_fields
from mosaico.formula import InvalidFormula
from mosaico.metrics.formula_direction import direction_of_formula
from mosaico.metrics.types import Direction
from mosaico.traces.registry import TRACE_SOURCES

KPI_FIELDS = (
    "name",
    "formula",
    "description",
    "direction",
    "unit",
    "threshold_min",
    "threshold_max",
    "gate",
    "min_effect",
)
RELATED_FIELDS = {"evaluates", "measures"}
KpiBodyT = TypeVar("KpiBodyT", bound=KpiBody)


class BenchmarkInUse(Conflict):
    """Runs refer to the benchmark; PATCH it with {"archived": true}."""


class KpiMatch(NamedTuple):
    """A KPI that a client sent, and the stored KPI that it replaces."""

    old: KpiDefinition | None
    body: KpiCreate


def create_benchmark(session: Session, body: BenchmarkCreate, now: datetime) -> Benchmark:
    """Raises: `Conflict` if the id is taken, `Invalid` with all errors."""
    values = all_fields(body)
    _raise_if_any(
        # All errors in one response, not only those of the first check.
        _field_errors(session, values) + source_fit_errors(values)
    )
    benchmark = Benchmark(**_columns({**values, "id": body.id or new_id()}))
    session.add(benchmark)
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(
            f"the benchmark id {benchmark.id!r} is taken; choose another id, or PATCH that benchmark"
        ) from None
    # After the flush: the rows refer to the benchmark.
    _set_agents(session, benchmark.id, body.evaluates)
    set_kpis(session, benchmark.id, body.measures, now)
    session.refresh(benchmark)
    # Last, because triggers depend on agents and source; the transaction is rolled back with all of
    # it.
    _raise_if_any(_trigger_errors(session, benchmark))
    return benchmark


def change_benchmark(
    session: Session, benchmark_id: str, body: BenchmarkBody, now: datetime
) -> Benchmark:
    """Write the given fields; `measures` are matched with the stored KPIs by id or name."""
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    values, note = split_note(given_fields(body))
    if not values:
        return benchmark
    before = {name: getattr(benchmark, name) for name in _columns(values)}
    # All of them, also when only the source changes: a stored setting may not fit the new one.
    fields = {name: values.get(name, getattr(benchmark, name)) for name in SOURCE_FIELDS}
    _raise_if_any(_field_errors(session, values) + source_fit_errors(fields))
    for name, value in _columns(values).items():
        setattr(benchmark, name, value)
    changed = [name for name, value in before.items() if getattr(benchmark, name) != value]
    # Agents and KPIs are rows of their own.
    changed += [name for name in ("evaluates", "measures") if name in values]
    add_revision(
        session, benchmark, now, [name.strip("_").replace("_", " ") for name in changed], note
    )
    if "evaluates" in values:
        _set_agents(session, benchmark_id, values["evaluates"])
    if "measures" in values:
        set_kpis(session, benchmark_id, values["measures"], now)
    session.flush()
    _raise_if_any(_trigger_errors(session, benchmark))
    return benchmark


def delete_benchmark(
    session: Session, benchmark_id: str, now: datetime, consent: Consent = NO_CONSENT
) -> None:
    """Delete a benchmark, and with `consent` its schedules, alert rules and webhook secrets.

    Raises: `BenchmarkInUse` if runs refer to the benchmark, `DependentsExist`.
    """
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    owner = Owner("benchmark", benchmark_id)
    if obstacles := find_obstacles(session, owner):
        raise _benchmark_in_use(benchmark_id, list_dependents(obstacles))
    delete_dependents(session, owner, consent, now)
    session.delete(benchmark)
    try:
        session.flush()
    except IntegrityError:
        # Written at the same time.
        raise _benchmark_in_use(benchmark_id, "runs") from None


def _benchmark_in_use(benchmark_id: str, users: str) -> BenchmarkInUse:
    return BenchmarkInUse(
        f"the benchmark {benchmark_id!r} cannot be deleted, because of {users};"
        ' PATCH it with {"archived": true} to hide it and keep its history'
    )


def source_of(benchmark: Benchmark, agent: Agent) -> str:
    """The trace source of the runs of an agent."""
    return benchmark.source or default_source(agent)


def create_kpi(
    session: Session, benchmark_id: str, body: KpiCreate, now: datetime
) -> KpiDefinition:
    """Raises: `Conflict` if the id or name is taken, `Invalid` if the formula is not valid."""
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    _raise_if_any(rules.kpi_errors(body, pointer=""))
    kpis = queries.get_kpis(session, benchmark_id)
    if len(kpis) >= MAX_KPIS:
        raise Conflict(f"a benchmark has at most {MAX_KPIS} KPIs; delete one first")
    # Current KPIs only: an id that was retired may be used again and continues its history.
    if body.id in {kpi.id for kpi in kpis}:
        raise _kpi_taken(body.id, body.name)
    kpi = _insert_kpi(session, benchmark_id, body.id or new_id(), _with_direction(body), now)
    add_revision(session, benchmark, now, [f"KPI {kpi.name}: created"])
    return kpi


def change_kpi(
    session: Session, benchmark_id: str, kpi_id: str, edit: KpiBody, now: datetime
) -> KpiDefinition:
    """Create a new revision with the given fields; the current one if nothing changes.

    Raises: `KpiInUse` if an alert rule needs the direction that it loses.
    """
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    values, note = split_note(given_fields(edit))
    current = queries.get_kpi(session, benchmark_id, kpi_id)
    stored = _stored_values(current)
    # The edit is validated; a stored text that `KpiBody` would refuse must not stop another change.
    body = KpiBody.model_construct(**{**stored, **values})
    _raise_if_any(rules.kpi_errors(body, pointer=""))
    if "direction" not in values and follows_formula(current):
        body = body.model_copy(update={"direction": None})
    body = _with_direction(body)
    _require_direction(session, benchmark_id, [(current, body)], pointer="/direction")
    revised = _revise_kpi(session, current, body, now)
    # An edit that changes nothing must not invalidate the ETag of other readers.
    if revised is not current:
        changed = [name for name, value in _body_values(body).items() if stored[name] != value]
        names = ", ".join(name.replace("_", " ") for name in changed)
        add_revision(session, benchmark, now, [f"KPI {body.name}: {names}"], note)
    return revised


def delete_kpi(
    session: Session, benchmark_id: str, kpi_id: str, now: datetime, consent: Consent = NO_CONSENT
) -> None:
    """Retire a KPI: later runs do not have it, its history stays. With `consent`, the alert rules that watch it
    are deleted.

    Raises: `DependentsExist` if alert rules watch it.
    """
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    kpi = queries.get_kpi(session, benchmark_id, kpi_id)
    delete_dependents(session, Owner("KPI", kpi_id, benchmark_id), consent, now)
    # Never deleted: earlier runs and their comparisons refer to this revision.
    kpi.retired_at = now
    add_revision(session, benchmark, now, [f"KPI {kpi.name}: removed"])


def set_kpis(
    session: Session, benchmark_id: str, bodies: Sequence[KpiCreate], now: datetime
) -> None:
    """Replace the KPIs of a benchmark.

    Stored KPIs are matched by id or name: changed ones get a new revision, unmatched ones are
    retired. All are retired before any is written, so that two KPIs can swap their names.
    Raises: `KpiInUse` if alert rules watch an unmatched one, or need the direction of one that
    loses it.
    """
    current = queries.get_kpis(session, benchmark_id)
    matches = _match_kpis(current, [_with_direction(body) for body in bodies])
    kept_ids = {old.id for old, _ in matches if old is not None}
    removed = {kpi.id: kpi.name for kpi in current if kpi.id not in kept_ids}
    require_unwatched(session, benchmark_id, removed, pointer="/measures")
    _require_direction(session, benchmark_id, matches, pointer="/measures")
    unchanged = {
        # By identity, because several revisions of a KPI have the same id.
        id(old)
        for old, body in matches
        if old is not None and _stored_values(old) == _body_values(body)
    }
    for kpi in current:
        if id(kpi) not in unchanged:
            kpi.retired_at = now
    session.flush()
    for old, body in matches:
        if id(old) not in unchanged:
            kpi_id = old.id if old is not None else body.id or new_id()
            _insert_kpi(session, benchmark_id, kpi_id, body, now)


def _with_direction(body: KpiBodyT) -> KpiBodyT:
    """The KPI with its direction: the one of its formula unless it has one."""
    if body.direction is not None:
        return body
    return body.model_copy(update={"direction": direction_of_formula(body.formula)})


def follows_formula(kpi: KpiDefinition) -> bool:
    """Return whether the direction is that of the formula, so that it changes with the formula."""
    try:
        return direction_of_formula(kpi.formula) == kpi.direction
    except InvalidFormula:
        return False


def _require_direction(
    session: Session,
    benchmark_id: str,
    matches: Sequence[tuple[KpiDefinition | None, KpiBody]],
    pointer: str,
) -> None:
    """Raise `KpiInUse` if a KPI loses its direction and an alert rule needs it."""
    undirected = {
        old.id: old.name
        for old, body in matches
        if old is not None
        and old.direction != Direction.NEITHER
        and body.direction == Direction.NEITHER
    }
    require_no_direction_needed(session, benchmark_id, undirected, pointer)


def _revise_kpi(
    session: Session, current: KpiDefinition, body: KpiBody, now: datetime
) -> KpiDefinition:
    if _stored_values(current) == _body_values(body):
        return current
    current.retired_at = now
    session.flush()
    return _insert_kpi(session, current.benchmark_id, current.id, body, now)


def _match_kpis(current: Sequence[KpiDefinition], bodies: Sequence[KpiCreate]) -> list[KpiMatch]:
    """Match each sent KPI with the stored one of the same id, or without an id of the same name.

    A stored KPI whose id another sent KPI has is not matched by name.
    """
    by_id = {kpi.id: kpi for kpi in current}
    sent_ids = {body.id for body in bodies}
    by_name = {kpi.name.casefold(): kpi for kpi in current if kpi.id not in sent_ids}
    return [
        KpiMatch(by_id.get(body.id) if body.id else by_name.get(body.name.casefold()), body)
        for body in bodies
    ]


def _insert_kpi(
    session: Session, benchmark_id: str, kpi_id: str, body: KpiBody, now: datetime
) -> KpiDefinition:
    """Insert the next revision of a KPI, also of a retired one, or the first of a new KPI."""
    kpi = KpiDefinition(
        id=kpi_id,
        revision=queries.get_last_revision(session, benchmark_id, kpi_id) + 1,
        benchmark_id=benchmark_id,
        created_at=now,
        **_body_values(body),
    )
    session.add(kpi)
    try:
        session.flush()
    except IntegrityError:
        raise _kpi_taken(kpi_id, body.name) from None
    return kpi


def _kpi_taken(kpi_id: str, name: str) -> Conflict:
    return Conflict(
        f"the KPI id {kpi_id!r} or name {name!r} is taken; choose another, or PATCH that KPI"
    )


def _stored_values(kpi: KpiDefinition) -> dict[str, Any]:
    return {name: getattr(kpi, name) for name in KPI_FIELDS}


def _body_values(body: KpiBody) -> dict[str, Any]:
    return {name: getattr(body, name) for name in KPI_FIELDS}


def _set_agents(session: Session, benchmark_id: str, agent_ids: Iterable[str]) -> None:
    session.execute(delete(BenchmarkAgent).where(BenchmarkAgent.benchmark_id == benchmark_id))
    session.add_all(
        BenchmarkAgent(benchmark_id=benchmark_id, agent_id=agent_id)
        for agent_id in sorted(set(agent_ids))
    )
    session.flush()


def _field_errors(session: Session, values: Mapping[str, Any]) -> list[ErrorItem]:
    """All errors of the given fields of a benchmark."""
    checks: dict[str, Callable[[Any], list[ErrorItem]]] = {
        "source": _source_errors,
        "metrics": _metric_errors,
        "evaluates": lambda agent_ids: _agent_errors(session, agent_ids),
        "measures": _kpi_errors,
        "judge_calibration": _judge_calibration_errors,
    }
    return [
        error for name, check in checks.items() if name in values for error in check(values[name])
    ]


def _metric_errors(metrics: Iterable[MetricSelection]) -> list[ErrorItem]:
    return rules.metric_errors([metric.ref for metric in metrics])


def _kpi_errors(kpis: Sequence[KpiCreate]) -> list[ErrorItem]:
    errors = rules.kpi_list_errors(kpis)
    for index, kpi in enumerate(kpis):
        errors += rules.kpi_errors(kpi, pointer=f"/measures/{index}")
    return errors


def _judge_calibration_errors(calibration: JudgeCalibration | None) -> list[ErrorItem]:
    """The errors of the metric that is calibrated."""
    if calibration is None:
        return []
    return [
        replace(error, pointer=error.pointer.replace("/metrics/0", "/judgeCalibration/metric", 1))
        for error in _metric_errors([calibration.metric])
    ]


def _source_errors(source: str | None) -> list[ErrorItem]:
    if source is None:
        return []
    try:
        TRACE_SOURCES.get(source)
    except AppError as error:
        return [ErrorItem(pointer="/source", detail=error.detail)]
    return []


def _trigger_errors(session: Session, benchmark: Benchmark) -> list[ErrorItem]:
    """The errors of the triggers, given the other fields of the benchmark."""
    triggers = benchmark.triggers
    errors = []
    if triggers.has_any and not queries.get_agent_ids_by_benchmark(session, [benchmark.id]):
        detail = "triggers start runs of the agents in this list; add at least one agent"
        errors.append(ErrorItem(pointer="/evaluates", detail=detail))
    if triggers.new_run is not None and benchmark.production is not None:
        detail = (
            "a benchmark of production traces has no dataset runs that could start a run; omit "
            "newRun"
        )
        errors.append(ErrorItem(pointer="/triggers/newRun", detail=detail))
    # Without a source of its own, the agent decides: one with Langfuse keys has runs to list.
    elif triggers.new_run is not None and (
        benchmark.source is not None and TRACE_SOURCES.get(benchmark.source).list_runs is None
    ):
        detail = f"the source {benchmark.source!r} cannot list runs; omit newRun"
        errors.append(ErrorItem(pointer="/triggers/newRun", detail=detail))
    return errors


def _agent_errors(session: Session, agent_ids: Sequence[str]) -> list[ErrorItem]:
    """An error for each unknown agent; locks the others against deletion."""
    existing_ids = lock_existing_agents(session, agent_ids)
    return [
        ErrorItem(
            pointer=f"/evaluates/{index}",
            detail=f"the agent {agent_id!r} does not exist; create the agent first, or remove its ID",
        )
        for index, agent_id in enumerate(agent_ids)
        if agent_id not in existing_ids
    ]


def _raise_if_any(errors: Sequence[ErrorItem]) -> None:
    if errors:
        raise Invalid(
            "the request is not valid; `errors` lists each field to correct", errors=errors
        )


def _columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """The column values: `metadata` is a reserved name of SQLAlchemy models."""
    columns = {name: value for name, value in values.items() if name not in RELATED_FIELDS}
    if "metadata" in columns:
        columns["metadata_"] = columns.pop("metadata")
    return columns


def _find_benchmarks_of_agent(session: Session, owner: Owner) -> list[Dependent]:
    """The benchmarks that list an agent: without it, a list might be empty, which means any agent."""
    if owner.kind != "agent":
        return []
    benchmarks = queries.list_benchmarks_of_agent(session, owner.id, MAX_FOUND)
    return [Dependent("benchmark", row.id, row.display_name) for row in benchmarks]


DEPENDENTS.append(DependentKind(_find_benchmarks_of_agent))
