"""Decodes exports within limits: in a child process those that are large, or from which patterns of others are removed;
the others in this process, a few at a time.
"""

import importlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, Final, NamedTuple

from mosaico.core.errors import TooLarge
from mosaico.core.import_settings import import_limit
from mosaico.core.problem_documents import TooManyRequests
from mosaico.core.resources import Resources
from mosaico.jobs.child_process import (
    MIB,
    ChildLimits,
    ChildProcesses,
    ChildrenBusy,
    SharedFile,
)
from mosaico.jobs.lost_calls import CallLost, OutOfMemory
from mosaico.traces.otel.export_body import MEMORY_BYTES, Signal, decode_body
from mosaico.traces.otel.service import EncodedSpans, SpanCounts, write_spans
from mosaico.traces.otel.span_redaction import redact_spans
from mosaico.traces.redaction import RedactionRules

WAIT_S: Final = 5.0
# An export has at most 20 MiB: it takes seconds, on a busy machine many.
TIMEOUT_S: Final = 60.0
# Small values take thirty times the memory of their encoding.
SMALL_EXPORTS: Final = 2
_small_exports = threading.BoundedSemaphore(SMALL_EXPORTS)


def _load_decoder() -> None:
    importlib.import_module("mosaico.traces.otel.protobuf_decoder")


DECODERS: Final = ChildProcesses(1, warm_up=_load_decoder, kept_s=None, wait_s=WAIT_S, waiting=2)


@contextmanager
def encode_export(
    resources: Resources,
    body: IO[bytes],
    content_type: str,
    signal: Signal,
    rules: RedactionRules | None = None,
) -> Iterator[EncodedSpans]:
    """The rows of the spans or of the events of an unpacked export, until the block ends, without what the rules remove.

    Raises: `UndecodableBody`; `SlowRedaction`; `TooManyRequests` for an export that the client should send again, `TooLarge` for one that
    takes more memory than its limit.
    """
    is_small = body.seek(0, 2) <= MEMORY_BYTES
    body.seek(0)
    max_values = int(import_limit(resources.options, "import_span_values"))
    decoding = _Decoding(content_type, signal, max_values, rules)
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as rows:
        with _small_slot() if is_small else nullcontext():
            if is_small and rules is None:
                counts = decoding.write(body.read(), rows)
            else:
                counts = _encode_in_child(resources, body, rows, decoding)
        rows.seek(0)
        yield EncodedSpans(rows, counts)


class _Decoding(NamedTuple):
    """How an export is read: its encoding and signal, the most messages, and what is removed from its texts."""

    content_type: str
    signal: Signal
    max_values: int
    rules: RedactionRules | None

    def write(self, body: bytes, rows: IO[bytes]) -> SpanCounts:
        spans = decode_body(body, self.content_type, self.signal, self.max_values)
        return write_spans(redact_spans(spans, self.rules), rows)


@contextmanager
def _small_slot() -> Iterator[None]:
    """One of the places of small exports, which wait for each other a moment. Raises: `TooManyRequests`."""
    if not _small_exports.acquire(timeout=WAIT_S):
        raise _busy()
    try:
        yield
    finally:
        _small_exports.release()


def _encode_in_child(
    resources: Resources, body: IO[bytes], rows: IO[bytes], decoding: _Decoding
) -> SpanCounts:
    memory_mb = int(import_limit(resources.options, "import_memory_mb"))
    limits = ChildLimits(memory_mb * MIB, TIMEOUT_S)
    try:
        return DECODERS.run(limits, _encode_shared, SharedFile(body), SharedFile(rows), decoding)
    except OutOfMemory:
        raise TooLarge(
            f"decoding the export takes more than {memory_mb} MiB of memory; send fewer spans at once, or set"
            " MOSAICO_IMPORT_MEMORY_MB of the service higher"
        ) from None
    except (ChildrenBusy, CallLost) as error:
        raise _busy() from error


def _encode_shared(body: SharedFile, rows: SharedFile, decoding: _Decoding) -> SpanCounts:
    """Encode an export in the child process."""
    with body.open("rb") as content, rows.open("wb") as target:
        content.seek(0)
        return decoding.write(content.read(), target)


def _busy() -> TooManyRequests:
    return TooManyRequests("too many large exports arrive at once; send the export again later")
