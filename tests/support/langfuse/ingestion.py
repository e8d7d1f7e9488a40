"""The batch endpoint of older SDKs: traces, observations and scores as events."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from tests.support.langfuse.errors import ErrorResponse, invalid_data
from tests.support.langfuse.generated import raw_text
from tests.support.langfuse.records import JSON, Observation
from tests.support.langfuse.store import SpanId
from tests.support.langfuse.writes import WriteRequest, WriteResponse, read_moment, read_score

_OBSERVATIONS: Final = {
    "span-create": "SPAN",
    "span-update": "SPAN",
    "generation-create": "GENERATION",
    "generation-update": "GENERATION",
    "event-create": "EVENT",
    "observation-create": None,
    "observation-update": None,
}


def ingest_batch(write: WriteRequest) -> WriteResponse:
    """207 with the status of each event; events_only mode accepts only scores."""
    batch = write.object().get("batch")
    if not isinstance(batch, list):
        raise invalid_data(
            [{"code": "invalid_type", "path": ["batch"], "message": "expected array"}]
        )
    successes, errors = [], []
    for event in batch:
        try:
            _take(write, event)
        except ErrorResponse as refusal:
            # One refused event does not refuse the batch; the client has to read the list of a 207.
            errors.append({"id": event.get("id", "unknown"), "status": 400, **refusal.body})
        else:
            successes.append({"id": event["id"], "status": 201})
    return WriteResponse(status=207, content={"successes": successes, "errors": errors})


def _take(write: WriteRequest, event: JSON) -> None:
    kind, body = event.get("type"), event.get("body")
    if not isinstance(event.get("id"), str) or not isinstance(body, dict):
        raise ErrorResponse(400, {"message": "Invalid request data"})
    if kind == "score-create":
        # The time of the envelope counts, not that of the body.
        at = read_moment(event.get("timestamp"), write.now)
        write.store.accept_score(read_score(body, at, event["id"]))
        return
    if write.events_only:
        message = f'Event type "{kind}" is not accepted in events_only mode'
        raise ErrorResponse(400, {"message": "Event type not accepted", "error": message})
    if kind == "trace-create":
        previous = write.store.traces.get(body.get("id") or event["id"], {})
        write.store.traces[body.get("id") or event["id"]] = {
            "timestamp": write.now.isoformat(),
            **previous,
            **_given(body),
        }
    elif kind in _OBSERVATIONS:
        _take_observation(write, body, body.get("type") or _OBSERVATIONS[kind])
    else:
        raise ErrorResponse(
            400, {"message": "Invalid request data", "error": f"no event type {kind}"}
        )


def _take_observation(write: WriteRequest, body: JSON, kind: str | None) -> None:
    trace_id = body.get("traceId") or body["id"]
    previous = write.store.spans.get(SpanId(trace_id, body["id"]))
    start = _moment(body.get("startTime")) or (previous.start if previous else write.now)
    usage = body.get("usageDetails") or _without_unit(body.get("usage") or {})
    new = Observation(
        id=body["id"],
        trace_id=trace_id,
        parent_id=body.get("parentObservationId") or (previous.parent_id if previous else None),
        type=kind or (previous.type if previous else "SPAN"),
        name=body.get("name") or (previous.name if previous else ""),
        start=start,
        end=_moment(body.get("endTime")) or (previous.end if previous else None),
        level=body.get("level") or (previous.level if previous else "DEFAULT"),
        status_message=body.get("statusMessage"),
        environment=body.get("environment") or "default",
        input=raw_text(body.get("input")) or (previous.input if previous else None),
        output=raw_text(body.get("output")) or (previous.output if previous else None),
        metadata={
            name: raw_text(value) or "" for name, value in (body.get("metadata") or {}).items()
        },
        model=body.get("model"),
        usage=usage or (previous.usage if previous else {}),
        cost=body.get("costDetails") or (previous.cost if previous else {}),
        is_root=not body.get("parentObservationId"),
    )
    write.store.store_span(new)


def _without_unit(usage: Mapping[str, Any]) -> dict[str, int]:
    return {name: value for name, value in usage.items() if isinstance(value, int)}


def _given(body: Mapping[str, Any]) -> JSON:
    return {name: value for name, value in body.items() if value is not None}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
