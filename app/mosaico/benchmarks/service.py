"""Create, change and delete benchmarks."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.agents.queries import lock_existing_agents
from mosaico.agents.source_fields import default_source
from mosaico.benchmarks import queries, rules
from mosaico.benchmarks.config_types import JudgeCalibration, MetricSelection
from mosaico.benchmarks.kpi_service import follow_metrics, follows_formula, set_kpis
from mosaico.benchmarks.models import Benchmark, BenchmarkAgent
from mosaico.benchmarks.revisions import add_revision, split_note
from mosaico.benchmarks.schemas import (
    BenchmarkBody,
    BenchmarkCreate,
    KpiCreate,
)
from mosaico.benchmarks.source_fit import SOURCE_FIELDS, source_fit_errors
from mosaico.core.dependents import (
    DEPENDENTS,
    MAX_FOUND,
    NO_CONSENT,
    Consent,
    DeletedResource,
    Dependent,
    DependentKind,
    delete_owner,
)
from mosaico.core.errors import AppError, Conflict, ErrorItem
from mosaico.core.ids import new_id
from mosaico.core.row_limits import BENCHMARK_FINDERS
from mosaico.core.schemas import all_fields
from mosaico.traces.redaction import RedactionRules
from mosaico.traces.redaction_owners import RULE_OWNERS, Arrival
from mosaico.traces.registry import TRACE_SOURCES

RELATED_FIELDS = {"evaluates", "measures"}


class BenchmarkInUse(Conflict):
    """Runs refer to the benchmark; PATCH it with {"archived": true}."""


def create_benchmark(session: Session, body: BenchmarkCreate, now: datetime) -> Benchmark:
    """Raises: `Conflict` if the id is taken, `Invalid` with all errors."""
    values = all_fields(body)
    rules.raise_if_any(
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
    set_kpis(session, benchmark, body.measures, now)
    session.refresh(benchmark)
    # Last, because triggers depend on agents and source; the transaction is rolled back with all of
    # it.
    rules.raise_if_any(_trigger_errors(session, benchmark))
    return benchmark


def change_benchmark(
    session: Session, benchmark_id: str, body: BenchmarkBody, now: datetime
) -> Benchmark:
    """Write the given fields; `measures` are matched with the stored KPIs by id or name."""
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    values, note = split_note(body.given_fields())
    if not values:
        return benchmark
    before = {name: getattr(benchmark, name) for name in _columns(values)}
    # All of them, also when only the source changes: a stored setting may not fit the new one.
    fields = {name: values.get(name, getattr(benchmark, name)) for name in SOURCE_FIELDS}
    rules.raise_if_any(_field_errors(session, values) + source_fit_errors(fields))
    followers = []
    if "metrics" in values and "measures" not in values:
        followers = list(filter(follows_formula, queries.get_kpis(session, benchmark_id)))
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
        set_kpis(session, benchmark, values["measures"], now)
    follow_metrics(session, benchmark, followers, now)
    session.flush()
    rules.raise_if_any(_trigger_errors(session, benchmark))
    return benchmark


def delete_benchmark(
    session: Session, benchmark_id: str, now: datetime, consent: Consent = NO_CONSENT
) -> None:
    """Delete a benchmark, and with `consent` its schedules, alert rules and webhook secrets.

    Raises: `BenchmarkInUse` if runs refer to the benchmark, `DependentsExist`.
    """
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    owner = DeletedResource("benchmark", benchmark_id)
    delete_owner(session, owner, benchmark, consent, now, in_use=BenchmarkInUse)


def evaluated_agent_errors(session: Session, benchmark_id: str, agent_id: str) -> list[ErrorItem]:
    """The error of an agent that the benchmark does not evaluate; an empty list evaluates any agent."""
    evaluated = queries.get_agent_ids_by_benchmark(session, [benchmark_id]).get(benchmark_id)
    if not evaluated or agent_id in evaluated:
        return []
    detail = "is not one of the agents that the benchmark evaluates; add it to `evaluates`"
    return [ErrorItem(pointer="/agentId", detail=detail)]


def source_of(benchmark: Benchmark, agent: Agent) -> str:
    """The trace source of the runs of an agent."""
    return benchmark.source or default_source(agent)


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


def _columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """The column values: `metadata` is a reserved name of SQLAlchemy models."""
    columns = {name: value for name, value in values.items() if name not in RELATED_FIELDS}
    if "metadata" in columns:
        columns["metadata_"] = columns.pop("metadata")
    return columns


def _find_benchmarks_of_agent(session: Session, owner: DeletedResource) -> list[Dependent]:
    """The benchmarks that list an agent: without it, a list might be empty, which means any agent."""
    benchmarks = queries.list_benchmarks_of_agent(session, owner.id, MAX_FOUND)
    return [Dependent("benchmark", row.id, row.display_name) for row in benchmarks]


DEPENDENTS.append(DependentKind({"agent"}, _find_benchmarks_of_agent))


def _find_redaction_rules(session: Session, arrival: Arrival) -> list[RedactionRules]:
    """The rules of the benchmarks that read what arrives; without a source of its own, a benchmark reads that of each
    agent.
    """
    statement = select(Benchmark.redact).where(~Benchmark.archived, Benchmark.redact.is_not(None))
    if arrival.dataset is not None:
        # Whatever its source: an agent can be run over the items of an upload, too.
        statement = statement.where(Benchmark.dataset_ref == arrival.dataset)
    else:
        is_read = Benchmark.source.is_(None) | (Benchmark.source == arrival.source)
        statement = statement.where(is_read)
    return [rules for rules in session.scalars(statement) if rules is not None]


RULE_OWNERS.append(_find_redaction_rules)


def _find_ids(session: Session, ids: Collection[str]) -> Collection[str]:
    return session.scalars(select(Benchmark.id).where(Benchmark.id.in_(ids))).all()


BENCHMARK_FINDERS.append(_find_ids)
