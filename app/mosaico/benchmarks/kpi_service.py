"""Create, change and retire the KPIs of a benchmark: each change is a new revision."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.benchmarks import queries, rules
from mosaico.benchmarks.kpi_watchers import require_no_direction_needed, require_unwatched
from mosaico.benchmarks.models import Benchmark, KpiDefinition
from mosaico.benchmarks.revisions import add_revision, split_note
from mosaico.benchmarks.schemas import MAX_KPIS, KpiBody, KpiCreate
from mosaico.core.dependents import NO_CONSENT, Consent, DeletedResource, delete_dependents
from mosaico.core.errors import Conflict
from mosaico.core.ids import new_id
from mosaico.formula import InvalidFormula
from mosaico.metrics.formula_direction import direction_of_formula
from mosaico.metrics.types import Direction, MetricRef, UnknownMetric

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
    "corrected",
)
KpiBodyT = TypeVar("KpiBodyT", bound=KpiBody)


class KpiMatch(NamedTuple):
    """A KPI that a client sent, and the stored KPI that it replaces."""

    old: KpiDefinition | None
    body: KpiCreate


def create_kpi(
    session: Session, benchmark_id: str, body: KpiCreate, now: datetime
) -> KpiDefinition:
    """Raises: `Conflict` if the id or name is taken, `Invalid` if the formula is not valid."""
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    rules.raise_if_any(rules.kpi_errors(body, pointer=""))
    kpis = queries.get_kpis(session, benchmark_id)
    if len(kpis) >= MAX_KPIS:
        raise Conflict(f"a benchmark has at most {MAX_KPIS} KPIs; delete one first")
    # Current KPIs only: an id that was retired may be used again and continues its history.
    if body.id in {kpi.id for kpi in kpis}:
        raise _kpi_taken(body.id, body.name)
    directed = _with_direction(body, _metric_refs(benchmark))
    kpi = _insert_kpi(session, benchmark_id, body.id or new_id(), directed, now)
    add_revision(session, benchmark, now, [f"KPI {kpi.name}: created"])
    return kpi


def change_kpi(
    session: Session, benchmark_id: str, kpi_id: str, edit: KpiBody, now: datetime
) -> KpiDefinition:
    """Create a new revision with the given fields; the current one if nothing changes.

    Raises: `KpiInUse` if an alert rule needs the direction that it loses.
    """
    benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
    values, note = split_note(edit.given_fields())
    current = queries.get_kpi(session, benchmark_id, kpi_id)
    stored = _stored_values(current)
    # The edit is validated; a stored text that `KpiBody` would refuse must not stop another change.
    body = KpiBody.model_construct(**{**stored, **values})
    rules.raise_if_any(rules.kpi_errors(body, pointer=""))
    if "direction" not in values and follows_formula(current):
        body = body.model_copy(update={"direction": None})
    body = _with_direction(body, _metric_refs(benchmark))
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
    delete_dependents(session, DeletedResource("KPI", kpi_id, benchmark_id), consent, now)
    # Never deleted: earlier runs and their comparisons refer to this revision.
    kpi.retired_at = now
    add_revision(session, benchmark, now, [f"KPI {kpi.name}: removed"])


def set_kpis(
    session: Session, benchmark: Benchmark, bodies: Sequence[KpiCreate], now: datetime
) -> None:
    """Replace the KPIs of a benchmark.

    Stored KPIs are matched by id or name: changed ones get a new revision, unmatched ones are
    retired. All are retired before any is written, so that two KPIs can swap their names.
    Raises: `KpiInUse` if alert rules watch an unmatched one, or need the direction of one that
    loses it.
    """
    benchmark_id, metrics = benchmark.id, _metric_refs(benchmark)
    current = queries.get_kpis(session, benchmark_id)
    matches = _match_kpis(current, [_with_direction(body, metrics) for body in bodies])
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


def _with_direction(body: KpiBodyT, metrics: Sequence[MetricRef]) -> KpiBodyT:
    """The KPI with its direction: the one of its formula over the metrics of its benchmark, unless it has one."""
    if body.direction is not None:
        return body
    return body.model_copy(update={"direction": direction_of_formula(body.formula, metrics)})


def _metric_refs(benchmark: Benchmark) -> list[MetricRef]:
    return [metric.ref for metric in benchmark.metrics]


def follow_metrics(
    session: Session, benchmark: Benchmark, followers: Sequence[KpiDefinition], now: datetime
) -> None:
    """Give the KPIs that follow their formula the direction that it has over the new metrics of their benchmark.

    Raises: `KpiInUse` if an alert rule needs the direction that one of them loses.
    """
    metrics = _metric_refs(benchmark)
    edits = [
        (
            kpi,
            _with_direction(
                KpiBody.model_construct(**{**_stored_values(kpi), "direction": None}), metrics
            ),
        )
        for kpi in followers
    ]
    _require_direction(session, benchmark.id, edits, pointer="/metrics")
    for kpi, body in edits:
        _revise_kpi(session, kpi, body, now)


def follows_formula(kpi: KpiDefinition) -> bool:
    """Return whether the direction is that of the formula, so that it changes with the formula."""
    try:
        return direction_of_formula(kpi.formula, kpi.metrics) == kpi.direction
    except (InvalidFormula, UnknownMetric):
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
