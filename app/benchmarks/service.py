from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.agents.queries import lock_existing_agents
from app.benchmarks import queries, rules
from app.benchmarks.event_triggers import EventTriggers
from app.benchmarks.models import Benchmark, BenchmarkAgent, KpiDefinition
from app.benchmarks.schemas import (
    MAX_KPIS,
    BenchmarkCreate,
    JudgeCalibration,
    KpiBody,
    KpiCreate,
    MetricSelection,
    WriteBackConfig,
)
from app.core.errors import AppError, Conflict, ErrorItem, Invalid
from app.core.ids import new_id
from app.core.schemas import all_fields
from app.harness.harness_config import parse_harness, validate_harness
from app.metrics.types import MetricRef
from app.traces.registry import TRACE_SOURCES

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
NESTED = {"evaluates", "measures"}


class KpiMatch(NamedTuple):
    """A KPI as a client wants it, and the one that it replaces."""

    old: KpiDefinition | None
    body: KpiCreate


def create_benchmark(session: Session, body: BenchmarkCreate, now: datetime) -> Benchmark:
    """Raises: `Conflict` when the id is taken, `Invalid` with all that is wrong."""
    values = all_fields(body)
    _require_none(
        _errors(session, values)
        + _write_back_errors(body.source, body.write_back)
        + _harness_errors(body.source, body.dataset_ref, body.harness)
    )
    benchmark = Benchmark(**_columns({**values, "id": body.id or new_id()}))
    session.add(benchmark)
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(
            f"the benchmark id {benchmark.id!r} is taken; choose another or PATCH that one"
        ) from None
    _set_agents(session, benchmark.id, body.evaluates)
    set_kpis(session, benchmark.id, body.measures, now)
    session.refresh(benchmark)
    _require_none(_trigger_errors(session, benchmark))
    return benchmark


def change_benchmark(
    session: Session, benchmark_id: str, values: Mapping[str, Any], now: datetime
) -> Benchmark:
    """Write the given fields; KPIs keep their identity by id or name."""
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    if not values:
        return benchmark
    source = values.get("source", benchmark.source)
    write_back = values.get("write_back") or WriteBackConfig.model_validate(benchmark.write_back)
    harness = values.get("harness", benchmark.harness)
    _require_none(
        _errors(session, values)
        + _write_back_errors(source, write_back)
        + _harness_errors(source, values.get("dataset_ref", benchmark.dataset_ref), harness)
    )
    for name, value in _columns(values).items():
        setattr(benchmark, name, value)
    benchmark.revision += 1
    benchmark.updated_at = now
    if "evaluates" in values:
        _set_agents(session, benchmark_id, values["evaluates"])
    if "measures" in values:
        set_kpis(session, benchmark_id, values["measures"], now)
    session.flush()
    _require_none(_trigger_errors(session, benchmark))
    return benchmark


def delete_benchmark(session: Session, benchmark_id: str) -> None:
    """Raises: `Conflict` when runs refer to the benchmark."""
    session.delete(queries.get_benchmark(session, benchmark_id, for_update=True))
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(
            f"runs or schedules refer to the benchmark {benchmark_id!r};"
            ' PATCH it with {"archived": true} to hide it and keep its history',
            code="benchmark-in-use",
        ) from None


def create_kpi(
    session: Session, benchmark_id: str, body: KpiCreate, now: datetime
) -> KpiDefinition:
    """Raises: `Conflict` when id or name is taken, `Invalid` when the formula is wrong."""
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    _require_none(rules.kpi_errors(body, at=""))
    kpis = queries.get_kpis_by_benchmark(session, [benchmark_id]).get(benchmark_id, [])
    if len(kpis) >= MAX_KPIS:
        raise Conflict(f"a benchmark has at most {MAX_KPIS} KPIs; delete one first")
    if body.id in {kpi.id for kpi in kpis}:
        raise _kpi_taken(body.id, body.name)
    kpi = _insert_kpi(session, benchmark_id, body.id or new_id(), body, now)
    _bump_revision(session, benchmark, now)
    return kpi


def change_kpi(
    session: Session, benchmark_id: str, kpi_id: str, values: Mapping[str, Any], now: datetime
) -> KpiDefinition:
    """Make a new revision with the given fields changed; the same again when nothing changes."""
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    current = queries.get_kpi(session, benchmark_id, kpi_id)
    body = KpiBody.model_validate({**_stored_values(current), **values})
    _require_none(rules.kpi_errors(body, at=""))
    revised = _revise_kpi(session, current, body, now)
    if revised is not current:
        _bump_revision(session, benchmark, now)
    return revised


def delete_kpi(session: Session, benchmark_id: str, kpi_id: str, now: datetime) -> None:
    """Retire a KPI: later runs have it no more, the history keeps what it was."""
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    queries.get_kpi(session, benchmark_id, kpi_id).retired_at = now
    _bump_revision(session, benchmark, now)


def set_kpis(
    session: Session, benchmark_id: str, bodies: Sequence[KpiCreate], now: datetime
) -> None:
    """Make these the KPIs of the benchmark: found again by id or name, revised when they differ,
    the others retired. All are retired before any is written, so that two may swap their names.
    """
    before = queries.get_kpis_by_benchmark(session, [benchmark_id]).get(benchmark_id, [])
    matches = _match_kpis(before, bodies)
    same = {
        id(old)
        for old, body in matches
        if old is not None and _stored_values(old) == _body_values(body)
    }
    for kpi in before:
        if id(kpi) not in same:
            kpi.retired_at = now
    session.flush()
    for old, body in matches:
        if id(old) not in same:
            kpi_id = old.id if old is not None else body.id or new_id()
            _insert_kpi(session, benchmark_id, kpi_id, body, now)


def metric_refs(metrics: Iterable[MetricSelection]) -> list[MetricRef]:
    return [MetricRef.of(metric.key, metric.options) for metric in metrics]


def _bump_revision(session: Session, benchmark: Benchmark, now: datetime) -> None:
    """What is shown of a benchmark shows its KPIs: an edit of one is an edit of both."""
    benchmark.revision += 1
    benchmark.updated_at = now
    session.flush()


def _revise_kpi(
    session: Session, current: KpiDefinition, body: KpiBody, now: datetime
) -> KpiDefinition:
    if _stored_values(current) == _body_values(body):
        return current
    current.retired_at = now
    session.flush()
    return _insert_kpi(session, current.benchmark_id, current.id, body, now)


def _match_kpis(before: Sequence[KpiDefinition], bodies: Sequence[KpiCreate]) -> list[KpiMatch]:
    """Each KPI with the one that it replaces: that of its id, or without an id that of its name
    unless another KPI claims it.
    """
    by_id = {kpi.id: kpi for kpi in before}
    claimed = {body.id for body in bodies}
    by_name = {kpi.name.casefold(): kpi for kpi in before if kpi.id not in claimed}
    return [
        KpiMatch(by_id.get(body.id) if body.id else by_name.get(body.name.casefold()), body)
        for body in bodies
    ]


def _insert_kpi(
    session: Session, benchmark_id: str, kpi_id: str, body: KpiBody, now: datetime
) -> KpiDefinition:
    """The first revision, or the next one of a KPI that the benchmark has or had."""
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
        f"the KPI id {kpi_id!r} or name {name!r} is taken; choose another or PATCH that one"
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


def _errors(session: Session, values: Mapping[str, Any]) -> list[ErrorItem]:
    """Everything wrong with the given fields of a benchmark."""
    checks: dict[str, Callable[[Any], list[ErrorItem]]] = {
        "source": _source_errors,
        "metrics": lambda metrics: rules.metric_errors(metric_refs(metrics)),
        "evaluates": lambda agent_ids: _agent_errors(session, agent_ids),
        "measures": _kpi_errors,
        "judge_drift": _drift_errors,
    }
    return [
        error for name, check in checks.items() if name in values for error in check(values[name])
    ]


def _kpi_errors(kpis: Sequence[KpiCreate]) -> list[ErrorItem]:
    errors = rules.kpi_list_errors(kpis)
    for index, kpi in enumerate(kpis):
        errors += rules.kpi_errors(kpi, at=f"/measures/{index}")
    return errors


def _drift_errors(drift: JudgeCalibration | None) -> list[ErrorItem]:
    """What is wrong with the metric whose drift is watched."""
    if drift is None:
        return []
    return [
        replace(error, pointer=error.pointer.replace("/metrics/0", "/judgeDrift/metric", 1))
        for error in rules.metric_errors(metric_refs([drift.metric]))
    ]


def _source_errors(source: str) -> list[ErrorItem]:
    try:
        TRACE_SOURCES.get(source)
    except AppError as error:
        return [ErrorItem(pointer="/source", detail=error.detail)]
    return []


def _write_back_errors(source: str, wanted: WriteBackConfig) -> list[ErrorItem]:
    """Whether the source takes scores at all; an unknown one is told elsewhere."""
    spec = TRACE_SOURCES.find(source)
    if spec is None or spec.write_scores is not None or not (wanted.kpis or wanted.metrics):
        return []
    names = TRACE_SOURCES.names()
    takers = ", ".join(name for name in names if TRACE_SOURCES.get(name).write_scores is not None)
    detail = f"the source {source!r} takes no scores; choose {takers}, or set both to false"
    return [ErrorItem(pointer="/writeBack", detail=detail)]


def _harness_errors(source: str, dataset_ref: str | None, harness: Any) -> list[ErrorItem]:
    """Whether something is ordered exactly where a model is asked, and what fits the dataset; an
    unknown source is told elsewhere.
    """
    spec = TRACE_SOURCES.find(source)
    if spec is None:
        return []
    detail = None
    if harness is None:
        if spec.runs_models:
            detail = (
                f'the source {source!r} asks a model; name it as {{"provider": …, "model": …}}, or'
                " send {} for a YAML of ot-bench"
            )
    elif spec.runs_models:
        detail = validate_harness(dataset_ref, parse_harness(harness))
    else:
        detail = f"the source {source!r} asks no model; leave harness out, or set it to null"
    return [ErrorItem(pointer="/harness", detail=detail)] if detail else []


def _trigger_errors(session: Session, benchmark: Benchmark) -> list[ErrorItem]:
    """What the triggers of a benchmark as it stands lack."""
    triggers = EventTriggers.model_validate(benchmark.triggers)
    errors = []
    if triggers.has_any and not queries.get_agent_ids_by_benchmark(session, [benchmark.id]):
        detail = "events start runs of the agents that are listed here; list at least one"
        errors.append(ErrorItem(pointer="/evaluates", detail=detail))
    if triggers.new_run is not None and TRACE_SOURCES.get(benchmark.source).list_runs is None:
        detail = f"the source {benchmark.source!r} cannot list its runs; leave newRun out"
        errors.append(ErrorItem(pointer="/triggers/newRun", detail=detail))
    return errors


def _agent_errors(session: Session, agent_ids: Sequence[str]) -> list[ErrorItem]:
    """Keeps the agents from being deleted until the transaction ends."""
    known = lock_existing_agents(session, agent_ids)
    return [
        ErrorItem(
            pointer=f"/evaluates/{index}",
            detail=f"there is no agent {agent_id!r}; create it first, or leave it out",
        )
        for index, agent_id in enumerate(agent_ids)
        if agent_id not in known
    ]


def _require_none(errors: Sequence[ErrorItem]) -> None:
    if errors:
        raise Invalid("the request is not valid; mend what `errors` lists", errors=errors)


def _columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the table: `metadata` is a reserved name of its class."""
    columns = {name: value for name, value in values.items() if name not in NESTED}
    if "metadata" in columns:
        columns["metadata_"] = columns.pop("metadata")
    if "triggers" in columns:
        columns["triggers"] = columns["triggers"].model_dump(mode="json")
    if "metrics" in columns:
        columns["metrics"] = [metric.model_dump() for metric in columns["metrics"]]
    for name in ("harness", "judge_drift", "baseline"):
        if columns.get(name) is not None:
            columns[name] = columns[name].model_dump(mode="json")
    if "write_back" in columns:
        columns["write_back"] = columns["write_back"].model_dump()
    return columns
