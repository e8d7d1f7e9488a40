"""Reads the items of stored runs: metric values, attributes and trace links."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from app.comparison.item_attributes import TraitRow, Traits, traits_of_rows
from app.comparison.item_matrix import ItemRow, ItemTable, table_of_rows
from app.results.models import BenchmarkRun
from app.traces.models import CollectedTrace
from app.traces.types import TraceOutcome

# More items tell nothing that changes a verdict: 20,000 show differences of half a point.
MOST_ITEMS = 20_000
ROWS_AT_ONCE = 2_000
MOST_TRACES_OF_ITEM = 3

# An item whose expected answer is another one, or a task that asks something else (the harnesses tag
# each with the digest of all that the model sees and all that is checked), is another item.
REVISION = """
    md5(coalesce(trace.expected_output, '')
        || CASE WHEN strpos(array_to_string(trace.tags, ' '), 'task:') > 0
           THEN coalesce((SELECT string_agg(tag, ',' ORDER BY tag COLLATE "C")
                          FROM unnest(trace.tags) AS tag WHERE starts_with(tag, 'task:')), '')
           ELSE '' END)
"""

ITEM_ROWS = text(
    f"""
    WITH kept AS (
        SELECT trace.item_id
        FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
        WHERE run.seq = ANY(:runs)
        GROUP BY trace.item_id ORDER BY md5(trace.item_id), trace.item_id COLLATE "C" LIMIT :most
    )
    SELECT run.seq, trace.item_id, {REVISION}, trace.tags, result.values
    FROM benchmark_runs AS run
    JOIN trace_results AS result ON result.run_seq = run.seq
    JOIN collected_traces AS trace
      ON trace.collection_id = run.collection_id AND trace.position = result.position
    WHERE run.seq = ANY(:runs) AND trace.item_id IN (SELECT item_id FROM kept)
    ORDER BY trace.item_id COLLATE "C", run.seq, trace.trial, result.position
    """  # noqa: S608 - only constants
)


ALL_ITEMS = text(
    """
    SELECT count(DISTINCT trace.item_id)
    FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
    WHERE run.seq = ANY(:runs)
    """
)


TRAIT_ROWS = text(
    f"""
    WITH kept AS (
        SELECT trace.item_id
        FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
        WHERE run.seq = ANY(:runs)
        GROUP BY trace.item_id ORDER BY md5(trace.item_id), trace.item_id COLLATE "C" LIMIT :most
    )
    SELECT trace.item_id, {REVISION}, trace.tags, trace.outcome,
           jsonb_path_query_array(trace.tool_calls, '$[*].name'),
           trace.latency_ms, trace.input_tokens + trace.output_tokens, trace.cost_usd
    FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
    WHERE run.seq = ANY(:runs) AND trace.item_id IN (SELECT item_id FROM kept)
    ORDER BY trace.item_id COLLATE "C", run.seq, trace.trial, trace.position
    """  # noqa: S608 - only constants
)


class Link(NamedTuple):
    """A trace of an item, and where it can be looked at."""

    item_id: str
    trace_id: str
    url: str | None


def items_of_runs(
    session: Session,
    columns: Mapping[int, Sequence[str]],
    wanted: Sequence[str],
    *,
    cluster_field: str | None = None,
) -> ItemTable:
    """The wanted metrics of some runs, item by item; `columns` are the metrics of each run by its
    seq. Runs are taken together: the trials of an item in one run are added to those in the others.

    Cost:    reads row by row and keeps 8 bytes a trace and metric, of at most `MOST_ITEMS` items;
             of more, those whose ids come first by their MD5, which are the same in each run.
    """
    session.execute(text("SET LOCAL statement_timeout = 0"))
    asked = {"runs": list(columns), "most": MOST_ITEMS}
    found = session.execute(ITEM_ROWS.execution_options(yield_per=ROWS_AT_ONCE), asked)
    rows = (ItemRow(*row) for row in found)
    table = table_of_rows(rows, columns, wanted, cluster_field=cluster_field)
    if len(table.items) < MOST_ITEMS:
        return table
    known = session.scalar(ALL_ITEMS, {"runs": list(columns)}) or 0
    return replace(table, left_out=known - len(table.items))


def traits_of_runs(
    session: Session, run_seqs: Sequence[int], *, cluster_field: str | None = None
) -> Traits:
    """The same items that `items_of_runs` reads, row by row."""
    session.execute(text("SET LOCAL statement_timeout = 0"))
    asked = {"runs": list(run_seqs), "most": MOST_ITEMS}
    found = session.execute(TRAIT_ROWS.execution_options(yield_per=ROWS_AT_ONCE), asked)
    return traits_of_rows((_trait(*row) for row in found), cluster_field=cluster_field)


def links_of_items(session: Session, run: BenchmarkRun, items: Sequence[str]) -> list[Link]:
    """The first traces of some items."""
    statement = (
        select(CollectedTrace.item_id, CollectedTrace.trace_id, CollectedTrace.url)
        .where(CollectedTrace.collection_id == run.collection_id, CollectedTrace.item_id.in_(items))
        .order_by(CollectedTrace.item_id, CollectedTrace.trial, CollectedTrace.position)
    )
    found: dict[str, list[Link]] = {}
    for row in session.execute(statement):
        found.setdefault(row.item_id, []).append(Link(*row))
    return [link for links in found.values() for link in links[:MOST_TRACES_OF_ITEM]]


def _trait(
    item_id: str, revision: str, tags: list[str], outcome: str, tools: Any, *usage: float | None
) -> TraitRow:
    return TraitRow(item_id, revision, tags, TraceOutcome(outcome), tools or [], usage)
