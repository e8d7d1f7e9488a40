"""Reads and writes of the series of runs, in the database."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

from sqlalchemy import ScalarSelect, Table, and_, func, insert, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session, aliased

from mosaico.core.batches import STATEMENT_ROWS, batched
from mosaico.kpis.series_types import SeriesState
from mosaico.run_store.models import POSITION, BenchmarkRun, RunItems, RunSeries
from mosaico.run_store.series_points import ItemIndex, SeriesResult, SeriesValues, StoredPoint
from mosaico.statistics.sequential import MAX_REFERENCE
from mosaico.statistics.verdict_rules import Scale

STATEMENT_BYTES: Final = 1024**2

_RUN = aliased(BenchmarkRun)
_SERIES_FIELDS = ("benchmark_id", "agent_id", "fingerprint")
_IS_SAME_SERIES = and_(
    *(getattr(_RUN, name) == getattr(BenchmarkRun, name) for name in _SERIES_FIELDS)
)


def list_series_runs(session: Session, run_seq: int, *, with_night: bool = True) -> list[int]:
    """The last runs of the same agent and fingerprint before the night of a run whose data were new and not late,
    oldest first; at most 60. `with_night`: also an earlier reading of its source run.
    """
    night = _night_of_run(run_seq)
    statement = (
        select(BenchmarkRun.seq)
        # Values and not a join, so that PostgreSQL reads the index of the series backward.
        .where(
            *(
                getattr(BenchmarkRun, name) == _field_of_run(run_seq, name)
                for name in _SERIES_FIELDS
            ),
            # Also before it: an earlier reading of its source run, which had other data.
            night >= POSITION if with_night else night > POSITION,
            BenchmarkRun.seq != run_seq,
            BenchmarkRun.has_new_data,
            BenchmarkRun.is_late.is_(False),
        )
        .order_by(POSITION.desc(), BenchmarkRun.seq.desc())
        .limit(MAX_REFERENCE)
    )
    return list(session.scalars(statement))[::-1]


def list_held_runs(session: Session, runs: Collection[int]) -> set[int]:
    """Those of some runs that are no baseline: their level is bad, until somebody accepts it."""
    statement = select(BenchmarkRun.seq).where(
        BenchmarkRun.seq.in_(runs), BenchmarkRun.baseline_hold.is_not(None)
    )
    return {*session.scalars(statement)}


def _field_of_run(run_seq: int, name: str) -> ScalarSelect[str | None]:
    return select(getattr(_RUN, name)).where(_RUN.seq == run_seq).scalar_subquery()


def _night_of_run(run_seq: int) -> ScalarSelect[int]:
    night = func.coalesce(_RUN.source_seq, _RUN.seq)
    return select(night).where(_RUN.seq == run_seq).scalar_subquery()


def list_scales(session: Session, series: str, runs: Collection[int]) -> dict[int, Scale]:
    """The scales of a series in some runs, by sequence number."""
    statement = select(RunSeries.run_seq, RunSeries.scale).where(
        RunSeries.run_seq.in_(runs), RunSeries.series == series
    )
    return {run_seq: Scale(scale) for run_seq, scale in session.execute(statement)}


def find_series_states(session: Session, runs: Collection[int]) -> dict[str, SeriesState]:
    """The state of each series after the newest of some runs; series without a state are left out."""
    statement = (
        select(RunSeries.series, RunSeries.state)
        .where(RunSeries.run_seq.in_(runs), RunSeries.state.is_not(None))
        # The newest row of each series, in one statement.
        .ext(distinct_on(RunSeries.series))
        .order_by(RunSeries.series, RunSeries.run_seq.desc())
    )
    return {series: state for series, state in session.execute(statement) if state is not None}


def list_item_indexes(session: Session, runs: Collection[int]) -> dict[int, ItemIndex]:
    """The items of some runs by sequence number; runs without any are left out."""
    statement = select(RunItems.run_seq, RunItems.keys, RunItems.traces, RunItems.clusters).where(
        RunItems.run_seq.in_(runs)
    )
    return {row.run_seq: ItemIndex(*row[1:]) for row in session.execute(statement)}


def list_series_values(
    session: Session, series: Collection[str], runs: Collection[int]
) -> list[SeriesValues]:
    """The points of some series in some runs, oldest first."""
    statement = (
        select(
            RunSeries.series,
            RunSeries.run_seq,
            RunSeries.scale,
            RunSeries.level,
            RunSeries.item_values,
            RunSeries.assumed_sd,
        )
        .where(RunSeries.run_seq.in_(runs), RunSeries.series.in_(series))
        .order_by(RunSeries.run_seq)
    )
    return [SeriesValues(*row) for row in session.execute(statement)]


def list_newest_series(session: Session, run_seq: int) -> list[RunSeries]:
    """The newest series of the agent and fingerprint of a run; locked until the transaction ends."""
    newest = (
        select(func.max(RunSeries.run_seq))
        .join(BenchmarkRun, BenchmarkRun.seq == RunSeries.run_seq)
        .join(_RUN, _IS_SAME_SERIES)
        .where(_RUN.seq == run_seq)
        .scalar_subquery()
    )
    return list(
        session.scalars(select(RunSeries).where(RunSeries.run_seq == newest).with_for_update())
    )


def list_open_series(session: Session, run_seq: int) -> list[RunSeries]:
    """Those of `list_newest_series` of which an incident is open."""
    newest = list_newest_series(session, run_seq)
    return [series for series in newest if series.state and series.state.incident]


def list_points(session: Session, series: str, runs: Collection[int]) -> list[StoredPoint]:
    """The points of a series in some runs, oldest first; runs without one are left out."""
    statement = (
        select(
            RunSeries.run_seq,
            RunSeries.scale,
            RunSeries.level,
            RunSeries.item_values,
            RunItems.keys,
            RunItems.traces,
            RunItems.clusters,
            RunSeries.assumed_sd,
        )
        .join(RunItems, RunItems.run_seq == RunSeries.run_seq)
        .where(RunSeries.series == series, RunSeries.run_seq.in_(list(runs)))
        .order_by(RunSeries.run_seq)
    )
    return [
        StoredPoint(seq, scale, level, item_values, ItemIndex(keys, traces, clusters), assumed_sd)
        for seq, scale, level, item_values, keys, traces, clusters, assumed_sd in session.execute(
            statement
        )
    ]


def store_points(
    session: Session,
    run_seq: int,
    items: ItemIndex,
    series_results: Mapping[str, SeriesResult],
) -> None:
    """Stores the items and the series of a run."""
    session.execute(insert(RunItems).values(run_seq=run_seq, **items._asdict()))
    rows = [
        {
            "run_seq": run_seq,
            "series": series,
            "scale": series_result.point.scale,
            "level": series_result.point.level,
            "item_values": series_result.point.item_values,
            "assumed_sd": series_result.point.assumed_sd,
            "state": series_result.state,
        }
        for series, series_result in series_results.items()
    ]
    # The values of an item have as many bytes as its number of traces.
    _insert_series(session, rows, STATEMENT_BYTES // max(1, len(items.traces)))


def _insert_series(session: Session, rows: Sequence[Mapping[str, object]], max_rows: int) -> None:
    for batch in batched(rows, max(1, min(max_rows, STATEMENT_ROWS))):
        # The table and not the class: the ORM would send rows with and without values apart.
        session.execute(insert(cast("Table", RunSeries.__table__)), batch)
