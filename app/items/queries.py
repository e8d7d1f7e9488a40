"""Reads the items of stored runs: metric values, attributes and trace links."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from app.core.db import stream_rows
from app.items.attributes import AttributeRow, ItemAttributes, attributes_of_rows
from app.items.matrix import ItemMatrix, ItemRow, matrix_of_rows
from app.results.models import BenchmarkRun
from app.traces.models import CollectedTrace
from app.traces.types import MAX_TAG_VALUE_CHARS, TraceOutcome

# More items do not change a verdict: with 20,000 a difference of half a point is detectable.
MAX_ITEMS = 20_000
MAX_LINKS_PER_ITEM = 3
INPUT_CHARS = 160

# The digest of an item's task: its expected output, and the `task:` tags in which the harnesses put
# a digest of everything that the model sees and that is checked. An item with another digest is
# another task under the same ID.
REVISION = """
    md5(coalesce(trace.expected_output, '')
        || CASE WHEN strpos(array_to_string(trace.tags, ' '), 'task:') > 0
           THEN coalesce((SELECT string_agg(tag, ',' ORDER BY tag COLLATE "C")
                          FROM unnest(trace.tags) AS tag WHERE starts_with(tag, 'task:')), '')
           ELSE '' END)
"""

# The tags of a trace, and its attributes as tags: `Trace.all_tags`.
ALL_TAGS = f"""
    CASE WHEN trace.attributes IS NULL THEN trace.tags
    ELSE trace.tags || ARRAY(
        SELECT key || ':' || left(value, {MAX_TAG_VALUE_CHARS}) FROM jsonb_each_text(trace.attributes)
    ) END
"""  # noqa: S608 - only a constant

# Items are selected by MD5, which selects the same items in every run and every version of Postgres.
_SELECTED_ITEMS = """
    SELECT trace.item_id
    FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
    WHERE run.seq = ANY(:runs)
    GROUP BY trace.item_id ORDER BY md5(trace.item_id), trace.item_id COLLATE "C" LIMIT :max_items
"""

ITEM_ROWS = text(
    f"""
    WITH selected AS ({_SELECTED_ITEMS})
    SELECT run.seq, trace.item_id, {REVISION}, {ALL_TAGS}, result.values
    FROM benchmark_runs AS run
    JOIN trace_results AS result ON result.run_seq = run.seq
    JOIN collected_traces AS trace
      ON trace.collection_id = run.collection_id AND trace.position = result.position
    WHERE run.seq = ANY(:runs) AND trace.item_id IN (SELECT item_id FROM selected)
    ORDER BY trace.item_id COLLATE "C", run.seq, trace.trial, result.position
    """  # noqa: S608 - only constants
)
ITEM_COUNT = text(
    """
    SELECT count(DISTINCT trace.item_id)
    FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
    WHERE run.seq = ANY(:runs)
    """
)
ATTRIBUTE_ROWS = text(
    f"""
    WITH selected AS ({_SELECTED_ITEMS})
    SELECT trace.item_id, {REVISION}, {ALL_TAGS}, trace.outcome,
           jsonb_path_query_array(trace.tool_calls, '$[*].name'),
           trace.latency_ms, trace.input_tokens + trace.output_tokens, trace.cost_usd
    FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
    WHERE run.seq = ANY(:runs) AND trace.item_id IN (SELECT item_id FROM selected)
    ORDER BY trace.item_id COLLATE "C", run.seq, trace.trial, trace.position
    """  # noqa: S608 - only constants
)


HAS_TAG_FIELD = text(
    f"""
    SELECT EXISTS (
        SELECT FROM collected_traces AS trace, unnest({ALL_TAGS}) AS tag
        WHERE trace.collection_id = :collection AND starts_with(tag, :prefix)
    )
    """  # noqa: S608 - only constants
)


class ItemTraceLink(NamedTuple):
    """A trace of an item, and its page at the trace source."""

    item_id: str
    trace_id: str
    url: str | None


def read_items(
    session: Session,
    columns: Mapping[int, Sequence[str]],
    metrics: Sequence[str],
    *,
    cluster_field: str | None = None,
    is_sample: bool = False,
) -> ItemMatrix:
    """The given metrics of some runs by item; the trials of an item in several runs are combined.

    `columns` are the stored metrics of each run, by its seq. Reads row by row and keeps 8 bytes per
    trace and metric, of at most `MAX_ITEMS` items.
    """
    # Large runs take longer than the limit for requests; the caller runs in a job or a child.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    parameters = {"runs": list(columns), "max_items": MAX_ITEMS}
    rows = (ItemRow(*row) for row in stream_rows(session, ITEM_ROWS, parameters))
    matrix = matrix_of_rows(
        rows, columns, metrics, cluster_field=cluster_field, is_sample=is_sample
    )
    if len(matrix.items) < MAX_ITEMS:
        return matrix
    item_count = session.scalar(ITEM_COUNT, {"runs": list(columns)}) or 0
    return replace(matrix, left_out=item_count - len(matrix.items))


def read_attributes(
    session: Session,
    run_seqs: Sequence[int],
    *,
    cluster_field: str | None,
    is_sample: bool,
) -> ItemAttributes:
    """The attributes of the items that `read_items` selects."""
    session.execute(text("SET LOCAL statement_timeout = 0"))
    parameters = {"runs": list(run_seqs), "max_items": MAX_ITEMS}
    rows = (_attribute_row(*row) for row in stream_rows(session, ATTRIBUTE_ROWS, parameters))
    return attributes_of_rows(rows, cluster_field=cluster_field, is_sample=is_sample)


def has_tag_field(session: Session, run: BenchmarkRun, field: str) -> bool:
    """Return whether a trace of the run has a tag `field:…` or an attribute `field`."""
    parameters = {"collection": run.collection_id, "prefix": f"{field}:"}
    return bool(session.scalar(HAS_TAG_FIELD, parameters))


def list_trace_links(
    session: Session, run: BenchmarkRun, items: Sequence[str]
) -> list[ItemTraceLink]:
    """The first three traces of each item."""
    statement = (
        select(CollectedTrace.item_id, CollectedTrace.trace_id, CollectedTrace.url)
        .where(CollectedTrace.collection_id == run.collection_id, CollectedTrace.item_id.in_(items))
        .order_by(CollectedTrace.item_id, CollectedTrace.trial, CollectedTrace.position)
    )
    links: dict[str, list[ItemTraceLink]] = {}
    for row in session.execute(statement):
        links.setdefault(row.item_id, []).append(ItemTraceLink(*row))
    return [link for item_links in links.values() for link in item_links[:MAX_LINKS_PER_ITEM]]


def _attribute_row(
    item_id: str, revision: str, tags: list[str], outcome: str, tools: Any, *usage: float | None
) -> AttributeRow:
    return AttributeRow(item_id, revision, tags, TraceOutcome(outcome), tools or [], usage)


def read_item_inputs(
    session: Session, run: BenchmarkRun, item_ids: Sequence[str]
) -> dict[str, str]:
    """The beginnings of the inputs of items, by item; items without an input are left out."""
    statement = (
        # The trials of an item have one input.
        select(
            CollectedTrace.item_id,
            func.min(func.left(CollectedTrace.input, INPUT_CHARS)).label("beginning"),
        )
        .where(
            CollectedTrace.collection_id == run.collection_id,
            CollectedTrace.item_id.in_(item_ids),
            CollectedTrace.input.is_not(None),
        )
        .group_by(CollectedTrace.item_id)
    )
    return {row.item_id: row.beginning for row in session.execute(statement)}
