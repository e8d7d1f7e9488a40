"""Ten thousand runs and a million trace results for pages, made in the database."""

from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Table, text
from sqlalchemy.orm import Session

from mosaico.table_list import METADATA
from tests.support.page_data import NIGHTS, PAIRS, write_month

MONTHS: Final = 48
MONTH: Final = timedelta(days=NIGHTS)
TIMES: Final = ("created_at", "started_at", "completed_at", "recorded_at")


def write_many_runs(session: Session, *, months: int = MONTHS, traces_of_run: int = 0) -> None:
    """A month of 210 runs, repeated; each run gets as many trace results as asked for.

    The first month was `months` - 1 months ago, and the copies follow it, so that the order of the
    runs is that of their times.
    """
    session.execute(text("SET LOCAL statement_timeout = 0"))
    write_month(session, now=datetime.now(UTC) - (months - 1) * MONTH)
    # Its copies would be in progress for months, and every page would list them.
    session.execute(text("DELETE FROM benchmark_runs WHERE status = 'RUNNING'"))
    last_seq = session.execute(text("SELECT max(seq) FROM benchmark_runs")).scalar_one()
    count = len(PAIRS) * NIGHTS
    for month in range(1, months):
        _copy_month(session, month, last_seq, count)
    session.execute(
        text(
            "SELECT setval(pg_get_serial_sequence('benchmark_runs', 'seq'),"
            " (SELECT max(seq) FROM benchmark_runs))"
        )
    )
    if traces_of_run:
        session.execute(
            text(
                "INSERT INTO trace_results (run_seq, position, values)"
                " SELECT seq, n, ARRAY[(n % 2)::float8, 800.0 + n] FROM benchmark_runs,"
                " generate_series(0, :last) AS n ON CONFLICT DO NOTHING"
            ),
            {"last": traces_of_run - 1},
        )


def _copy_month(session: Session, month: int, last_seq: int, count: int) -> None:
    """Copy the runs of the first month with their KPIs and metrics `month` months later."""
    # One more than the runs of a month: the numbers of two months never meet.
    offset = month * (count + 1)
    changes = {
        "benchmark_runs": {
            "id": "id || '-' || :month", "seq": "seq + :offset", "source_seq": "seq + :offset",
        },
        "kpi_history": {"run_id": "run_id || '-' || :month", "run_seq": "run_seq + :offset"},
        "run_metrics": {"run_seq": "run_seq + :offset"},
    }  # fmt: skip
    for name, expressions in changes.items():
        table: Table = METADATA.tables[name]
        seq = "seq" if name == "benchmark_runs" else "run_seq"
        columns = [
            column.name
            for column in table.columns
            # Generated columns cannot be written; an identity is, where
            # the copies need a certain number.
            if column.computed is None and (column.identity is None or column.name in expressions)
        ]
        values = [
            f"{column} + :shift" if column in TIMES else expressions.get(column, f'"{column}"')
            for column in columns
        ]
        quoted = ", ".join(f'"{column}"' for column in columns)
        order = "seq" if name == "benchmark_runs" else "run_seq"
        session.execute(
            text(
                f"INSERT INTO {name} ({quoted}) OVERRIDING SYSTEM VALUE SELECT {', '.join(values)} FROM {name}"
                f" WHERE {seq} <= :last_seq ORDER BY {order}"
            ),
            {"month": str(month), "offset": offset, "shift": month * MONTH, "last_seq": last_seq},
        )
