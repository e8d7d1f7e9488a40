"""Reads the items of stored runs: metric values, attributes and trace links."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import TextClause, func, select, text
from sqlalchemy.orm import Session

from mosaico.core.db import stream_rows
from mosaico.items.attributes import AttributeRow, ItemAttributes, attributes_of_rows
from mosaico.items.matrix import (
    MAX_LABEL_BYTES,
    MAX_LABEL_WORDS,
    ItemMatrix,
    ItemRow,
    matrix_of_rows,
)
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import EXCUSED_NOTES
from mosaico.traces.models import CollectedTrace
from mosaico.traces.types import MAX_TAG_VALUE_CHARS, TraceOutcome

# More items do not change a verdict: with 20,000 a difference of half a point is detectable.
MAX_ITEMS = 20_000
# Of the runs of one side: with both sides, a comparison then takes less than 500 MiB.
MAX_TRACES = 400_000
MAX_LINKS_PER_ITEM = 3
INPUT_CHARS = 160

# The digest of an item's task: its expected outputs, and the `task:` tags in which the harnesses put
# a digest of everything that the model sees and that is checked. An item with another digest is
# another task under the same ID.
REVISION = """
    md5(coalesce(trace.expected_output, '')
        || coalesce(array_to_string(trace.expected_any || trace.expected_all, E'\\n'), '')
        || CASE WHEN strpos(array_to_string(trace.tags, ' '), 'task:') > 0
           THEN coalesce((SELECT string_agg(tag, ',' ORDER BY tag COLLATE "C")
                          FROM unnest(trace.tags) AS tag WHERE starts_with(tag, 'task:')), '')
           ELSE '' END)
"""

# As `items.matrix.is_short_text`; words are counted in short texts only.
IS_SHORT = f"""
    CASE WHEN octet_length(trace.expected_output) > {MAX_LABEL_BYTES} THEN false
    ELSE trace.expected_output ~ '^\\s*\\S+(\\s+\\S+){{0,{MAX_LABEL_WORDS - 1}}}\\s*$' END
"""

# The output and the tool calls but for their times. As `items.matrix.answer_digest`: equal for equal answers, but
# another number.
ANSWER = """
    ('x' || left(md5(nullif(trace.output, '') || coalesce((
        SELECT string_agg((call - 'latency_ms' - 'latencyMs')::text, ',' ORDER BY position)
        FROM jsonb_array_elements(trace.tool_calls) WITH ORDINALITY AS calls (call, position)
    ), '')), 16))::bit(64)::bigint
"""

# The tags of a trace, and its attributes as tags: `Trace.all_tags`.
ALL_TAGS = f"""
    CASE WHEN trace.attributes IS NULL THEN trace.tags
    ELSE trace.tags || ARRAY(
        SELECT key || ':' || left(value, {MAX_TAG_VALUE_CHARS}) FROM jsonb_each_text(trace.attributes)
    ) END
"""  # noqa: S608 - only a constant

# As `outcome_in_run`: the results are looked up for failed traces only.
OUTCOME_IN_RUN = f"""
    CASE WHEN trace.outcome IN ('agent_error', 'timeout') AND EXISTS (
        SELECT FROM trace_results AS result WHERE result.run_seq = run.seq AND result.position = trace.position
            AND jsonb_path_exists(result.notes, '{EXCUSED_NOTES}')
    ) THEN 'infra_error' ELSE trace.outcome END
"""


def _read_of_selected_items(columns: str, rows: str) -> TextClause:
    """The statement that reads `rows` of the selected items; `columns` are read of their traces.

    Items are selected by MD5, which selects the same items in every run and every version of Postgres. The last
    selected item is compared, not joined: before Postgres has statistics, a join could compare each trace with each
    item.
    """
    return text(
        f"""
        WITH trace AS MATERIALIZED (
            SELECT run.seq, trace.item_id, trace.trial, trace.position, {columns}
            FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
            WHERE run.seq = ANY(:runs) AND (
                CAST(:last AS text) IS NULL
                OR (md5(trace.item_id) COLLATE "C", trace.item_id COLLATE "C") <= (md5(:last) COLLATE "C", :last)
            )
        )
        {rows}
        ORDER BY trace.item_id COLLATE "C", trace.seq, trace.trial, trace.position
        """  # noqa: S608 - only constants
    )


def _item_rows(answer: str) -> TextClause:
    # One look-up in the primary key for each trace: see `run_store.queries.SCORED_TRACES`.
    return _read_of_selected_items(
        f"{REVISION} AS revision, {ALL_TAGS} AS tags, {IS_SHORT} AS is_short, {answer} AS answer",
        """
        SELECT trace.seq, trace.item_id, trace.revision, trace.tags, result.values, trace.is_short, trace.answer
        FROM trace CROSS JOIN LATERAL (
            SELECT values FROM trace_results
            WHERE run_seq = trace.seq AND position BETWEEN trace.position AND trace.position
            ORDER BY position LIMIT 1
        ) AS result
        """,
    )


ITEM_ROWS = _item_rows("NULL::bigint")
# Outputs may be long, so they are read only where they are compared.
ITEM_ROWS_WITH_ANSWERS = _item_rows(ANSWER)
# The last item that is selected; none of runs with fewer items.
LAST_ITEM = text(
    """
    SELECT item_id FROM (
        SELECT DISTINCT trace.item_id COLLATE "C" AS item_id
        FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
        WHERE run.seq = ANY(:runs)
    ) AS item
    ORDER BY md5(item_id) COLLATE "C", item_id LIMIT 1 OFFSET :max_items - 1
    """
)
ITEM_COUNT = text(
    """
    SELECT count(DISTINCT trace.item_id)
    FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
    WHERE run.seq = ANY(:runs)
    """
)
ATTRIBUTE_ROWS = _read_of_selected_items(
    f"""{REVISION} AS revision, {ALL_TAGS} AS tags, {OUTCOME_IN_RUN} AS outcome,
        jsonb_path_query_array(trace.tool_calls, '$[*].name') AS tools,
        jsonb_path_query_array(trace.tool_calls, '$[*] ? (@.ok == false).name') AS failed_tools,
        trace.input_tokens, trace.latency_ms, trace.input_tokens + trace.output_tokens AS tokens, trace.cost_usd""",
    """
    SELECT item_id, revision, tags, outcome, tools, failed_tools, input_tokens, latency_ms, tokens, cost_usd
    FROM trace
    """,
)
TRACE_COUNT = text("SELECT sum(traces_collected) FROM benchmark_runs WHERE seq = ANY(:runs)")

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
    has_answers: bool = False,
) -> ItemMatrix:
    """The given metrics of some runs by item; the trials of an item in several runs are combined.

    `columns` are the stored metrics of each run, by its seq. `has_answers`: the outputs are read, too, as digests. Reads
    row by row and keeps 8 bytes per trace and metric, of at most `MAX_ITEMS` items and about `MAX_TRACES` traces.
    """
    statement = ITEM_ROWS_WITH_ANSWERS if has_answers else ITEM_ROWS
    runs = list(columns)
    last = _find_last_item(session, runs)
    rows = _read_rows(session, statement, runs, last)
    matrix = matrix_of_rows(
        (ItemRow(*row) for row in rows),
        columns,
        metrics,
        cluster_field=cluster_field,
        is_sample=is_sample,
    )
    if last is None:
        return matrix
    item_count = session.scalar(ITEM_COUNT, {"runs": runs}) or 0
    return replace(matrix, left_out=item_count - len(matrix.items))


def read_attributes(
    session: Session,
    run_seqs: Sequence[int],
    *,
    cluster_field: str | None,
    is_sample: bool,
) -> ItemAttributes:
    """The attributes of the items that `read_items` selects."""
    rows = _read_rows(session, ATTRIBUTE_ROWS, run_seqs, _find_last_item(session, run_seqs))
    return attributes_of_rows(
        (_attribute_row(*row) for row in rows), cluster_field=cluster_field, is_sample=is_sample
    )


def _find_last_item(session: Session, run_seqs: Sequence[int]) -> str | None:
    """The last item that is selected; None where all are, as of few traces."""
    # Large runs take longer than the limit for requests; the caller runs in a job or a child.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    runs = {"runs": list(run_seqs)}
    trace_count = session.scalar(TRACE_COUNT, runs) or 0
    if trace_count <= MAX_ITEMS:
        return None
    max_items = MAX_ITEMS
    # Of many trials, fewer items: each with all of its trials.
    if trace_count > MAX_TRACES:
        item_count = session.scalar(ITEM_COUNT, runs) or 0
        max_items = min(MAX_ITEMS, max(1, int(MAX_TRACES * item_count / trace_count)))
    last: str | None = session.scalar(LAST_ITEM, {**runs, "max_items": max_items})
    return last


def _read_rows(
    session: Session, statement: TextClause, run_seqs: Sequence[int], last: str | None
) -> Iterator[tuple[Any, ...]]:
    """The rows of the selected items."""
    return stream_rows(session, statement, {"runs": list(run_seqs), "last": last})


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
    item_id: str,
    revision: str,
    tags: list[str],
    outcome: str,
    tools: Any,
    failed_tools: Any,
    prompt_size: float | None,
    *usage: float | None,
) -> AttributeRow:
    return AttributeRow(
        item_id,
        revision,
        tags,
        TraceOutcome(outcome),
        tools or [],
        usage,
        failed_tools or [],
        prompt_size,
    )


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
