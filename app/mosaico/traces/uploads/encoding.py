"""Reads uploads in child processes: what others sent is never parsed in a process that answers requests."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Final

from sqlalchemy import text

from mosaico.core.db import Database
from mosaico.core.errors import Invalid
from mosaico.core.import_settings import import_limit
from mosaico.core.parameter_names import UserInterface, current_interface, messages_for
from mosaico.core.resources import Resources
from mosaico.core.row_limits import limited_to
from mosaico.jobs.child_process import (
    MIB,
    ChildLimits,
    ChildProcesses,
    ChildrenBusy,
    SharedFile,
)
from mosaico.jobs.lost_calls import CallLost, CallTimeout, OutOfMemory
from mosaico.traces.files.importer_registry import load_importers
from mosaico.traces.reader_versions import TraceReaderVersion
from mosaico.traces.redaction import RedactionRules, Redactor, count_marked_texts
from mosaico.traces.redaction_owners import rules_of_upload
from mosaico.traces.trace_rows import (
    EMPTY_DIGEST,
    encode_trace,
    extend_digest,
    trace_row,
    transcript_row,
)
from mosaico.traces.upload_errors import (
    FileReaderBusy,
    NoTraces,
    UploadReaderLost,
    UploadTooLarge,
)
from mosaico.traces.uploads.uploaded_traces import UploadedTraces


def _load_importers() -> None:
    # Requests go first on a busy machine.
    os.nice(READING_NICE)
    load_importers(lambda _: None)


# Two, so that one large upload does not keep out all others.
READERS: Final = ChildProcesses(2, warm_up=_load_importers, kept_s=None, wait_s=30.0, waiting=4)
RETRY_AFTER_S: Final = 10
READING_NICE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSummary:
    """What was read of an upload, beside its rows.

    `has_items`: a trace names its item, which other traces may have, too. `ignored_keys` are the first
    keys of traces that are not used, of another file what was left out. `run_name` is the one that the upload itself
    states. `columns` are those of a table by the field that each is read as.
    """

    count: int
    digest: bytes
    has_items: bool
    ignored_keys: Sequence[str] = ()
    reader: TraceReaderVersion | None = None
    run_name: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    redacted_texts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTraces:
    """The validated traces of an upload as rows of a collection; `rows` and `transcripts` are at their beginning."""

    collection_id: int
    rows: IO[bytes]
    transcripts: IO[bytes]
    summary: ReadSummary
    redaction: RedactionRules | None = None


@contextmanager
def read_upload(
    resources: Resources,
    file: IO[bytes],
    dataset: str,
    read: Callable[..., UploadedTraces],
    *arguments: Any,
) -> Iterator[EncodedTraces]:
    """Read an upload to a dataset in a child process, and keep its rows on disk until the block ends: redacted by the
    rules of all who read the dataset.

    `read` gets the file and the arguments. Before the transaction that stores the rows: reading millions of lines takes
    minutes. Raises: the errors of `read` and of its traces; `NoTraces` without any; `FileReaderBusy`, `UploadTooLarge`,
    `UploadReaderLost`.
    """
    collection_id, rules = _prepare(resources.db, dataset)
    with tempfile.TemporaryFile() as rows, tempfile.TemporaryFile() as transcripts:
        shared = [SharedFile(one) for one in (file, rows, transcripts)]
        with _upload_errors(resources.options):
            summary = READERS.run(
                _limits(resources.options), _read_and_encode,
                *shared, collection_id, rules, current_interface(), read, arguments,
            )  # fmt: skip
        rows.seek(0)
        transcripts.seek(0)
        yield EncodedTraces(
            collection_id=collection_id,
            rows=rows,
            transcripts=transcripts,
            summary=summary,
            redaction=rules,
        )


def encode_traces(
    uploaded: UploadedTraces,
    collection_id: int,
    rows: IO[bytes],
    transcripts: IO[bytes],
    rules: RedactionRules | None = None,
) -> ReadSummary:
    """Write the rows of all traces, redacted by the rules. Raises: the errors of reading them, and `NoTraces` without any."""
    count, digest = 0, EMPTY_DIGEST
    has_items, redacted_texts = False, 0
    redactor = Redactor(rules or RedactionRules())
    for trace in uploaded.traces if rules is None else map(redactor.trace, uploaded.traces):
        redacted_texts += count_marked_texts(trace)
        encoded = encode_trace(trace)
        digest = extend_digest(digest, encoded)
        rows.write(trace_row(collection_id, count, encoded))
        if encoded.transcript is not None:
            transcripts.write(transcript_row(collection_id, count, encoded.transcript))
        has_items = has_items or trace.item_id != trace.trace_id
        count += 1
    if count == 0:
        raise NoTraces
    return ReadSummary(
        count=count,
        digest=digest,
        has_items=has_items,
        # In a table without a head, names of columns are the values of its first row.
        ignored_keys=[redactor.text(key) for key in uploaded.list_unused()],
        reader=uploaded.reader,
        run_name=uploaded.run_name,
        columns={name: redactor.text(column) for name, column in uploaded.columns.items()},
        redacted_texts=redacted_texts,
    )


def _read_and_encode(
    file: SharedFile,
    rows: SharedFile,
    transcripts: SharedFile,
    collection_id: int,
    rules: RedactionRules | None,
    interface: UserInterface,
    read: Callable[..., UploadedTraces],
    arguments: Sequence[Any],
) -> ReadSummary:
    """Read and encode an upload in the child process."""
    with (
        file.open("rb") as upload,
        rows.open("wb") as row_file,
        transcripts.open("wb") as transcript_file,
        messages_for(interface),
    ):
        upload.seek(0)
        try:
            uploaded = read(upload, *arguments)
            return encode_traces(uploaded, collection_id, row_file, transcript_file, rules)
        except RecursionError:
            raise Invalid("the upload is nested too deep; write it flatter") from None


@contextmanager
def _upload_errors(options: Mapping[str, str]) -> Iterator[None]:
    """Errors of a child process as errors of an upload, with the setting of the limit."""
    try:
        yield
    except ChildrenBusy:
        raise FileReaderBusy(headers={"Retry-After": str(RETRY_AFTER_S)}) from None
    except OutOfMemory:
        limit = import_limit(options, "import_memory_mb")
        raise UploadTooLarge(
            f"reading the upload takes more than {limit:g} MiB of memory; split it, or set"
            " MOSAICO_IMPORT_MEMORY_MB of the service higher"
        ) from None
    except CallTimeout:
        limit = import_limit(options, "import_timeout_s")
        raise UploadTooLarge(
            f"reading the upload takes more than {limit:g} seconds; split it, or set"
            " MOSAICO_IMPORT_TIMEOUT_S of the service higher"
        ) from None
    except CallLost as error:
        raise UploadReaderLost from error


def _limits(options: Mapping[str, str]) -> ChildLimits:
    memory_mb = import_limit(options, "import_memory_mb")
    return ChildLimits(int(memory_mb) * MIB, import_limit(options, "import_timeout_s"))


def _prepare(db: Database, dataset: str) -> tuple[int, RedactionRules | None]:
    """An ID that no collection has or will get, as the rows that are encoded begin with it, and the rules of a dataset."""
    # Not `begin`, which records the request in the audit log: nothing is stored yet.
    # Without the limit of the caller: others who read the dataset have rules, too.
    with limited_to(None), db.read_statement() as session:
        statement = text("SELECT nextval(pg_get_serial_sequence('collections', 'id'))")
        return int(session.execute(statement).scalar_one()), rules_of_upload(session, dataset)
