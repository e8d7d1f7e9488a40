"""Erases the texts of an item or of a user, for a request of deletion; values and verdicts stay."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, delete, exists, func, select, text, type_coerce, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from mosaico.annotations.service import remove_texts
from mosaico.core.batch_delete import BATCH_ROWS
from mosaico.core.batches import batched
from mosaico.core.db import Database
from mosaico.core.defaults import KEEP_LLM_ANSWERS
from mosaico.core.errors import Conflict
from mosaico.core.text import join_words
from mosaico.metrics.types import MetricNote
from mosaico.notes.models import Note
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.runs.erased_attributes import forget_values, read_pairs
from mosaico.traces.datasets.erasure import ErasedItem, erase_items, list_datasets_with
from mosaico.traces.models import (
    CollectedTrace,
    Collection,
    LocalDataset,
    OtelSpan,
    TraceTranscript,
)

# Of a batch of spans: one trace can have a hundred thousand.
SPAN_TRACES: Final = 50
# The attribute of a trace that says when its texts were erased.
ERASED: Final = "erased"
USER: Final = "user"
TEXT_COLUMNS: Final = (
    *("input", "expected_output", "output", "error", "tool_calls", "expected_any", "expected_all"),
)
NOT_REACHED: Final = (
    "Not reached: backups of the database, alerts, messages and exports that were made, notes about whole runs and incidents, the"
    " reasons of versions of datasets, items that were made of a trace under another ID before their origin named its"
    " item, the source of the traces, and answers of"
    f" models in the LLM cache, which end after {KEEP_LLM_ANSWERS.days} days."
)


class AmbiguousItem(Conflict):
    """Several datasets have an item with this ID; name one of them (`dataset`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureSubject:
    """Whose texts are erased: those of an item of a dataset, or those of the traces with an attribute `user`; one of
    both. Without a `dataset`, an item may be in one only.
    """

    item_id: str | None = None
    user_id: str | None = None
    dataset: str | None = None

    @property
    def in_traces(self) -> ColumnElement[bool]:
        if self.item_id is not None:
            return CollectedTrace.item_id == self.item_id
        user: ColumnElement[str] = CollectedTrace.attributes[USER].astext
        return user == self.user_id

    @property
    def is_named_in_spans(self) -> ColumnElement[bool]:
        """Whether a span names an item, or a user: this one or another."""
        if self.item_id is not None:
            return OtelSpan.item_id.is_not(None)
        user: ColumnElement[str] = OtelSpan.facts[USER].astext
        return user.is_not(None)

    @property
    def in_spans(self) -> ColumnElement[bool]:
        if self.item_id is not None:
            of_item: ColumnElement[bool] = OtelSpan.item_id == self.item_id
            if self.dataset is not None:
                return of_item & (OtelSpan.dataset == self.dataset)
            # Without a key, a trace of production is an item of its own.
            return of_item | (OtelSpan.item_id.is_(None) & (OtelSpan.trace_id == self.item_id))
        user: ColumnElement[str] = OtelSpan.facts[USER].astext
        return user == self.user_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedTexts:
    """The numbers of traces whose texts were erased, of received spans that were deleted, and of items of datasets whose
    texts were erased, in all of their versions.
    """

    traces: int
    spans: int
    items: int


def erase_texts(db: Database, subject: ErasureSubject, now: datetime) -> ErasedTexts:
    """Erase the texts of all stored traces of a subject, in uploads and in runs, with their transcripts, the reasons
    of judges and what people wrote about them, and of its items in datasets, and delete its received spans. Repeating it erases nothing more.

    Each batch is a transaction of its own. Raises: `AmbiguousItem`, before anything is erased.
    """
    with db.read() as session:
        collection_ids = _find_collections(session, subject)
    traces = 0
    for collection_id in collection_ids:

        def erase(session: Session, collection_id: int = collection_id) -> int:
            return _erase_traces(session, collection_id, subject, now)

        traces += _in_batches(db, erase)
    items = erase_items(db, ErasedItem(**asdict(subject)), now)
    return ErasedTexts(traces=traces, spans=erase_spans(db, subject), items=items)


def _find_collections(session: Session, subject: ErasureSubject) -> list[int]:
    """The collections with traces of a subject. Raises: `AmbiguousItem`."""
    # All traces are read: an item and a user have no index, for requests that come once a year.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    traces = select(CollectedTrace.collection_id).where(subject.in_traces).distinct()
    collection_ids = sorted(session.scalars(traces))
    if subject.item_id is None:
        return collection_ids
    datasets = _datasets_of(session, collection_ids)
    if subject.dataset is not None:
        return [key for key in collection_ids if subject.dataset in datasets[key]]
    spans = select(OtelSpan.dataset).where(subject.in_spans).distinct()
    names = {
        *chain.from_iterable(datasets.values()),
        *session.scalars(spans),
        *list_datasets_with(session, subject.item_id),
    } - {None}
    if len(names) > 1:
        raise AmbiguousItem(
            f"the item {subject.item_id!r} is in the datasets {join_words(sorted(map(repr, names)), 'and')}; name one of them"
        )
    return collection_ids


def _datasets_of(session: Session, collection_ids: Sequence[int]) -> dict[int, set[str | None]]:
    """The datasets whose traces collections have: those of their runs and uploads."""
    of_runs = type_coerce(BenchmarkRun.plan, JSONB)["dataset_ref"].astext
    statements = (
        select(BenchmarkRun.collection_id, of_runs),
        select(LocalDataset.collection_id, LocalDataset.name),
        select(Collection.id, Collection.query["dataset_ref"].astext),
    )
    datasets = defaultdict[int, set[str | None]](set)
    for statement in statements:
        for batch in batched(collection_ids):
            [collection_id, _] = statement.selected_columns
            for row in session.execute(statement.where(collection_id.in_(batch))):
                datasets[row[0]].add(row[1])
    return datasets


class SpanOwner(NamedTuple):
    """A span, and whether it names the subject itself, or any subject."""

    span_id: str
    parent_id: str | None
    is_of_subject: bool
    is_named: bool


def _spans_to_delete(spans: Sequence[SpanOwner]) -> list[str]:
    """The spans of a trace without those that belong to others: the ones that name another subject, and what is below.

    What is above belongs to nobody alone, and can repeat the texts of the subject.
    """
    parents = {span.span_id: span.parent_id for span in spans}
    is_of_others = {span.span_id: not span.is_of_subject for span in spans if span.is_named}
    for span in spans:
        path: dict[str, None] = {}
        above: str | None = span.span_id
        # Up to the next span that names somebody; broken writers make circles.
        while above in parents and above not in is_of_others and above not in path:
            path[above] = None
            above = parents[above]
        is_of_others |= dict.fromkeys(path, is_of_others.get(above or "", False))
    return [span_id for span_id, of_others in is_of_others.items() if not of_others]


def has_erased_texts(session: Session, collection_id: int) -> bool:
    """Return whether texts of a collection were erased since it was stored."""
    erased = exists().where(
        CollectedTrace.collection_id == collection_id,
        func.coalesce(CollectedTrace.attributes[ERASED].astext, "") != "",
    )
    return bool(session.scalar(select(erased)))


def erase_spans(db: Database, subject: ErasureSubject) -> int:
    """Delete the received spans of a subject; returns their number."""
    return _in_batches(db, lambda session: _delete_spans(session, subject))


def _delete_spans(session: Session, subject: ErasureSubject) -> int:
    """Delete the spans of some traces with spans of the subject, without those of others in the same trace."""
    named = select(OtelSpan.trace_id).where(subject.in_spans).distinct().limit(SPAN_TRACES)
    trace_ids = list(session.scalars(named))
    deleted = 0
    for trace_id in trace_ids:
        is_named = subject.in_spans.label("is_named")
        spans = select(OtelSpan.span_id, OtelSpan.parent_id, is_named, subject.is_named_in_spans)
        rows = session.execute(spans.where(OtelSpan.trace_id == trace_id))
        span_ids = _spans_to_delete(
            [SpanOwner(*row[:2], bool(row[2]), bool(row[3])) for row in rows]
        )
        for batch in batched(span_ids):
            statement = delete(OtelSpan).where(
                OtelSpan.trace_id == trace_id, OtelSpan.span_id.in_(batch)
            )
            session.execute(statement)
        deleted += len(span_ids)
    return deleted


def _in_batches(db: Database, change: Callable[[Session], int]) -> int:
    """Change rows in transactions of a batch each, until none is left; returns their number."""
    total, changed = 0, -1
    while changed:
        with db.begin() as session:
            changed = change(session)
        total += changed
    return total


def _erase_traces(
    session: Session, collection_id: int, subject: ErasureSubject, now: datetime
) -> int:
    is_left = func.coalesce(CollectedTrace.attributes[ERASED].astext, "") == ""
    statement = (
        select(CollectedTrace.position)
        .where(CollectedTrace.collection_id == collection_id, subject.in_traces, is_left)
        .limit(BATCH_ROWS)
    )
    positions = list(session.scalars(statement))
    if not positions:
        return 0
    erased_pairs = read_pairs(session, collection_id, positions)
    remove_texts_at(session, collection_id, positions, attributes={ERASED: now.date().isoformat()})
    _delete_notes(session, collection_id, positions)
    forget_values(session, collection_id, erased_pairs)
    return len(positions)


def _delete_notes(session: Session, collection_id: int, positions: Sequence[int]) -> None:
    """Delete what people wrote about the items of traces, in all runs over the collection: it may quote them."""
    runs = select(BenchmarkRun.id).where(BenchmarkRun.collection_id == collection_id)
    items = select(CollectedTrace.item_id).where(
        CollectedTrace.collection_id == collection_id, CollectedTrace.position.in_(positions)
    )
    session.execute(delete(Note).where(Note.run_id.in_(runs), Note.item_id.in_(items)))


def remove_texts_at(
    session: Session, collection_id: int, positions: Sequence[int], **changes: Any
) -> None:
    """Remove the texts of traces of a collection, at most `BATCH_ROWS`, with their transcripts, the reasons of
    judges and the texts of annotations; further columns get the `changes`.
    """
    session.execute(
        update(CollectedTrace)
        .where(
            CollectedTrace.collection_id == collection_id, CollectedTrace.position.in_(positions)
        )
        .values({**dict.fromkeys(TEXT_COLUMNS), **changes})
    )
    session.execute(
        delete(TraceTranscript).where(
            TraceTranscript.collection_id == collection_id,
            TraceTranscript.position.in_(positions),
        )
    )
    _erase_reasons(session, collection_id, positions)
    remove_texts(session, collection_id, positions)


def _erase_reasons(session: Session, collection_id: int, positions: Sequence[int]) -> None:
    """Erase what judges wrote about the traces, in all runs over the collection."""
    runs = select(BenchmarkRun.seq).where(BenchmarkRun.collection_id == collection_id)
    statement = select(TraceResult).where(
        TraceResult.run_seq.in_(runs),
        TraceResult.position.in_(positions),
        TraceResult.notes.is_not(None),
    )
    for result in session.scalars(statement):
        result.notes = _without_reasons(result.notes or {})


def _without_reasons(notes: dict[str, MetricNote]) -> dict[str, MetricNote] | None:
    kept = {metric: _without_texts(note) for metric, note in notes.items()}
    return {metric: note for metric, note in kept.items() if note} or None


def _without_texts(note: MetricNote) -> MetricNote:
    """Why a value is missing, without the words of a judge or of an error."""
    kept: MetricNote = {}
    if "skipped" in note:
        kept["skipped"] = note["skipped"]
    if "failed" in note:
        kept["failed"] = note["failed"]
    return kept
