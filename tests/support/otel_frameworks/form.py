"""The form of a fixture: spans of a framework, with the trace that was worked out by hand; and what several of them share."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from tests.support.otlp import START_NS, any_value, key_values
from tests.support.service import JSON

QUESTION: Final = "Weather in Rome?"
ANSWER: Final = "It is sunny in Rome."
ARGUMENTS: Final = {"city": "Rome"}
CALL_TEXT: Final = '{"city": "Rome"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The trace of a fixture; None is unknown. `cached` says where its cached tokens were before: in the count of the
    input, or beside it.
    """

    input: str | None = QUESTION
    output: str | None = ANSWER
    tokens: tuple[int | None, int | None] = (None, None)
    cached: Literal["inside", "added"] | None = None
    cost: float | None = None
    tools: tuple[str, ...] | None = ()
    session: str | None = None
    turns: int | None = 1
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """An export of one trace: `spans` have the form of the files in `recorded`."""

    framework: str
    version: str
    spans: Sequence[JSON]
    expected: Expected
    origin: Literal["recorded", "written"] = "written"
    note: str = ""

    @property
    def id(self) -> str:
        return f"{self.framework} {self.version} {self.note}".strip()


@dataclass(slots=True)
class Writer:
    """Writes spans below each other."""

    scope: str
    version: str = ""
    spans: list[JSON] = field(default_factory=list)

    def add(
        self,
        name: str,
        attributes: Mapping[str, Any],
        *,
        parent: int | None = None,
        events: Sequence[tuple[str, Mapping[str, Any]]] = (),
        scope: str | None = None,
        ms: int = 1,
    ) -> int:
        number = len(self.spans) + 1
        start = number * 10_000
        self.spans.append(
            {
                "id": number,
                "parent": parent,
                "name": name,
                "scope": [self.scope if scope is None else scope, self.version],
                "us": [start, start + ms * 1000],
                "attributes": dict(attributes),
                "events": [[event, dict(body)] for event, body in events],
            }
        )
        return number


def export_of(
    fixture: Fixture, trace: int = 1, resource: Mapping[str, Any] | None = None
) -> ExportTraceServiceRequest:
    """The export of a fixture, as the trace with this number."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    of_resource.resource.attributes.extend(key_values(resource or {}))
    for scope, group in groupby(fixture.spans, key=lambda row: row["scope"]):
        part = of_resource.scope_spans.add(spans=[_proto_span(row, trace) for row in group])
        part.scope.name, part.scope.version = scope
    return request


def _proto_span(row: JSON, trace: int) -> ProtoSpan:
    start, end = row["us"]
    part = ProtoSpan(
        trace_id=trace.to_bytes(16, "big"),
        span_id=row["id"].to_bytes(8, "big"),
        parent_span_id=row["parent"].to_bytes(8, "big") if row.get("parent") else b"",
        name=row["name"],
        start_time_unix_nano=START_NS + start * 1000,
        end_time_unix_nano=START_NS + end * 1000,
    )
    if "failed" in row:
        part.status.code, part.status.message = 2, row["failed"]  # type: ignore[assignment]
    for name, value in row["attributes"].items():
        part.attributes.add(key=name, value=any_value(value))
    for name, body in row.get("events", ()):
        event = part.events.add(name=name)
        for key, value in body.items():
            event.attributes.add(key=key, value=any_value(value))
    return part


def parts(role: str, **part: Any) -> str:
    return json.dumps([{"role": role, "parts": [part]}])


def message(role: str, content: Any) -> str:
    return json.dumps([{"role": role, "content": content}])


ASKED: Final = parts("user", type="text", content=QUESTION)
ANSWERED: Final = parts("assistant", type="text", content=ANSWER)
CALLING: Final = parts("assistant", type="tool_call", id="c", name="look_up", arguments=CALL_TEXT)
CHAT: Final = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small"}
USED: Final = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9}
RUN_TOOL: Final = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "look_up",
    "gen_ai.tool.call.id": "c",
}


def fixture_of(
    framework: str, version: str, writer: Writer, expected: Expected, note: str = ""
) -> Fixture:
    return Fixture(
        framework=framework, version=version, spans=writer.spans, expected=expected, note=note
    )


def one(
    framework: str,
    version: str,
    scope: str,
    attributes: Mapping[str, Any],
    expected: Expected,
    *,
    name: str = "chat small",
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    note: str = "",
    scope_version: str = "",
) -> Fixture:
    writer = Writer(scope, scope_version)
    writer.add(name, attributes, events=events)
    return fixture_of(framework, version, writer, expected, note)


CACHED: Final = {
    "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9,
    "gen_ai.usage.cache_read.input_tokens": 20,
}  # fmt: skip
TEXTS: Final = {"gen_ai.input.messages": ASKED, "gen_ai.output.messages": ANSWERED}


def several(
    framework: str,
    version: str,
    scope: str,
    spans: Sequence[tuple[str, int | None, Mapping[str, Any]]],
    expected: Expected,
    note: str = "",
) -> Fixture:
    """Spans by their name, the number of their parent from 1, and their attributes."""
    writer = Writer(scope)
    for name, parent, attributes in spans:
        writer.add(name, attributes, parent=parent)
    return fixture_of(framework, version, writer, expected, note)


def llama_message(role: str, *blocks: JSON) -> JSON:
    return {"role": role, "additional_kwargs": {}, "blocks": list(blocks)}
