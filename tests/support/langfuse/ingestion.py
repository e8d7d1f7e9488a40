"""The batches of the older SDKs: traces, observations and scores by event."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from tests.support.langfuse.generated import raw_text
from tests.support.langfuse.records import JSON, Observation
from tests.support.langfuse.refusals import Refused, invalid_data
from tests.support.langfuse.store import SpanId
from tests.support.langfuse.writes import Write, Written, read_score

_OBSERVATIONS: Final = {
    "span-create": "SPAN",
    "span-update": "SPAN",
    "generation-create": "GENERATION",
    "generation-update": "GENERATION",
    "event-create": "EVENT",
    "observation-create": None,
    "observation-update": None,
}


def ingest_batch(write: Write) -> Written:
    """207 with the fate of each event; in events_only mode only scores are taken."""
    batch = write.object().get("batch")
    if not isinstance(batch, list):
        raise invalid_data(
            [{"code": "invalid_type", "path": ["batch"], "message": "expected array"}]
        )
    successes, errors = [], []
    for event in batch:
        try:
            _take(write, event)
        except Refused as refusal:
            errors.append({"id": event.get("id", "unknown"), "status": 400, **refusal.body})
        else:
            successes.append({"id": event["id"], "status": 201})
    return Written(status=207, content={"successes": successes, "errors": errors})


def _take(write: Write, event: JSON) -> None:
    kind, body = event.get("type"), event.get("body")
    if not isinstance(event.get("id"), str) or not isinstance(body, dict):
        raise Refused(400, {"message": "Invalid request data"})
    if kind == "score-create":
        write.store.take_score(read_score(body, write.now, event["id"]))
        return
    if write.events_only:
        message = f'Event type "{kind}" is not accepted in events_only mode'
        raise Refused(400, {"message": "Event type not accepted", "error": message})
    if kind == "trace-create":
        known = write.store.traces.get(body.get("id") or event["id"], {})
        write.store.traces[body.get("id") or event["id"]] = {
            "timestamp": write.now.isoformat(),
            **known,
            **_given(body),
        }
    elif kind in _OBSERVATIONS:
        _take_observation(write, body, body.get("type") or _OBSERVATIONS[kind])
    else:
        raise Refused(400, {"message": "Invalid request data", "error": f"no event type {kind}"})


def _take_observation(write: Write, body: JSON, kind: str | None) -> None:
    trace_id = body.get("traceId") or body["id"]
    known = write.store.spans.get(SpanId(trace_id, body["id"]))
    start = _moment(body.get("startTime")) or (known.start if known else write.now)
    usage = body.get("usageDetails") or _without_unit(body.get("usage") or {})
    new = Observation(
        id=body["id"],
        trace_id=trace_id,
        parent_id=body.get("parentObservationId") or (known.parent_id if known else None),
        type=kind or (known.type if known else "SPAN"),
        name=body.get("name") or (known.name if known else ""),
        start=start,
        end=_moment(body.get("endTime")) or (known.end if known else None),
        level=body.get("level") or (known.level if known else "DEFAULT"),
        status_message=body.get("statusMessage"),
        environment=body.get("environment") or "default",
        input=raw_text(body.get("input")) or (known.input if known else None),
        output=raw_text(body.get("output")) or (known.output if known else None),
        metadata={
            name: raw_text(value) or "" for name, value in (body.get("metadata") or {}).items()
        },
        model=body.get("model"),
        usage=usage or (known.usage if known else {}),
        cost=body.get("costDetails") or (known.cost if known else {}),
        is_root=not body.get("parentObservationId"),
    )
    write.store.keep_span(new)


def _without_unit(usage: Mapping[str, Any]) -> dict[str, int]:
    return {name: value for name, value in usage.items() if isinstance(value, int)}


def _given(body: Mapping[str, Any]) -> JSON:
    return {name: value for name, value in body.items() if value is not None}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
