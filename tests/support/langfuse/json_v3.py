"""JSON of the v3 endpoints: parsed inputs and outputs, separate number and text values of scores."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tests.support.langfuse.json_v4 import decoded, moment
from tests.support.langfuse.records import JSON, PROJECT_ID, Observation, Score

NOT_ASKED: Final = -1


def trace_json(
    trace_id: str,
    spans: Sequence[Observation],
    scores: Sequence[Score],
    groups: frozenset[str],
) -> JSON:
    """A trace with the IDs of its observations and scores."""
    root = next((span for span in spans if span.parent_id is None), None)
    at = min(span.start for span in spans)
    answer: JSON = {
        "id": trace_id,
        "externalId": None,
        "projectId": PROJECT_ID,
        "timestamp": moment(at),
        "name": root and (root.trace_name or root.name),
        "userId": root.user_id if root else None,
        "sessionId": root.session_id if root else None,
        "release": root.release if root else None,
        "version": root.version if root else None,
        "environment": root.environment if root else "default",
        "public": False,
        "bookmarked": False,
        "tags": list(root.tags) if root else [],
        "createdAt": moment(at),
        "updatedAt": moment(at),
        "htmlPath": f"/project/{PROJECT_ID}/traces/{trace_id}",
        # The real server says -1 and not null for what was not
        # requested: a client must not take it as data.
        "latency": _latency_s(spans) if "metrics" in groups else NOT_ASKED,
        "totalCost": sum(span.total_cost for span in spans) if "metrics" in groups else NOT_ASKED,
        "observations": [span.id for span in spans] if "observations" in groups else [],
        "scores": [score.id for score in scores] if "scores" in groups else [],
    }
    if "io" in groups:
        answer["input"] = parsed(root.input if root else None)
        answer["output"] = parsed(root.output if root else None)
        answer["metadata"] = _metadata(root) if root else {}
    return answer


def whole_trace_json(trace_id: str, spans: Sequence[Observation], scores: Sequence[Score]) -> JSON:
    groups = frozenset({"core", "io", "scores", "observations", "metrics"})
    return trace_json(trace_id, spans, scores, groups) | {
        "observations": [observation_json(span) for span in spans],
        "scores": [score_json(score) for score in scores],
    }


def observation_json(span: Observation) -> JSON:
    tokens = {"input": span.usage.get("input", 0), "output": span.usage.get("output", 0)}
    total = span.usage.get("total", sum(span.usage.values()))
    return {
        "id": span.id,
        "projectId": PROJECT_ID,
        "traceId": span.trace_id,
        "parentObservationId": span.parent_id,
        "name": span.name,
        "type": span.type,
        "environment": span.environment,
        "startTime": moment(span.start),
        "endTime": moment(span.end),
        "completionStartTime": None,
        "createdAt": moment(span.end or span.start),
        "updatedAt": moment(span.end or span.start),
        "version": span.version,
        "input": parsed(span.input),
        "output": parsed(span.output),
        "metadata": _metadata(span),
        "level": span.level,
        "statusMessage": span.status_message,
        "model": span.model,
        "modelId": None,
        "modelParameters": span.model_parameters,
        "promptId": None,
        "promptName": None,
        "promptVersion": None,
        "usageDetails": dict(span.usage),
        "costDetails": dict(span.cost),
        "usage": {"unit": "TOKENS", **tokens, "total": total},
        "unit": "TOKENS",
        "promptTokens": tokens["input"],
        "completionTokens": tokens["output"],
        "totalTokens": total,
        "inputPrice": None,
        "outputPrice": None,
        "totalPrice": None,
        "calculatedInputCost": None,
        "calculatedOutputCost": None,
        "calculatedTotalCost": span.total_cost if span.cost else None,
        "latency": span.latency_s,
        "timeToFirstToken": None,
    }


def score_json(score: Score) -> JSON:
    at = moment(score.timestamp)
    return {
        "id": score.id,
        "projectId": PROJECT_ID,
        "timestamp": at,
        "createdAt": at,
        "updatedAt": at,
        "name": score.name,
        "source": score.source,
        "dataType": score.data_type,
        **_value(score),
        "traceId": score.trace_id,
        "observationId": score.observation_id,
        "sessionId": score.session_id,
        "datasetRunId": score.experiment_id,
        "comment": score.comment,
        "metadata": score.metadata,
        "configId": score.config_id,
        "queueId": score.queue_id,
        "authorUserId": score.author_user_id,
        "environment": score.environment,
    }


def run_json(
    *, run_id: str, name: str, dataset_id: str, dataset_name: str, at: datetime, **more: Any
) -> JSON:
    return {
        "id": run_id,
        "name": name,
        "description": None,
        "metadata": {},
        "datasetId": dataset_id,
        "datasetName": dataset_name,
        "createdAt": moment(at),
        "updatedAt": moment(at),
        **more,
    }


def parsed(text: str | None) -> Any:
    """The parsed text; API v3 returns null for an empty output."""
    return decoded(text or None)


def _value(score: Score) -> JSON:
    if score.data_type == "BOOLEAN":
        return {"value": score.value, "stringValue": "True" if score.value else "False"}
    if score.data_type == "NUMERIC":
        return {"value": score.value}
    # A categorical score has the number 0 as well; who reads
    # `value` first takes the label for a zero.
    return {"value": 0, "stringValue": score.value}


def _metadata(span: Observation) -> JSON:
    return {name: decoded(text) for name, text in span.metadata.items()}


def _latency_s(spans: Sequence[Observation]) -> float:
    if not spans:
        return 0.0
    ends = max(span.end or span.start for span in spans)
    took: timedelta = ends - min(span.start for span in spans)
    return took.total_seconds()
