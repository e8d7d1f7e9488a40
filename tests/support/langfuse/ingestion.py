"""The batch endpoint of older SDKs; of its events the fake takes scores."""

from tests.support.langfuse.errors import ErrorResponse, invalid_data
from tests.support.langfuse.records import JSON
from tests.support.langfuse.writes import WriteRequest, WriteResponse, read_moment, read_score


def ingest_batch(write: WriteRequest) -> WriteResponse:
    """207 with the status of each event."""
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
    body = event.get("body")
    if not isinstance(event.get("id"), str) or not isinstance(body, dict):
        raise ErrorResponse(400, {"message": "Invalid request data"})
    if event.get("type") != "score-create":
        raise ErrorResponse(400, {"message": "Event type not accepted"})
    # The time of the envelope counts, not that of the body.
    at = read_moment(event.get("timestamp"), write.now)
    write.store.accept_score(read_score(body, at, event["id"]))
