"""The OTLP/HTTP receiver: `POST /v1/traces` and `POST /v1/logs`."""

import tempfile
from typing import Any, Final

import structlog
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from mosaico.access.deps import RUN, WHOLE_SERVICE
from mosaico.core.errors import AppError, NotFound, TooLarge, Unavailable
from mosaico.core.problem_documents import PROBLEMS
from mosaico.core.resources import Resources
from mosaico.core.web.request_body import read_content_type
from mosaico.core.web.routes import Router
from mosaico.core.web.uploads import receive_body
from mosaico.traces.otel.export_body import (
    JSON_TYPE,
    MAX_EXPORT_BYTES,
    MEMORY_BYTES,
    PROTOBUF_TYPE,
    Signal,
    error_response,
    export_too_large,
    success_response,
    unpacked_body,
)
from mosaico.traces.otel.export_process import encode_export
from mosaico.traces.otel.service import EncodedSpans, store_spans
from mosaico.traces.otel.spans import UndecodableBody
from mosaico.traces.redaction_owners import rules_of_spans

log = structlog.stdlib.get_logger(__name__)

_STATUS = "a `google.rpc.Status` in the encoding of the export says why"
router = Router(
    tags=["opentelemetry"],
    responses={
        **{status: PROBLEMS[status] for status in (401, 403, 421)},
        400: {"description": f"Bad Request: {_STATUS}"},
        413: {"description": f"Content Too Large: {_STATUS}"},
        429: {"description": f"Too Many Requests: {_STATUS}; send the export again"},
        503: {"description": f"Service Unavailable: {_STATUS}; send the export again"},
    },
)

TRACES_PATH: Final = "/v1/traces"
LOGS_PATH: Final = "/v1/logs"
METRICS_PATH: Final = "/v1/metrics"
PATHS: Final = (TRACES_PATH, LOGS_PATH, METRICS_PATH)


def _body_of(message: str, member: str) -> dict[str, Any]:
    """The description of a body for the document of the API."""
    content = {
        # The encoding of an export without members has no bytes.
        PROTOBUF_TYPE: {"schema": {"type": "string", "format": "binary"}, "example": ""},
        JSON_TYPE: {"schema": {"type": "object"}, "example": {member: []}},
    }
    description = f"An {message} of OTLP, optionally with Content-Encoding gzip."
    return {"requestBody": {"required": True, "description": description, "content": content}}


class UnsupportedSignal(NotFound):
    """Spans and the events in log records are received; do not send metrics here."""


@router.post(
    TRACES_PATH,
    dependencies=[*RUN, *WHOLE_SERVICE],
    openapi_extra=_body_of("ExportTraceServiceRequest", "resourceSpans"),
)
async def export_spans(request: Request) -> Response:
    """Receive spans of OpenTelemetry (OTLP over HTTP). Sending an export again changes nothing.

    Responds with: 200, 400 or 413; 429 or 503 when the client should send the export again.
    """
    return await _respond(request, Signal.SPANS)


@router.post(
    LOGS_PATH,
    dependencies=[*RUN, *WHOLE_SERVICE],
    openapi_extra=_body_of("ExportLogsServiceRequest", "resourceLogs"),
)
async def export_logs(request: Request) -> Response:
    """Receive log records of OpenTelemetry (OTLP over HTTP): the texts that libraries write to events belong to spans. Other
    log records are ignored. Sending an export again changes nothing.

    Responds with: 200, 400 or 413; 429 or 503 when the client should send the export again.
    """
    return await _respond(request, Signal.LOGS)


async def _respond(request: Request, signal: Signal) -> Response:
    content_type = read_content_type(request)
    try:
        return await _receive_export(request, content_type, signal)
    except AppError as error:
        return error_response(error, content_type)
    except ClientDisconnect:
        raise
    # A defect, for which the client must not lose its spans: it would drop them after a 500.
    except Exception:
        log.exception("export failed", path=request.url.path)
        return error_response(Unavailable(), content_type)


async def _receive_export(request: Request, content_type: str, signal: Signal) -> Response:
    if content_type not in (PROTOBUF_TYPE, JSON_TYPE):
        raise UndecodableBody(f"send exports as {PROTOBUF_TYPE} or {JSON_TYPE}")
    encoding = request.headers.get("content-encoding", "").strip().lower()
    # The export is not a change of a user, and the audit log has no entry for it: hence without the
    # commit hook.
    resources: Resources = request.app.state.resources
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as packed:
        try:
            await receive_body(request, packed, MAX_EXPORT_BYTES)
        except TooLarge:
            raise export_too_large() from None

        def store() -> Response:
            with resources.db.read_statement() as session:
                rules = rules_of_spans(session)
            with (
                unpacked_body(packed, encoding) as body,
                encode_export(resources, body, content_type, signal, rules) as spans,
            ):
                return _store_spans(resources, spans, content_type, signal)

        return await run_in_threadpool(store)


def _store_spans(
    resources: Resources, spans: EncodedSpans, content_type: str, signal: Signal
) -> Response:
    counts = spans.counts
    if counts.count:
        with resources.db.begin() as session:
            store_spans(session, spans, resources.clock())
    if counts.rejected:
        log.warning("spans rejected", count=counts.rejected, reasons=counts.reasons)
    return success_response(counts, content_type, signal)


@router.post(METRICS_PATH, dependencies=RUN, include_in_schema=False)
def export_metrics() -> Response:
    """Refuse metrics: tokens and durations are read from spans."""
    raise UnsupportedSignal(
        "MOSAICO reads tokens and durations from spans; set OTEL_METRICS_EXPORTER=none so that metrics are not sent here"
        " (docs/otel-mapping.md)"
    )
