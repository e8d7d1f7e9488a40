"""Scores of Langfuse: reads one number per name from a trace, and writes the scores of a run."""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from mosaico.core.http.threads import HEARTBEAT_S, run_in_order, with_heartbeat
from mosaico.core.http.throttle import CancelToken, Pause
from mosaico.core.resources import Resources
from mosaico.traces.registry import NewScore, TraceQuery
from mosaico.traces.sources.langfuse.client import (
    EVENTS_PATH,
    LangfuseClient,
    LangfuseCredentials,
    open_client,
    require_credentials,
)
from mosaico.traces.sources.langfuse.failures import (
    COLLECTION_POLICY,
    BadResponse,
    LangfusePolicy,
    NotFoundError,
    PageTooLarge,
)
from mosaico.traces.sources.langfuse.json_fields import (
    JSON,
    format_time,
    get_object,
    get_text,
    parse_number,
)
from mosaico.traces.sources.langfuse.reader import split_source_id

# Marks the IDs of scores that this service wrote; it must not measure with its own results.
OWN_SCORE_PREFIX: Final = "mosaico-"

# Below the limit of 4.5 MB a request, and of a size that a slow server stores within seconds.
SCORES_PER_REQUEST: Final = 100
WRITE_CONCURRENCY: Final = 2

# Among scores with one name, the score with the highest priority wins.
_PRIORITY_TRACE: Final = 2
_PRIORITY_TASK: Final = 1
_PRIORITY_CHILD: Final = 0


def select_scores(scores: Iterable[Any], *, task_id: str) -> dict[str, float]:
    """The numeric and boolean scores by name, without the scores that this service wrote.

    Among several scores with one name, a score of the trace precedes one of its task, which
    precedes one of a child span; then the newest wins.
    """
    return {
        name: number
        for score in _by_priority(scores, task_id)
        if (name := get_text(score, "name")) is not None
        and (number := _numeric_value(score)) is not None
    }


def select_labels(scores: Iterable[Any], *, task_id: str) -> dict[str, str]:
    """The labels of the categorical scores by name; the same one as `select_scores` among several."""
    return {
        name: label
        for score in _by_priority(scores, task_id)
        if (name := get_text(score, "name")) is not None
        and score.get("dataType") == "CATEGORICAL"
        # API v4 has the label as value, API v3 beside a number.
        and (label := get_text(score, "stringValue") or get_text(score, "value")) is not None
    }


def _by_priority(scores: Iterable[Any], task_id: str) -> list[dict[str, Any]]:
    """The scores of others, ascending: the preferred one of a name is the last."""
    foreign = [score for score in scores if isinstance(score, dict) and not _is_own(score)]
    return sorted(
        foreign,
        key=lambda score: (_priority(score, task_id), str(score.get("timestamp") or "")),
    )


def group_by_trace(scores: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group scores by their trace, or by the trace of their observation; drop run scores."""
    groups = defaultdict[str, list[Mapping[str, Any]]](list)
    for score in scores:
        subject = get_object(score, "subject")
        on_trace = subject.get("kind") == "trace"
        # API v4 names the trace in `subject`, API v3 in `traceId`.
        trace_id = get_text(subject, "id" if on_trace else "traceId") or get_text(score, "traceId")
        if trace_id is not None:
            groups[trace_id].append(score)
    return groups


def _is_own(score: Mapping[str, Any]) -> bool:
    return (get_text(score, "id") or "").startswith(OWN_SCORE_PREFIX)


def _priority(score: Mapping[str, Any], task_id: str) -> int:
    subject = get_object(score, "subject")
    span_id = get_text(subject, "id") if subject.get("kind") == "observation" else None
    span_id = span_id or get_text(score, "observationId")
    if span_id is None:
        return _PRIORITY_TRACE
    return _PRIORITY_TASK if span_id == task_id else _PRIORITY_CHILD


def _numeric_value(score: Mapping[str, Any]) -> float | None:
    """The value as a number; None for categories, texts and corrections."""
    value = score.get("value")
    match score.get("dataType"):
        case "BOOLEAN" if isinstance(value, bool):
            return float(value)
        case "NUMERIC" | "BOOLEAN" | None:
            return parse_number(value)
        case _:
            return None


def write_scores(
    resources: Resources,
    query: TraceQuery,
    scores: Sequence[NewScore],
    *,
    policy: LangfusePolicy = COLLECTION_POLICY,
) -> Iterator[None]:
    """Write the scores, `SCORES_PER_REQUEST` with each request; at the end the server has accepted all.

    The server identifies a score by its ID and the day of its time, and an event with an older time
    changes nothing: a repeated write replaces a score if its time is the same or later on that day.
    Readers see a score some seconds later.
    Raises: `CollectionFailed` with its codes.
    """
    credentials = require_credentials(query.url, query.public_key, query.secret_key)
    cancel = CancelToken()
    written = _iter_written(resources, credentials, scores, cancel.pause, policy)
    for _ in with_heartbeat(written, cancel, heartbeat_s=HEARTBEAT_S):
        yield None


def _iter_written(
    resources: Resources,
    credentials: LangfuseCredentials,
    scores: Sequence[NewScore],
    pause: Pause,
    policy: LangfusePolicy,
) -> Generator[Sequence[NewScore], None, None]:
    starts = range(0, len(scores), SCORES_PER_REQUEST)
    batches = [scores[start : start + SCORES_PER_REQUEST] for start in starts]
    with open_client(resources, credentials, pause=pause, policy=policy) as client:
        tasks = (partial(_write_batch, client, batch) for batch in batches)
        yield from run_in_order(tasks, concurrency=WRITE_CONCURRENCY)


def _write_batch(client: LangfuseClient, scores: Sequence[NewScore]) -> Sequence[NewScore]:
    try:
        document = client.post_events({"batch": [_score_event(score) for score in scores]})
    except PageTooLarge as error:
        if len(scores) == 1:
            raise error.final_error from None
        half = len(scores) // 2
        return *_write_batch(client, scores[:half]), *_write_batch(client, scores[half:])
    except NotFoundError as error:
        raise BadResponse(
            f"the server does not accept scores ({error.detail or 'not found'}); check that"
            " langfuseUrl is the address of a Langfuse server of version 3 or newer"
        ) from None
    _require_accepted(document, len(scores))
    return scores


def _require_accepted(document: JSON, score_count: int) -> None:
    """Raise `BadResponse` unless the server accepted every event of a batch."""
    accepted, errors = document.get("successes"), document.get("errors")
    if errors or not isinstance(accepted, list) or len(accepted) < score_count:
        first = errors[0] if isinstance(errors, list) and errors else {}
        reason = first.get("error") or first.get("message") if isinstance(first, dict) else None
        count = len(errors) if isinstance(errors, list) else score_count
        raise BadResponse(
            f"POST /api/public{EVENTS_PATH}: Langfuse rejected {count} of {score_count} scores"
            f" ({reason or 'no reason given'!s:.200}); correct the cause, then run the benchmark again"
        )


def _score_event(score: NewScore) -> JSON:
    """The event that creates or replaces a score. Its envelope has the time: that of the body is
    ignored.
    """
    subject = (
        {"datasetRunId": split_source_id(score.run_id)[0]}
        if score.trace_id is None
        else {"traceId": score.trace_id}
    )
    score_id = f"{OWN_SCORE_PREFIX}{score.id}"
    return {
        "id": f"{score_id}-event",
        "type": "score-create",
        "timestamp": format_time(int(score.at.timestamp() * 1000)),
        "body": {
            "id": score_id,
            "name": score.name,
            "value": score.value,
            "dataType": "NUMERIC",
            "metadata": dict(score.metadata),
            **subject,
        },
    }
