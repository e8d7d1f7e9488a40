"""Tables of traces: collections, transcripts, uploads, datasets, spans and circuit breakers."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship
from sqlalchemy.types import Text

from mosaico.core.db import Base, ModelJson
from mosaico.traces.reader_versions import TraceReaderVersion
from mosaico.traces.redaction import RedactionRules


class Collection(Base):
    """The traces of one reading of a source, or of one upload; several runs and uploads can have one
    collection.

    `cursor` is the position in the source after the stored pages, and `as_of` the time at which a
    changing source was read. `source_run_id` and `source_run_at` are the ID and the start of the
    source's own run, if it has runs, and `source_warning` what is uncertain about it. `expected_count` is the number of traces that the source
    reports, and `dataset_items` that of the items of its dataset. `digest` is the digest of the stored traces in order; None when a part of it is unknown.
    `reader` is what read the traces, None where that was not recorded. `redaction` are the rules by which texts were
    redacted before they were stored, and `redacted_texts` counts the texts with marks. `texts_removed_at`: since then all
    texts are gone, and no run takes the collection over any more. `retired_traces` counts the traces of retired items of
    its dataset, which were left out.
    `revision` is the source's name for content that never changes. `completed_at` is None while
    the collection is incomplete, and again before it is deleted.
    """

    __tablename__ = "collections"
    __table_args__ = (
        Index("ix_collections_digest", "digest"),
        Index("ix_collections_revision", "revision"),
    )

    # Not `always`: the rows of an upload are encoded with an ID that was taken from the sequence before.
    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    source: Mapped[str]
    query: Mapped[dict[str, Any]]
    cursor: Mapped[str | None]
    trace_count: Mapped[int] = mapped_column(default=0)
    expected_count: Mapped[int | None]
    dataset_items: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    completed_at: Mapped[datetime | None]
    as_of: Mapped[datetime | None]
    source_run_id: Mapped[str | None]
    source_run_at: Mapped[datetime | None]
    source_warning: Mapped[str | None]
    digest: Mapped[bytes | None]
    revision: Mapped[str | None]
    reader: Mapped[TraceReaderVersion | None] = mapped_column(ModelJson(TraceReaderVersion))
    redaction: Mapped[RedactionRules | None] = mapped_column(ModelJson(RedactionRules))
    redacted_texts: Mapped[int] = mapped_column(default=0, server_default="0")
    texts_removed_at: Mapped[datetime | None]
    retired_traces: Mapped[int] = mapped_column(default=0, server_default="0")


class CollectedTrace(Base):
    """One trace with its texts; `position` is its index in the order of the source.

    Without a foreign key: it would be checked for each trace, and the deletion of a collection would
    look for its traces among the index entries of all that were deleted before it.
    """

    __tablename__ = "collected_traces"
    __table_args__ = (
        UniqueConstraint("collection_id", "trace_id"),
        # One item in many runs.
        Index("ix_collected_traces_collection_id_item_id", "collection_id", "item_id"),
    )

    collection_id: Mapped[int] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    trace_id: Mapped[str]
    item_id: Mapped[str]
    trial: Mapped[int] = mapped_column(SmallInteger)
    outcome: Mapped[str]
    input: Mapped[str | None]
    expected_output: Mapped[str | None]
    output: Mapped[str | None]
    error: Mapped[str | None]
    tags: Mapped[list[str]] = mapped_column(ARRAY(Text))
    attributes: Mapped[Any] = mapped_column(JSONB(none_as_null=True), nullable=True)
    url: Mapped[str | None]
    input_tokens: Mapped[int | None]
    output_tokens: Mapped[int | None]
    cost_usd: Mapped[float | None]
    latency_ms: Mapped[float | None]
    tool_calls: Mapped[Any] = mapped_column(JSONB(none_as_null=True), nullable=True)
    turns: Mapped[int | None] = mapped_column(Integer)
    scores: Mapped[Any] = mapped_column(JSONB(none_as_null=True), nullable=True)
    expected_any: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    expected_all: Mapped[list[str] | None] = mapped_column(ARRAY(Text))


class TraceTranscript(Base):
    """The transcript of a collected trace, as `mosaico.harness.transcript` writes it.

    In a table of its own: scoring reads whole rows of traces and never needs a transcript. Without a
    foreign key, as `CollectedTrace`.
    """

    __tablename__ = "trace_transcripts"

    collection_id: Mapped[int] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    transcript: Mapped[Any] = mapped_column(JSONB)


class LocalDataset(Base):
    """The uploaded traces of one run over a dataset, which are those of a collection; `agent_id` is
    None if the upload named no agent. `columns` are those of a table by the field that each is read as.
    """

    __tablename__ = "local_datasets"
    __table_args__ = (
        UniqueConstraint("name", "run_name", "agent_id", postgresql_nulls_not_distinct=True),
        Index("ix_local_datasets_created_at_id", "created_at", "id"),
        Index("ix_local_datasets_name_created_at_id", "name", "created_at", "id"),
        Index("ix_local_datasets_agent_id_created_at_id", "agent_id", "created_at", "id"),
        Index("ix_local_datasets_collection_id", "collection_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    run_name: Mapped[str]
    agent_id: Mapped[str | None] = mapped_column(ForeignKey("agents.id", ondelete="RESTRICT"))
    collection_id: Mapped[int] = mapped_column(ForeignKey("collections.id", ondelete="RESTRICT"))
    trace_count: Mapped[int]
    size_bytes: Mapped[int]
    ignored_keys: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default="{}")
    columns: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

    collection: Mapped[Collection] = relationship(viewonly=True, lazy="joined", innerjoin=True)

    @property
    def redacted_texts(self) -> int:
        """The number of texts from which rules removed something before they were stored."""
        return self.collection.redacted_texts

    @property
    def texts_removed_at(self) -> datetime | None:
        """Since then all texts are gone."""
        return self.collection.texts_removed_at


class Dataset(Base):
    """A dataset whose items live here, by its name, and its newest version; 0 before the first edit."""

    __tablename__ = "datasets"
    __table_args__ = (Index("ix_datasets_created_at_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    version: Mapped[int] = mapped_column(default=0)
    item_count: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class DatasetVersion(Base):
    """One edit of a dataset: how many items it added, changed and retired, by whom and why. It never changes."""

    __tablename__ = "dataset_versions"

    dataset_id: Mapped[str] = mapped_column(
        ForeignKey("datasets.id", ondelete="RESTRICT"), primary_key=True
    )
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    item_count: Mapped[int]
    added: Mapped[int]
    changed: Mapped[int]
    retired: Mapped[int]
    note: Mapped[str | None]
    created_by: Mapped[str]
    created_at: Mapped[datetime]


class DatasetItemState(Base):
    """An item as one version of its dataset left it: the newest state up to a version is the item of that version.

    `position` is the place of the item in its dataset, the same in all versions. `question` is None while the item
    asks what it asked first, otherwise the digest of what it asks now. `origin` says which trace it was made from.
    Only an erasure changes a row: it removes its texts, and `attributes` then say when.
    """

    __tablename__ = "dataset_items"
    __table_args__ = (UniqueConstraint("dataset_id", "item_id", "version"),)

    dataset_id: Mapped[str] = mapped_column(
        ForeignKey("datasets.id", ondelete="RESTRICT"), primary_key=True
    )
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    item_id: Mapped[str]
    is_retired: Mapped[bool] = mapped_column(default=False)
    question: Mapped[str | None]
    input: Mapped[str | None]
    expected_output: Mapped[str | None]
    expected_any: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list)
    expected_all: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list)
    tags: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list)
    attributes: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    origin: Mapped[Any] = mapped_column(JSONB(none_as_null=True), nullable=True)


class OtelTrace(Base):
    """A trace of which OpenTelemetry spans were received.

    `occurred_at` is the start of the earliest span in its first export; it never changes.
    `has_root` is true when a span without a parent has arrived.
    """

    __tablename__ = "otel_traces"
    __table_args__ = (
        Index("ix_otel_traces_occurred_at_trace_id", "occurred_at", "trace_id"),
        Index("ix_otel_traces_last_received_at", "last_received_at"),
    )

    trace_id: Mapped[str] = mapped_column(primary_key=True)
    occurred_at: Mapped[datetime]
    has_root: Mapped[bool]
    first_received_at: Mapped[datetime]
    last_received_at: Mapped[datetime]


class OtelSpan(Base):
    """One span as `mosaico.traces.otel.spans` writes it: `content` is text, which holds what jsonb
    refuses.

    `dataset`, `run_name` and `item_id` are set together, for a span of an experiment. `facts` are
    attributes of the trace in the span, for the filters of production traces. Times are nanoseconds
    since 1970 by the clock of the client. Without a foreign key: it would be checked for each span.
    """

    __tablename__ = "otel_spans"
    __table_args__ = (
        Index(
            "ix_otel_spans_dataset_run_name_trace_id",
            "dataset",
            "run_name",
            "trace_id",
            postgresql_where=text("item_id IS NOT NULL"),
        ),
    )

    trace_id: Mapped[str] = mapped_column(primary_key=True)
    span_id: Mapped[str] = mapped_column(primary_key=True)
    parent_id: Mapped[str | None]
    name: Mapped[str]
    start_ns: Mapped[int]
    end_ns: Mapped[int]
    dataset: Mapped[str | None]
    run_name: Mapped[str | None]
    item_id: Mapped[str | None]
    facts: Mapped[dict[str, Any] | None]
    content: Mapped[str]


class CircuitBreakerRow(Base):
    """The circuit breaker of one server, for all processes: no request is sent before `open_until`.

    `failures` counts its consecutive failures.
    """

    __tablename__ = "circuit_breakers"

    name: Mapped[str] = mapped_column(primary_key=True)
    open_until: Mapped[datetime | None]
    failures: Mapped[int] = mapped_column(default=0)
