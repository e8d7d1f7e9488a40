"""Write endpoints: datasets, dataset items and scores."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tests.support.langfuse.datasets import Dataset
from tests.support.langfuse.errors import ErrorResponse, invalid_data, not_found
from tests.support.langfuse.json_v4 import dataset_json, item_json
from tests.support.langfuse.records import JSON, DatasetItem, Score
from tests.support.langfuse.store import Store

MAX_BODY_BYTES: Final = 1024 * 1024
MAX_TEXT_CHARS: Final = 500
DATA_TYPES: Final = ("NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT", "CORRECTION")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """A write request, its time, and the decoded parameters of its path."""

    store: Store
    body: bytes
    headers: Mapping[str, str]
    now: datetime
    number: int
    takes_score_lists: bool
    parts: Sequence[str] = ()

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise ErrorResponse(400, {"message": "Invalid JSON"}) from None

    def object(self) -> JSON:
        content = self.json()
        if not isinstance(content, dict):
            raise _invalid_value("Invalid input: expected object")
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResponse:
    """The response to a write request."""

    content: Any
    status: int = 200


def create_dataset(write: WriteRequest) -> WriteResponse:
    body = write.object()
    name = _text(body, "name")
    existing = write.store.datasets.get(name)
    number = len(write.store.datasets) + 1
    # The server creates or updates: a second dataset of one name replaces the description only.
    dataset = existing or Dataset(id=f"dataset-{number}", name=name, created_at=write.now)
    dataset.description = body.get("description")
    dataset.metadata = body.get("metadata")
    write.store.datasets[name] = dataset
    return WriteResponse(content=dataset_json(dataset))


def create_item(write: WriteRequest) -> WriteResponse:
    body = write.object()
    dataset = write.store.datasets.get(_text(body, "datasetName"))
    if dataset is None:
        raise not_found("Dataset not found")
    item = DatasetItem(
        id=body.get("id") or f"item-{write.number}",
        input=body.get("input"),
        expected_output=body.get("expectedOutput"),
        metadata=body.get("metadata"),
        created_at=write.now,
        archived_at=write.now if body.get("status") == "ARCHIVED" else None,
    )
    dataset.written[item.id] = item
    return WriteResponse(content=item_json(dataset, item))


def create_scores(write: WriteRequest) -> WriteResponse:
    """Create one score, or a list of scores on a newer server."""
    if len(write.body) > MAX_BODY_BYTES:
        raise ErrorResponse(413, {"message": "Body exceeded 1mb limit"})
    content = write.json()
    if isinstance(content, list) and write.takes_score_lists:
        return _create_list(write, content)
    # Seen on 4.16: the timestamp of the body is checked and ignored.
    score = read_score(write.object(), write.now, f"score-written-{write.number}")
    write.store.accept_score(score)
    return WriteResponse(content={"id": score.id})


def _create_list(write: WriteRequest, bodies: list[Any]) -> WriteResponse:
    problems = []
    for index, body in enumerate(bodies):
        try:
            score = read_score(body, write.now, f"score-written-{write.number}-{index}")
        except ErrorResponse as refusal:
            problems.append({"message": json.dumps(refusal.body)})
        else:
            write.store.accept_score(score)
    if not problems:
        return WriteResponse(status=202, content={"message": "Accepted"})
    counts = {"accepted": len(bodies) - len(problems), "rejected": len(problems)}
    return WriteResponse(status=207, content=counts | {"errors": problems})


def read_score(body: Any, at: datetime, own_id: str) -> Score:
    """Raises `ErrorResponse` for a value of the wrong data type or a missing subject."""
    if not isinstance(body, dict):
        raise _invalid_value("Invalid input: expected object")
    data_type = body.get("dataType") or _infer_data_type(body.get("value"))
    name, value = _text(body, "name"), _checked_value(data_type, body.get("value"))
    _check_subject(body)
    read_moment(body.get("timestamp"), at)
    return Score(
        id=body.get("id") or own_id,
        name=name,
        data_type=data_type,
        value=value,
        timestamp=at,
        trace_id=body.get("traceId"),
        observation_id=body.get("observationId"),
        session_id=body.get("sessionId"),
        experiment_id=body.get("datasetRunId"),
        source=body.get("source") or "API",
        environment=body.get("environment") or "default",
        comment=body.get("comment"),
        metadata=body.get("metadata"),
        config_id=body.get("configId"),
        queue_id=body.get("queueId"),
    )


def _infer_data_type(value: Any) -> str:
    return "CATEGORICAL" if isinstance(value, str) else "NUMERIC"


def _checked_value(data_type: str, value: Any) -> float | str:
    if data_type not in DATA_TYPES:
        raise _invalid_value("Invalid discriminator value", "dataType")
    if data_type in ("NUMERIC", "BOOLEAN"):
        # True and false are refused even for BOOLEAN, which is written as a number.
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _invalid_value("Invalid input: expected number", "value")
        if data_type == "BOOLEAN" and value not in (0, 1):
            raise _invalid_value("Value must be a number equal to either 0 or 1", "value")
        return float(value)
    if not isinstance(value, str):
        raise _invalid_value("Invalid input: expected string", "value")
    if data_type == "TEXT" and not 1 <= len(value) <= MAX_TEXT_CHARS:
        raise _invalid_value("Text score values must be between 1 and 500 characters", "value")
    return value


def _check_subject(body: Mapping[str, Any]) -> None:
    subjects = [key for key in ("traceId", "sessionId", "datasetRunId") if body.get(key)]
    if len(subjects) != 1:
        raise _invalid_value("Provide exactly one of traceId, sessionId, datasetRunId")
    if body.get("observationId") and not body.get("traceId"):
        raise _invalid_value("observationId requires traceId", "observationId")


def read_moment(text: Any, now: datetime) -> datetime:
    if text is None:
        return now
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise _invalid_value("Invalid ISO datetime", "timestamp") from None
    if moment.tzinfo is None:
        raise _invalid_value("Invalid ISO datetime", "timestamp")
    # The server stores milliseconds.
    return moment - timedelta(microseconds=moment.microsecond % 1000)


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise _invalid_value("Invalid input: expected string", name)
    return value


def _invalid_value(message: str, *path: str) -> ErrorResponse:
    return invalid_data([{"code": "invalid_type", "path": list(path), "message": message}])
