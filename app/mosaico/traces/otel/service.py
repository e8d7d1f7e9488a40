"""Stores the spans of exports, and deletes old traces."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, Final, NamedTuple

from sqlalchemy import delete, select, text
from sqlalchemy.orm import Session

from mosaico.core.bulk_copy import copy_encoded_file, encode_json, encode_row
from mosaico.core.text import replace_unstorable
from mosaico.traces.models import OtelSpan, OtelTrace
from mosaico.traces.otel.facts import FactReader
from mosaico.traces.otel.spans import RejectedSpan, Span, dump_content
from mosaico.traces.otel.unread import UnreadTexts

TRACES_PER_BATCH: Final = 500
MAX_REASONS: Final = 3

_NANOSECONDS = struct.Struct(">q")
_COLUMNS: Final = (
    "trace_id",
    "span_id",
    "parent_id",
    "name",
    "start_ns",
    "end_ns",
    "dataset",
    "run_name",
    "item_id",
    "facts",
    "content",
)

# One per connection: a table per export would fill the catalogs of the database.
_CREATE_BATCH = text(
    """
    CREATE TEMPORARY TABLE IF NOT EXISTS otel_span_batch (
        trace_id text, span_id text, parent_id text, name text, start_ns bigint, end_ns bigint,
        dataset text, run_name text, item_id text, facts jsonb, content text
    ) ON COMMIT DELETE ROWS
    """
)
# The order of the traces is that in which their rows are locked: two exports never wait for each
# other. The time of a trace is settled by its first export and never changes: otherwise a root,
# which comes last and started first, would move a trace out of a window that is not read yet into
# one that is. A start that is not within a day before the arrival is taken for a wrong clock.
_MERGE_TRACES = text(
    """
    INSERT INTO otel_traces AS old
        (trace_id, occurred_at, has_root, first_received_at, last_received_at)
    SELECT trace_id,
           CASE WHEN started_at BETWEEN :now - interval '1 day' AND :now THEN started_at
                ELSE :now END,
           has_root, :now, :now
    FROM (
        SELECT trace_id, to_timestamp(min(start_ns) / 1e9) AS started_at,
               bool_or(parent_id IS NULL) AS has_root
        FROM otel_span_batch GROUP BY trace_id
    ) AS batch
    ORDER BY trace_id
    ON CONFLICT (trace_id) DO UPDATE SET
        has_root = old.has_root OR excluded.has_root,
        last_received_at = greatest(old.last_received_at, excluded.last_received_at)
    """
)
# A repeated export finds equal rows and writes nothing.
_MERGE_SPANS = text(
    f"""
    INSERT INTO otel_spans AS old ({", ".join(_COLUMNS)})
    SELECT DISTINCT ON (trace_id, span_id) {", ".join(_COLUMNS)}
    FROM otel_span_batch ORDER BY trace_id, span_id, end_ns DESC
    ON CONFLICT (trace_id, span_id) DO UPDATE SET
        {", ".join(f"{column} = excluded.{column}" for column in _COLUMNS[2:])}
    WHERE (old.content, old.end_ns, old.parent_id)
          IS DISTINCT FROM (excluded.content, excluded.end_ns, excluded.parent_id)
    """  # noqa: S608 - constants of this module
)


@dataclass(slots=True)
class SpanCounts:
    """What is known of the spans of an export.

    `count` are those that can be stored, `rejected` the others, and `reasons` has the first of their reasons. `unread`
    finds texts that will not be understood.
    """

    count: int = 0
    rejected: int = 0
    reasons: list[str] = field(default_factory=list)
    unread: UnreadTexts = field(default_factory=UnreadTexts)

    @property
    def message(self) -> str:
        """What the client should know; empty when every span is stored and understood."""
        unread = self.unread.describe()
        reasons = [f"a span {reason}" for reason in self.reasons]
        return "; ".join(reasons if unread is None else [*reasons, unread])

    def reject(self, span: RejectedSpan) -> None:
        self.rejected += 1
        if len(self.reasons) < MAX_REASONS and span.reason not in self.reasons:
            self.reasons.append(span.reason)


class EncodedSpans(NamedTuple):
    """The spans of an export as rows to copy; `rows` is at its beginning."""

    rows: IO[bytes]
    counts: SpanCounts


def write_spans(spans: Iterable[Span | RejectedSpan], rows: IO[bytes]) -> SpanCounts:
    """Write the rows of spans as they are read.

    Before the transaction that stores them: 100,000 spans take seconds.
    """
    counts, facts = SpanCounts(), FactReader()
    for span in spans:
        if isinstance(span, RejectedSpan):
            counts.reject(span)
            continue
        rows.write(_encode_span(span, facts))
        counts.unread.add(span)
        counts.count += 1
    return counts


def store_spans(session: Session, spans: EncodedSpans, now: datetime) -> None:
    """Store the spans of an export; a span that is stored already is replaced.

    Locks:  the traces of the export, so that their deletion and other exports wait.
    """
    # More rows than the limit that protects requests expects; a client waits ten seconds.
    session.execute(text("SET LOCAL statement_timeout = '60s'"))
    session.execute(_CREATE_BATCH)
    copy_encoded_file(session, "otel_span_batch", _COLUMNS, spans.rows)
    session.execute(_MERGE_TRACES, {"now": now})
    session.execute(_MERGE_SPANS)


def delete_expired_traces(session: Session, now: datetime, *, keep: timedelta) -> int:
    """Delete a batch of the traces whose last span came longer than `keep` ago; returns its size."""
    expired = (
        select(OtelTrace.trace_id)
        .where(OtelTrace.last_received_at < now - keep)
        .limit(TRACES_PER_BATCH)
        # A trace that just now receives a span stays.
        .with_for_update(skip_locked=True)
    )
    trace_ids = list(session.scalars(expired))
    session.execute(delete(OtelSpan).where(OtelSpan.trace_id.in_(trace_ids)))
    session.execute(delete(OtelTrace).where(OtelTrace.trace_id.in_(trace_ids)))
    return len(trace_ids)


def _encode_span(span: Span, reader: FactReader) -> bytes:
    facts = reader.read(span)
    document = facts.document()
    return encode_row(
        span.trace_id.encode(),
        span.span_id.encode(),
        None if span.parent_id is None else span.parent_id.encode(),
        replace_unstorable(span.name).encode(),
        _NANOSECONDS.pack(span.start_ns),
        _NANOSECONDS.pack(span.end_ns),
        *((None, None, None) if facts.item is None else (name.encode() for name in facts.item)),
        encode_json(document) if document else None,
        dump_content(span).encode(),
    )
