"""B5 and B7: reads of the history of a benchmark and an agent."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from benchmarks.bulk.timings import REPEATS, ROWS, Timing, milliseconds_since
from mosaico.alerts.incident_queries import MAX_SPANS
from mosaico.alerts.models import Incident
from mosaico.comparison.baselines import list_baseline_runs, list_last_valid_runs
from mosaico.core.db import Database
from mosaico.run_store.kpi_trend import list_kpi_points
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import get_run
from mosaico.run_store.run_history import list_comparable_runs, list_valid_seqs
from mosaico.run_store.run_series import list_series_runs
from mosaico.statistics.sequential import MAX_REFERENCE
from tests.support.results import PLAN

SET_PLANS: Final = "UPDATE benchmark_runs SET plan = CAST(:plan AS jsonb) WHERE seq >= :from"


def time_history(db: Database) -> Iterator[Timing]:
    """The queries of the newest of all runs for those that it is compared with."""
    with db.begin() as session:
        # Of those that are read: a document in each of a million rows would fill the disk.
        session.execute(text(SET_PLANS), {"plan": PLAN.model_dump_json(), "from": ROWS - 100})
    with db.read() as session:
        run = get_run(session, f"run-{ROWS}")
        # Each lasted two of three runs.
        incidents = [(ROWS - 3 * n, ROWS - 3 * n + 2) for n in range(MAX_SPANS, 0, -1)]
        for name, read in (
            ("baseline", lambda: list_baseline_runs(session, run, 5)),
            ("last valid runs", lambda: list_last_valid_runs(session, run, 5)),
            ("comparable runs", partial(_list_comparable, session, run, "f", [])),
            ("runs between incidents", partial(_list_comparable, session, run, "f", incidents)),
            (
                "runs of an accepted level",
                partial(_list_comparable, session, run, "f", [(0, ROWS - 10)]),
            ),
            (
                "runs of an incident",
                lambda: list_valid_seqs(session, "b", "a", 1, run.seq, limit=Incident.MAX_RUNS),
            ),
            ("series", lambda: list_series_runs(session, run.seq)),
        ):
            assert read()
            yield Timing(name, min(_time_read(read) for _ in range(REPEATS)))
        read = partial(_list_comparable, session, run, "new", [])
        assert not read()
        yield Timing("runs of a new fingerprint", min(_time_read(read) for _ in range(REPEATS)))


def _list_comparable(
    session: Session, run: BenchmarkRun, fingerprint: str, excluded: Sequence[tuple[int, int]]
) -> Sequence[object]:
    return list_comparable_runs(
        session,
        run.benchmark_id,
        run.agent_id,
        fingerprint=fingerprint,
        before=run.seq,
        limit=MAX_REFERENCE,
        excluded=excluded,
    )


def _time_read(read: Callable[[], Sequence[object]]) -> float:
    started = time.perf_counter()
    read()
    return milliseconds_since(started)


def time_trend(session: Session) -> float:
    started = time.perf_counter()
    assert list_kpi_points(session, "b", "a", "k")
    return milliseconds_since(started)
