"""Port of those who watch KPIs: a watched KPI is not retired, and keeps a direction that is needed.

Alert rules refer to KPIs and are a higher layer, so they register themselves here. A foreign key
cannot guard a KPI, because a retired one keeps its row.
"""

from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

from sqlalchemy.orm import Session

from mosaico.core.errors import Conflict, ErrorItem


class KpiWatcher(NamedTuple):
    """Something that stops working without the KPI; `name` is what people call it."""

    kpi_id: str
    kind: str
    id: str
    name: str


class FindWatchers(Protocol):
    """Finds the first watchers of KPIs of a benchmark; with `need_direction`, of those that also stop working
    when the KPI has no direction.
    """

    def __call__(
        self,
        session: Session,
        benchmark_id: str,
        kpi_ids: Collection[str],
        /,
        *,
        need_direction: bool,
    ) -> list[KpiWatcher]: ...


KPI_WATCHERS: Final[list[FindWatchers]] = []


class KpiInUse(Conflict):
    """Alert rules watch the KPI; rename it by its ID, or change or delete the rules first."""


def require_unwatched(
    session: Session, benchmark_id: str, names_by_id: dict[str, str], pointer: str
) -> None:
    """Raise `KpiInUse`, with the first watchers, if one of these KPIs is watched. The caller has locked
    the benchmark; every writer of a watcher locks it, too.
    """
    watchers = _find_watchers(session, benchmark_id, names_by_id, need_direction=False)
    if watchers:
        raise _in_use(
            watchers,
            names_by_id,
            pointer,
            problem="cannot be removed, because",
            remedy="to rename a KPI send its `id` with the new name, otherwise change or delete them"
            " first",
        )


def require_no_direction_needed(
    session: Session, benchmark_id: str, names_by_id: dict[str, str], pointer: str
) -> None:
    """Raise `KpiInUse` if a watcher needs the direction of one of these KPIs, which lose theirs. The
    caller has locked the benchmark.
    """
    watchers = _find_watchers(session, benchmark_id, names_by_id, need_direction=True)
    if watchers:
        raise _in_use(
            watchers,
            names_by_id,
            pointer,
            problem="needs a direction, because",
            remedy="keep the `direction`, or first change their condition to a threshold, or delete"
            " them",
        )


def _find_watchers(
    session: Session, benchmark_id: str, kpi_ids: Collection[str], *, need_direction: bool
) -> list[KpiWatcher]:
    if not kpi_ids:
        return []
    return [
        watcher
        for find_watchers in KPI_WATCHERS
        for watcher in find_watchers(session, benchmark_id, kpi_ids, need_direction=need_direction)
    ]


def _in_use(
    watchers: list[KpiWatcher],
    names_by_id: dict[str, str],
    pointer: str,
    *,
    problem: str,
    remedy: str,
) -> KpiInUse:
    watched = ", ".join(sorted({repr(names_by_id[watcher.kpi_id]) for watcher in watchers}))
    names = ", ".join(f"{watcher.name!r} ({watcher.id})" for watcher in watchers)
    return KpiInUse(
        f"{watched} {problem} the {watchers[0].kind}s {names} watch it; {remedy}",
        errors=[
            ErrorItem(
                pointer=pointer,
                detail=f"the {watcher.kind} {watcher.name!r} ({watcher.id}) watches the KPI"
                f" {names_by_id[watcher.kpi_id]!r}",
            )
            for watcher in watchers
        ],
    )
