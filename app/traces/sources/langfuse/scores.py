"""Scores of Langfuse: reads one number per name from a trace, and writes the scores of a run."""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from app.core.http.throttle import MAX_IN_FLIGHT, CancelToken, Pause
from app.core.resources import Resources
from app.traces.registry import NewScore, TraceQuery
from app.traces.sources.langfuse.client import (
    LangfuseClient,
    LangfuseCredentials,
    open_client,
    require_credentials,
)
from app.traces.sources.langfuse.errors import BadResponse, NotFoundError, PageTooLarge
from app.traces.sources.langfuse.json_fields import (
    JSON,
    format_time,
    get_object,
    get_text,
    parse_number,
)
from app.traces.sources.langfuse.retry import COLLECTION_POLICY, LangfusePolicy
from app.traces.sources.langfuse.threads import HEARTBEAT_S, run_in_order, with_heartbeat

# Marks the IDs of scores that this service wrote; it must not measure with its own results.
OWN_SCORE_PREFIX: Final = "mosaico-"

# Among scores with one name, the score with the highest priority wins.
_PRIORITY_TRACE: Final = 2
_PRIORITY_TASK: Final = 1
_PRIORITY_CHILD: Final = 0


def select_scores(scores: Iterable[Any], *, task_id: str) -> dict[str, float]:
    """The numeric and boolean scores by name, without the scores that this service wrote.

    Among several scores with one name, a score of the trace precedes one of its task, which
    precedes one of a child span; then the newest wins.
    """
    usable = [score for score in scores if isinstance(score, dict) and _is_usable(score)]
    # Ascending, so that the preferred score overwrites the others in the dictionary.
    usable.sort(key=lambda score: (_priority(score, task_id), str(score.get("timestamp") or "")))
    return {
        name: number
        for score in usable
        if (name := get_text(score, "name")) is not None
        and (number := _numeric_value(score)) is not None
    }


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


def _is_usable(score: Mapping[str, Any]) -> bool:
    own = (get_text(score, "id") or "").startswith(OWN_SCORE_PREFIX)
    return not own and _numeric_value(score) is not None


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
    """Write the scores, eight at a time; at the end the server has accepted all of them.

    One request per score, because servers up to 4.16 reject lists. The server identifies a score by
    its ID and the day of its time, so a repeated write replaces it; readers see it some seconds
    later.
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
) -> Generator[NewScore, None, None]:
    with open_client(resources, credentials, pause=pause, policy=policy) as client:
        tasks = (partial(_write_score, client, score) for score in scores)
        yield from run_in_order(tasks, concurrency=MAX_IN_FLIGHT)


def _write_score(client: LangfuseClient, score: NewScore) -> NewScore:
    try:
        client.post("/scores", _score_body(score))
    except PageTooLarge as error:
        raise error.final_error from None
    except NotFoundError as error:
        raise BadResponse(
            f"the server does not accept scores ({error.detail or 'not found'}); check that"
            " langfuseUrl is the address of a Langfuse server of version 3 or newer"
        ) from None
    return score


def _score_body(score: NewScore) -> JSON:
    subject = (
        {"datasetRunId": score.run_id} if score.trace_id is None else {"traceId": score.trace_id}
    )
    return {
        "id": f"{OWN_SCORE_PREFIX}{score.id}",
        "name": score.name,
        "value": score.value,
        "dataType": "NUMERIC",
        # The time of the run in the source, not now: the server's key of a score includes the date,
        # and a later repetition would add a second score.
        "timestamp": format_time(int(score.at.timestamp() * 1000)),
        "metadata": dict(score.metadata),
        **subject,
    }
