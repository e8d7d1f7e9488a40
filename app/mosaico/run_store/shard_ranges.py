"""The traces of a run divided into ranges, which workers measure in parallel."""

from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

_TRACE_BYTES = """
    coalesce(octet_length(input), 0) + coalesce(octet_length(expected_output), 0) + coalesce(octet_length(output), 0)
"""
SHARD_RANGES = text(
    f"""
    SELECT min(position) AS first, max(position) AS last, sum({_TRACE_BYTES}) AS bytes
    FROM collected_traces
    WHERE collection_id = (SELECT collection_id FROM benchmark_runs WHERE id = :run)
    GROUP BY position / :traces
    """  # noqa: S608 - only constants
)
# Reads only the ranges with too many bytes: a running sum takes three times as long.
SPLIT_RANGES = text(
    f"""
    WITH sized AS (
        SELECT position, position / :traces AS range,
               sum({_TRACE_BYTES}) OVER (PARTITION BY position / :traces ORDER BY position) AS bytes
        FROM collected_traces
        WHERE collection_id = (SELECT collection_id FROM benchmark_runs WHERE id = :run)
          AND position / :traces = ANY(:ranges)
    )
    SELECT min(position) AS first, max(position) AS last
    FROM sized GROUP BY range, div(bytes, :bytes)
    """  # noqa: S608 - only constants
)


class ShardRange(NamedTuple):
    """A range of positions in a collection, both ends included."""

    first: int
    last: int


def list_shard_ranges(
    session: Session, run_id: str, *, traces: int, size_bytes: int
) -> list[ShardRange]:
    """Split the traces of a run into ranges of at most `traces` traces and about `size_bytes` of texts.
    The same collection is always split in the same way, which makes shards of two runs comparable.
    """
    # Reads the sizes of all texts of a collection, which may take longer than a request may.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    parameters: dict[str, object] = {"run": run_id, "traces": traces}
    ranges = session.execute(SHARD_RANGES, parameters).all()
    shards = [ShardRange(row.first, row.last) for row in ranges if row.bytes <= size_bytes]
    too_large = [row.first // traces for row in ranges if row.bytes > size_bytes]
    if too_large:
        parameters |= {"ranges": too_large, "bytes": size_bytes}
        shards += [ShardRange(*row) for row in session.execute(SPLIT_RANGES, parameters)]
    return sorted(shards)
