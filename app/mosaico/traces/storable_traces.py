"""Makes traces storable: texts, numbers and IDs that the columns of Postgres can hold."""

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import Any

from mosaico.core.ids import is_path_segment
from mosaico.core.text import replace_unstorable, replace_unstorable_in_json
from mosaico.traces.types import (
    MAX_ID_CHARS,
    MAX_TAG_VALUE_CHARS,
    MAX_TRIAL,
    ToolCall,
    Trace,
    TraceOutcome,
)

MAX_TEXT_CHARS = 1_000_000
MAX_ATTRIBUTES = 64
_READABLE_CHARS = 80
_DIGEST_CHARS = 12

# Limits of the columns; no agent reaches them.
COUNT_LIMITS = {"input_tokens": 2**63, "output_tokens": 2**63, "turns": 2**31}
AMOUNT_FIELDS = ("cost_usd", "latency_ms")
TEXT_FIELDS = ("trace_id", "item_id", "input", "expected_output", "output", "error", "url")
_texts_of = attrgetter(*TEXT_FIELDS)


def make_storable(trace: Trace) -> Trace:
    """The trace with texts that Postgres can store, each of at most `MAX_TEXT_CHARS`.

    NUL and lone surrogates become U+FFFD, and a truncated text ends with a note. A number that is
    not finite or out of the range of its column becomes None, the number of a trial 0. A trace ID that is too long for the
    index ends with a digest. An infrastructure error takes the place of a trace whose ID no address
    can contain. An unchanged trace is the same object.
    """
    if not is_path_segment(trace.trace_id):
        return make_storable(_malformed(trace))
    changed = _storable_texts(trace)
    if len(trace.trace_id) > MAX_ID_CHARS:
        changed["trace_id"] = short_id(changed.get("trace_id", trace.trace_id))
    changed |= dict.fromkeys(_find_unstorable_numbers(trace))
    if not 0 <= trace.trial <= MAX_TRIAL:
        changed["trial"] = 0
    for name in ("expected_any", "expected_all"):
        if texts := getattr(trace, name):
            changed[name] = tuple(map(_make_storable_text, texts))
    if trace.tags:
        changed["tags"] = tuple(map(_make_storable_text, trace.tags))
    if trace.attributes:
        changed["attributes"] = {
            _make_storable_text(name): _make_storable_text(value)
            for name, value in trace.attributes.items()
        }
    if trace.tool_calls:
        changed["tool_calls"] = tuple(map(_make_storable_call, trace.tool_calls))
    if trace.scores:
        changed["scores"] = {
            _make_storable_text(name): score
            for name, score in trace.scores.items()
            if math.isfinite(score)
        }
    return dataclasses.replace(trace, **changed) if changed else trace


def cut_attributes(trace: Trace) -> Trace:
    """The trace with its first attributes, each with a short name and value: the metadata of a source can
    be whole documents.
    """
    if not trace.attributes:
        return trace
    first_attributes = {
        name[:MAX_TAG_VALUE_CHARS]: value[:MAX_TAG_VALUE_CHARS]
        for name, value in islice(trace.attributes.items(), MAX_ATTRIBUTES)
    }
    return dataclasses.replace(trace, attributes=first_attributes)


def find_long_text(trace: Trace) -> str | None:
    """The field of a text that `make_storable` would cut; those of tool calls are not looked at."""
    texts = [
        *zip(TEXT_FIELDS, _texts_of(trace), strict=True),
        *(("expected_any", text) for text in trace.expected_any),
        *(("expected_all", text) for text in trace.expected_all),
        *(("tags", tag) for tag in trace.tags),
        *(("attributes", text) for pair in trace.attributes.items() for text in pair),
    ]
    return next((name for name, text in texts if text and len(text) > MAX_TEXT_CHARS), None)


def _storable_texts(trace: Trace) -> dict[str, Any]:
    """The text fields that must change, with their storable texts."""
    texts = _texts_of(trace)
    together = "".join(filter(None, texts))
    # One check in C: most traces have short texts of ASCII.
    if len(together) <= MAX_TEXT_CHARS and together.isascii() and "\0" not in together:
        return {}
    return {
        name: cleaned
        for name, text in zip(TEXT_FIELDS, texts, strict=True)
        if text is not None and (cleaned := _make_storable_text(text)) is not text
    }


def _malformed(trace: Trace) -> Trace:
    return Trace(
        trace_id=f"malformed-{trace.trace_id}",
        item_id=trace.item_id,
        trial=trace.trial,
        outcome=TraceOutcome.INFRA_ERROR,
        error=f"The source returned this trace with the ID {trace.trace_id!r}, which no address can"
        " contain",
    )


def _find_unstorable_numbers(trace: Trace) -> Iterator[str]:
    for name, limit in COUNT_LIMITS.items():
        count = getattr(trace, name)
        if count is not None and not 0 <= count < limit:
            yield name
    for name in AMOUNT_FIELDS:
        amount = getattr(trace, name)
        if amount is not None and not math.isfinite(amount):
            yield name


def _make_storable_call(call: ToolCall) -> ToolCall:
    return dataclasses.replace(
        call,
        name=_make_storable_text(call.name),
        arguments=replace_unstorable_in_json(call.arguments, _make_storable_text),
    )


def _make_storable_text(text: str) -> str:
    if len(text) > MAX_TEXT_CHARS:
        text = f"{text[:MAX_TEXT_CHARS]}… [{len(text) - MAX_TEXT_CHARS} characters cut]"
    return replace_unstorable(text)


def id_of(text: str) -> str:
    """A text as an ID: a short text itself, a long one its beginning and its digest."""
    text = " ".join(text.split())
    if len(text) <= _READABLE_CHARS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{text[:_READABLE_CHARS]}… {digest}"


def short_id(text: str) -> str:
    """A given ID, with a digest in place of its end when it is too long to be stored."""
    return text if len(text) <= MAX_ID_CHARS else id_of(text)
