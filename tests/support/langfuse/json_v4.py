"""JSON of the v4 endpoints: raw texts, field groups, values by data type."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tests.support.langfuse.datasets import Dataset
from tests.support.langfuse.records import (
    DEFAULT_TIME,
    JSON,
    PROJECT_ID,
    DatasetItem,
    Observation,
    Score,
)

# Longer values are cut without a sign, unless `expandMetadata` names their key.
SHOWN_OF_METADATA: Final = 200


def moment(at: datetime | None) -> str | None:
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dataset_json(dataset: Dataset) -> JSON:
    return {
        "id": dataset.id,
        "name": dataset.name,
        "description": dataset.description,
        "metadata": dataset.metadata,
        "inputSchema": None,
        "expectedOutputSchema": None,
        "projectId": PROJECT_ID,
        "createdAt": moment(dataset.created_at),
        "updatedAt": moment(dataset.created_at),
    }


def item_json(dataset: Dataset, item: DatasetItem) -> JSON:
    return {
        "id": item.id,
        "status": "ACTIVE" if item.archived_at is None else "ARCHIVED",
        "input": item.input,
        "expectedOutput": item.expected_output,
        "metadata": item.metadata,
        "sourceTraceId": None,
        "sourceObservationId": None,
        "datasetId": dataset.id,
        "datasetName": dataset.name,
        "createdAt": moment(item.created_at),
        "updatedAt": moment(item.archived_at or item.created_at),
        "version": moment(item.created_at),
        "mediaReferences": [],
    }


def row_json(row: Observation, groups: frozenset[str]) -> JSON:
    """A row of an experiment without scores, which the caller adds."""
    member = row.experiment
    assert member is not None
    answer: JSON = {
        "id": row.id,
        "traceId": row.trace_id,
        "startTime": moment(row.start),
        "endTime": moment(row.end),
        "level": row.level,
        "environment": row.environment,
        "experimentId": member.experiment_id,
        "experimentName": member.experiment_name,
        "experimentItemId": member.item_id,
    }
    if "dataset" in groups:
        answer["experimentDatasetId"] = member.dataset_id
        answer["experimentItemVersion"] = moment(member.item_version)
    if "io" in groups:
        # The server has no null here: a missing output and an empty one look the same.
        answer |= {"input": row.input, "output": row.output or ""}
        answer["expectedOutput"] = member.expected_output or ""
    if "metadata" in groups:
        answer["metadata"] = dict(row.metadata)
    if "itemMetadata" in groups:
        answer["experimentItemMetadata"] = dict(member.item_metadata or {})
    if "experimentMetadata" in groups:
        answer["experimentMetadata"] = dict(member.metadata or {})
        answer["experimentDescription"] = member.description
    return answer


def observation_json(
    span: Observation, groups: frozenset[str], uncut_names: Iterable[str] = ()
) -> JSON:
    """An observation of /v2/observations; `uncut_names` are the metadata keys that are not truncated."""
    answer: JSON = {
        "id": span.id,
        "traceId": span.trace_id,
        "startTime": moment(span.start),
        "endTime": moment(span.end),
        "projectId": PROJECT_ID,
        "parentObservationId": span.parent_id,
        "type": span.type,
    }
    for group in sorted(groups & _GROUPS.keys()):
        answer |= _GROUPS[group](span)
    if "metadata" in groups:
        answer["metadata"] = decoded_metadata(span.metadata, frozenset(uncut_names))
    return answer | {"modelId": None, "inputPrice": None, "outputPrice": None, "totalPrice": None}


def decoded_metadata(metadata: Mapping[str, str], expanded: frozenset[str]) -> JSON:
    return {
        name: decoded(text if name in expanded else text[:SHOWN_OF_METADATA])
        for name, text in metadata.items()
    }


def decoded(text: str | None) -> Any:
    """The JSON value of a raw text; text that is not valid JSON is unchanged."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _basic(span: Observation) -> JSON:
    return {
        "name": span.name,
        "level": span.level,
        "statusMessage": span.status_message,
        "version": span.version,
        "environment": span.environment,
        "bookmarked": False,
        "public": False,
        "userId": span.user_id,
        "sessionId": span.session_id,
        "isRootObservation": span.is_root,
    }


def _time(span: Observation) -> JSON:
    created = moment(span.end or span.start)
    return {"completionStartTime": None, "createdAt": created, "updatedAt": created}


def _io(span: Observation) -> JSON:
    return {"input": span.input, "output": span.output}


def _model(span: Observation) -> JSON:
    parameters = None if span.model_parameters is None else dict(span.model_parameters)
    return {"model": span.model, "internalModelId": None, "modelParameters": parameters}


def _usage(span: Observation) -> JSON:
    return {
        "usageDetails": dict(span.usage),
        "costDetails": dict(span.cost),
        "totalCost": span.total_cost,
        "usagePricingTierName": None,
    }


def _prompt(_: Observation) -> JSON:
    return {"promptId": None, "promptName": None, "promptVersion": None}


def _metrics(span: Observation) -> JSON:
    return {"latency": span.latency_s, "timeToFirstToken": None}


def _trace_context(span: Observation) -> JSON:
    return {"tags": list(span.tags), "release": span.release, "traceName": span.trace_name}


_GROUPS: Final = {
    "basic": _basic,
    "time": _time,
    "io": _io,
    "model": _model,
    "usage": _usage,
    "prompt": _prompt,
    "metrics": _metrics,
    "trace_context": _trace_context,
}


def score_json(score: Score, groups: frozenset[str]) -> JSON:
    """A score with a value of its data type."""
    at = moment(score.timestamp)
    answer: JSON = {
        "id": score.id,
        "projectId": PROJECT_ID,
        "name": score.name,
        "dataType": score.data_type,
        # Written as 0 or 1 and returned as true or false.
        "value": bool(score.value) if score.data_type == "BOOLEAN" else score.value,
        "source": score.source,
        "timestamp": at,
        "environment": score.environment,
        "createdAt": at,
        "updatedAt": at,
    }
    if "details" in groups:
        answer |= {"comment": score.comment, "configId": score.config_id}
        answer["metadata"] = score.metadata
    if "subject" in groups:
        answer["subject"] = _subject(score)
    if "annotation" in groups:
        answer |= {"authorUserId": score.author_user_id, "queueId": score.queue_id}
    return answer


def _subject(score: Score) -> JSON:
    if score.experiment_id is not None:
        return {"kind": "experiment", "id": score.experiment_id}
    if score.observation_id is not None:
        return {"kind": "observation", "id": score.observation_id, "traceId": score.trace_id}
    if score.session_id is not None:
        return {"kind": "session", "id": score.session_id}
    return {"kind": "trace", "id": score.trace_id}


def project_json() -> JSON:
    return {
        "id": PROJECT_ID,
        "name": "Support agent",
        "organization": {"id": "organization-1", "name": "The Tests"},
        "metadata": {},
        "createdAt": moment(DEFAULT_TIME),
    }
