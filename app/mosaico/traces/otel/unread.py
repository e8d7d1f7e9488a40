"""Finds the attributes of spans that may hold texts which no convention of the table reads."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mosaico.traces.otel.convention_row import SpanKind
from mosaico.traces.otel.conventions import (
    EXCLUSIVE_INPUTS,
    FAILED_SPAN,
    FAILED_TOOL,
    KINDS,
    PLACES,
)
from mosaico.traces.otel.encodings import is_cut_off
from mosaico.traces.otel.facts import FACT_NAMES, FACT_PREFIXES
from mosaico.traces.otel.places import is_empty
from mosaico.traces.otel.span_reader import read_kind
from mosaico.traces.otel.spans import Span

MAX_NAMES: Final = 10
MAX_NAME_CHARS: Final = 80

_WITH_TEXTS: Final = (SpanKind.MODEL, SpanKind.LIKELY_MODEL)
_CONTENT_PLACES: Final = (*PLACES["input"], *PLACES["output"])
_CONTENT_NAMES: Final = frozenset(place.name for place in _CONTENT_PLACES)
_CONTENT_PREFIXES: Final = tuple(place.name for place in _CONTENT_PLACES if place.name[-1:] == ".")
_READ_NAMES: Final = frozenset(
    (
        *FACT_NAMES,
        *(place.name for places in PLACES.values() for place in places),
        *(place.name for place, _ in KINDS),
        *(name for name, _ in (*FAILED_SPAN, *FAILED_TOOL)),
        *(rule.has for rule in EXCLUSIVE_INPUTS),
    )
)
# What libraries say about the work beside its texts.
_DESCRIPTIVE: Final = (
    *FACT_PREFIXES, *_CONTENT_PREFIXES,
    "http.", "url.", "net.", "network.", "server.", "client.", "rpc.", "db.", "messaging.", "peer.", "user_agent.",
    "code.", "thread.", "process.", "os.", "host.", "container.", "k8s.", "cloud.", "faas.", "telemetry.", "otel.",
    "exception", "error", "log.", "logfire.", "event.", "span.", "aws.", "az.", "openai.", "mosaico.", "langfuse.",
    "gen_ai.request.", "gen_ai.response.", "gen_ai.usage.", "gen_ai.agent.", "gen_ai.tool.", "gen_ai.system",
    "gen_ai.openai.", "gen_ai.output.type", "gen_ai.provider", "gen_ai.framework", "gen_ai.evaluation.", "gen_ai.token.",
    "gen_ai.client.token.", "gen_ai.server.", "gen_ai.event.", "gen_ai.data_source.", "gen_ai.workflow.", "gen_ai.embeddings.",
    "llm.tools.", "llm.invocation_parameters", "llm.request.", "llm.is_", "llm.headers", "llm.usage.", "llm.token_count.",
    "llm.response.", "llm.prompt_template.", "tool.", "metadata", "graph.node.", "embedding.", "input.mime_type",
    "output.mime_type", "ai.settings.", "ai.telemetry.", "ai.model.", "ai.usage.", "ai.response.", "ai.prompt.", "ai.schema",
    "ai.toolCall.", "ai.value", "gen_ai.assistant.message", "operation.name", "resource.name", "model_request_parameters", "agent_name", "traceloop.",
    "mlflow.traceRequestId", "mlflow.spanFunctionName", "mlflow.trace", "mlflow.artifact", "mlflow.experiment",
    "mlflow.chat.tools", "genkit:path", "genkit:isRoot", "genkit:isFailureSource", "genkit:type", "genkit:metadata",
    "gcp.vertex.agent.invocation_id", "gcp.vertex.agent.event_id", "haystack.component.", "spring.ai.", "langsmith.trace.",
    "langsmith.metadata.", "crewai.", "braintrust.parent", "braintrust.context",
)  # fmt: skip
_DESCRIPTIVE_ENDS: Final = re.compile(
    r"[._:](?:id|ids|name|type|kind|version|url|uri|method|status|status_code|code|model|role|level|finish_reasons?|"
    r"start_time|end_time|time|timestamp|schema|json_schema|definitions|language|format|mime_type)$",
    re.IGNORECASE,
)
_ANSWERS: Final = r"output|response|result|answer|completion|reply|content|message|text"
_ANSWER_WORDS: Final = re.compile(_ANSWERS, re.IGNORECASE)
_TEXT_WORDS: Final = re.compile(rf"{_ANSWERS}|input|prompt|query|question|request", re.IGNORECASE)


class UnreadTexts:
    """The traces of an export in which no span has a text that the table reads, and what may hold their texts."""

    def __init__(self) -> None:
        self._read = set[str]()
        self._unread: dict[str, dict[str, None]] = {}

    def add(self, span: Span) -> None:
        """Look at a span; cheap for the many spans whose texts are read."""
        if span.trace_id in self._read:
            return
        if may_have_content(span):
            self._read.add(span.trace_id)
            self._unread.pop(span.trace_id, None)
            return
        # Other spans need no texts. Those of a root may come with another export: only names that sound like texts count.
        names: Iterable[str] = ()
        if read_kind(span) in _WITH_TEXTS:
            names = find_unread((span,))
        elif span.parent_id is None:
            names = filter(_TEXT_WORDS.search, find_unread((span,)))
        for name in names:
            self._unread.setdefault(span.trace_id, {})[name] = None

    def describe(self) -> str | None:
        """What a client should know; None if nothing was left unread."""
        if not self._unread:
            return None
        names = dict.fromkeys(name for names in self._unread.values() for name in names)
        return describe_unread(names)


def describe_unread(names: Iterable[str]) -> str:
    """What is not understood, with what to do."""
    shown = ", ".join(list(names)[:MAX_NAMES])
    return (
        f"the texts of some traces are not understood: no known convention has {shown}, which may hold them; set input.value"
        " and output.value on the root span"
    )


def find_unread(spans: Iterable[Span], *, only_answers: bool = False) -> tuple[str, ...]:
    """The names that may hold texts and are not read, at most ten; with `only_answers` those that sound like an answer.

    The spans of tools are left out: their texts are not those of the agent.
    """
    names = dict.fromkeys(
        name
        for span in spans
        if read_kind(span) is not SpanKind.TOOL
        for name in unread_names(span)
        if not only_answers or _ANSWER_WORDS.search(name)
    )
    return tuple(names)[:MAX_NAMES]


def find_cut(spans: Iterable[Span], side: str) -> tuple[str, ...]:
    """The names of attributes with the messages of a side, `input` or `output`, that a limit of the SDK cut off."""
    names = [place.name for place in PLACES[side]]
    return tuple(
        dict.fromkeys(
            f"{name} (cut off)"
            for span in spans
            for name in names
            if is_cut_off(span.attributes.get(name))
        )
    )


def unread_names(span: Span) -> Iterator[str]:
    """The names of the attributes and events of a span that may hold texts and are not read."""
    yield from _unread_of(span.attributes)
    for event in span.events:
        if event.name not in _READ_NAMES and not event.name.startswith(_DESCRIPTIVE):
            yield event.name[:MAX_NAME_CHARS]


def may_have_content(span: Span) -> bool:
    """Return whether a span has an attribute or event that the table reads as a text."""
    return (
        not _CONTENT_NAMES.isdisjoint(span.attributes)
        or any(name.startswith(_CONTENT_PREFIXES) for name in span.attributes)
        or any(event.name in _CONTENT_NAMES for event in span.events)
    )


def _unread_of(attributes: Mapping[str, Any]) -> Iterator[str]:
    for name, value in attributes.items():
        if (
            name
            and name not in _READ_NAMES
            and _is_text(value)
            and not name.startswith(_DESCRIPTIVE)
            and _DESCRIPTIVE_ENDS.search(name) is None
        ):
            yield name[:MAX_NAME_CHARS]


def _is_text(value: Any) -> bool:
    if is_empty(value):
        return False
    if isinstance(value, list):
        return any(map(_is_text, value))
    return bool(value) if isinstance(value, Mapping | str) else False
