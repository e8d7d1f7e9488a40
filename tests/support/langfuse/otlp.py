"""Reads OTLP spans, in protobuf, as observations."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.langfuse.errors import ErrorResponse
from tests.support.langfuse.records import Membership, Observation
from tests.support.langfuse.writes import WriteRequest, WriteResponse

Attributes = Mapping[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OWN: Final = "langfuse.observation."
_OF_EXPERIMENT: Final = "langfuse.experiment."


def ingest_spans(write: WriteRequest) -> WriteResponse:
    for span in read_spans(write.body, write.headers):
        write.store.store_span(span)
    return WriteResponse(content={})


def read_spans(body: bytes, headers: Mapping[str, str]) -> Iterator[Observation]:
    """Raises `ErrorResponse` for an invalid export request."""
    request = _request(_unpacked(body, headers))
    for resource_spans in request.resource_spans:
        of_resource = _attributes(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                # The attributes of a span win: SDKs set the environment on
                # the resource and may override it.
                yield _observation(span, {**of_resource, **_attributes(span.attributes)})


def _unpacked(body: bytes, headers: Mapping[str, str]) -> bytes:
    if headers.get("content-encoding") != "gzip":
        return body
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        raise ErrorResponse(400, {"message": "Failed to read the gzip body"}) from None


def _request(body: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise ErrorResponse(400, {"message": "Failed to parse the OTel trace"}) from None
    return request


def _attributes(pairs: Any) -> dict[str, Any]:
    key_values: list[KeyValue] = list(pairs)
    return {pair.key: _value(pair.value) for pair in key_values}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(member) for member in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value) for pair in value.kvlist_value.values}
    return getattr(value, kind)


def _observation(span: Span, attributes: Attributes) -> Observation:
    failed = span.status.code == Status.STATUS_CODE_ERROR
    parent = span.parent_span_id.hex() or None
    return Observation(
        id=span.span_id.hex(),
        trace_id=span.trace_id.hex(),
        parent_id=parent,
        type=str(attributes.get(f"{_OWN}type", "span")).upper(),
        name=span.name,
        start=_moment(span.start_time_unix_nano),
        end=_moment(span.end_time_unix_nano) if span.end_time_unix_nano else None,
        level=attributes.get(f"{_OWN}level") or ("ERROR" if failed else "DEFAULT"),
        status_message=attributes.get(f"{_OWN}status_message") or span.status.message or None,
        environment=attributes.get("langfuse.environment", "default"),
        input=attributes.get(f"{_OWN}input"),
        output=attributes.get(f"{_OWN}output"),
        metadata=_metadata(attributes),
        model=attributes.get(f"{_OWN}model.name"),
        model_parameters=_object(attributes, f"{_OWN}model.parameters"),
        usage=_object(attributes, f"{_OWN}usage_details") or {},
        cost=_object(attributes, f"{_OWN}cost_details") or {},
        experiment=_membership(attributes),
        trace_name=attributes.get("langfuse.trace.name"),
        tags=tuple(attributes.get("langfuse.trace.tags") or ()),
        release=attributes.get("langfuse.release"),
        version=attributes.get("langfuse.version"),
        user_id=attributes.get("user.id"),
        session_id=attributes.get("session.id"),
        is_root=parent is None or bool(attributes.get("langfuse.internal.is_app_root")),
    )


def _moment(nanoseconds: int) -> datetime:
    # `datetime` has microseconds only; a float of seconds would round them.
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def _metadata(attributes: Attributes) -> dict[str, str]:
    prefix = f"{_OWN}metadata."
    return {
        name.removeprefix(prefix): value if isinstance(value, str) else json.dumps(value)
        for name, value in attributes.items()
        if name.startswith(prefix)
    }


def _object(attributes: Attributes, name: str) -> dict[str, Any] | None:
    try:
        content = json.loads(attributes.get(name) or "null")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _membership(attributes: Attributes) -> Membership | None:
    def of(name: str) -> Any:
        return attributes.get(f"{_OF_EXPERIMENT}{name}")

    if not of("id") or not of("item.id"):
        return None
    version = of("item.version")
    return Membership(
        experiment_id=of("id"),
        experiment_name=of("name") or "",
        item_id=of("item.id"),
        root_id=of("item.root_observation_id") or "",
        dataset_id=of("dataset.id"),
        item_version=datetime.fromisoformat(version) if version else None,
        expected_output=of("item.expected_output"),
        item_metadata=_texts(attributes, f"{_OF_EXPERIMENT}item.metadata"),
        metadata=_texts(attributes, f"{_OF_EXPERIMENT}metadata"),
        description=of("description"),
    )


def _texts(attributes: Attributes, name: str) -> dict[str, str] | None:
    content = _object(attributes, name)
    return None if content is None else {key: json.dumps(entry) for key, entry in content.items()}
