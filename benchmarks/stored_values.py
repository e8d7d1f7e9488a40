"""What a run has stored, in a form in which two runs of the same traces can be compared."""

from typing import Any, Final, NamedTuple

from tests.support.stored import KPIS, METRICS, DatabaseReader

VALUES: Final = """
    SELECT count(*), count(DISTINCT position),
           md5(string_agg(concat_ws(' ', position, "values"::text, notes::text), ',' ORDER BY position))
    FROM trace_results JOIN benchmark_runs ON seq = run_seq WHERE id = %s
"""


class StoredValues(NamedTuple):
    """The values of each trace in their order, as a digest, and the metrics and KPIs of the run."""

    rows: int
    positions: int
    md5: str
    metrics: list[tuple[Any, ...]]
    kpis: list[tuple[Any, ...]]


def stored_values(database: DatabaseReader, run_id: str) -> StoredValues:
    [(rows, positions, md5)] = database.all(VALUES, run_id)
    return StoredValues(
        rows, positions, md5, database.all(METRICS, run_id), database.all(KPIS, run_id)
    )
