"""Who edited the benchmark and the agent between two runs."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Row, select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import InstrumentedAttribute, Session

from mosaico.access.queries import list_caller_names
from mosaico.agents.models import AgentRevision
from mosaico.benchmarks.models import BenchmarkRevision
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.recorded_attributes import WhatChanged

# Of one benchmark or agent between two runs.
MAX_EDITS: Final = 100
_PLAN: Final = type_coerce(BenchmarkRun.plan, JSONB)
_REVISIONS: Final = select(
    BenchmarkRun.id, BenchmarkRun.benchmark_id, BenchmarkRun.agent_id,
    _PLAN["benchmark_revision"].as_integer().label("benchmark_revision"),
    _PLAN["agent_revision"].as_integer().label("agent_revision"),
)  # fmt: skip


def with_authors(session: Session, changes: Mapping[str, WhatChanged]) -> dict[str, WhatChanged]:
    """What changed before each run, by run, with the names of those who edited its benchmark and its agent since the
    baseline run, first edit first.
    """
    baselines = {changed.baseline_run_id for changed in changes.values()} - {None}
    rows = session.execute(_REVISIONS.where(BenchmarkRun.id.in_({*changes, *baselines})))
    runs = {row.id: row for row in rows}
    return {
        run_id: _with_authors(session, changed, runs.get(changed.baseline_run_id), runs.get(run_id))
        for run_id, changed in changes.items()
    }


def _with_authors(
    session: Session, changed: WhatChanged, before: Row[Any] | None, after: Row[Any] | None
) -> WhatChanged:
    if before is None or after is None:
        return changed
    authors = {
        "benchmark_authors": _list_authors(
            session, BenchmarkRevision, BenchmarkRevision.benchmark_id, after.benchmark_id,
            (before.benchmark_revision, after.benchmark_revision),
        ),
        "agent_authors": _list_authors(
            session, AgentRevision, AgentRevision.agent_id, after.agent_id,
            (before.agent_revision, after.agent_revision),
        ),
    }  # fmt: skip
    return changed.model_copy(update=authors)


def _list_authors(
    session: Session,
    table: type[BenchmarkRevision] | type[AgentRevision],
    owner: InstrumentedAttribute[str],
    owner_id: str,
    revisions: tuple[int | None, int | None],
) -> tuple[str, ...]:
    """The names of those who made the revisions after the first one, up to the second one."""
    first, last = revisions
    # Most runs have the revision of the run before, and read nothing.
    if first is None or last is None or first >= last:
        return ()
    edits = select(table.changed_by).where(
        owner == owner_id, table.revision > first, table.revision <= last
    )
    authors = session.scalars(edits.order_by(table.revision).limit(MAX_EDITS)).all()
    names = list_caller_names(session, {*authors})
    return tuple(dict.fromkeys(names[author] for author in authors if author in names))
