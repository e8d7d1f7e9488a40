"""The scores that Langfuse holds on a trace, as one number for each name."""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from app.core.http.throttle import MAX_IN_FLIGHT, CancelToken, Pause
from app.core.resources import Resources
from app.traces.registry import NewScore, TraceQuery
from app.traces.sources.langfuse.background import HEARTBEAT_S, run_in_order, with_heartbeat
from app.traces.sources.langfuse.client import (
    LangfuseClient,
    LangfuseCredentials,
    open_client,
    require_credentials,
)
from app.traces.sources.langfuse.errors import BadResponse, NotFoundError, PageTooLarge
from app.traces.sources.langfuse.payload import (
    JSON,
    format_time,
    get_object,
    get_text,
    parse_number,
)
from app.traces.sources.langfuse.retry import COLLECTION_POLICY, LangfusePolicy

# The ids of the scores that this service wrote itself: what it measured is not what it judges by.
OWN_SCORE_PREFIX: Final = "mosaico-"

# Of two scores of one name the one that is nearer to the whole trace counts.
_PRIORITY_TRACE: Final = 2
_PRIORITY_TASK: Final = 1
_PRIORITY_CHILD: Final = 0


def select_scores(scores: Iterable[Any], *, task_id: str) -> dict[str, float]:
    """The numeric and yes-or-no scores by name; texts, categories and corrections are no numbers,
    and those that this service wrote are not read.

    Where a name comes several times, a score of the trace wins over one of its task, that over
    one of a span below, and then the newest.
    """
    found = [score for score in scores if isinstance(score, dict) and _is_usable(score)]
    found.sort(key=lambda score: (_priority(score, task_id), str(score.get("timestamp") or "")))
    return {
        name: value
        for score in found
        if (name := get_text(score, "name")) is not None
        and (value := _numeric_value(score)) is not None
    }


def group_by_trace(scores: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Scores by the trace that they, or the observation they are on, belong to."""
    found = defaultdict[str, list[Mapping[str, Any]]](list)
    for score in scores:
        subject = get_object(score, "subject")
        on_trace = subject.get("kind") == "trace"
        trace_id = get_text(subject, "id" if on_trace else "traceId") or get_text(score, "traceId")
        if trace_id is not None:
            found[trace_id].append(score)
    return found


def _is_usable(score: Mapping[str, Any]) -> bool:
    return _numeric_value(score) is not None and not (get_text(score, "id") or "").startswith(
        OWN_SCORE_PREFIX
    )


def _priority(score: Mapping[str, Any], task_id: str) -> int:
    subject = get_object(score, "subject")
    on = get_text(subject, "id") if subject.get("kind") == "observation" else None
    on = on or get_text(score, "observationId")
    if on is None:
        return _PRIORITY_TRACE
    return _PRIORITY_TASK if on == task_id else _PRIORITY_CHILD


def _numeric_value(score: Mapping[str, Any]) -> float | None:
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
    """Write every score, eight at a time; when this ends, the server has accepted them all.

    The server knows a score again by its id and the day of its time, and shows it some seconds
    after it accepted it.
    Raises: `CollectionFailed` with its codes.
    """
    access = require_credentials(query.url, query.public_key, query.secret_key)
    stop = CancelToken()
    writing = _iter_written(resources, access, scores, stop.pause, policy)
    for _ in with_heartbeat(writing, stop, heartbeat_s=HEARTBEAT_S):
        yield None


def _iter_written(
    resources: Resources,
    credentials: LangfuseCredentials,
    scores: Sequence[NewScore],
    pause: Pause,
    policy: LangfusePolicy,
) -> Generator[NewScore, None, None]:
    with open_client(resources, credentials, pause=pause, policy=policy) as client:
        works = (partial(_write_score, client, score) for score in scores)
        yield from run_in_order(works, concurrency=MAX_IN_FLIGHT)


def _write_score(client: LangfuseClient, score: NewScore) -> NewScore:
    try:
        client.post("/scores", _score_body(score))
    except PageTooLarge as refusal:
        raise refusal.final_error from None
    except NotFoundError as error:
        raise BadResponse(
            f"the server takes no scores ({error.detail or 'not found'}); check that langfuseUrl is"
            " the address of a Langfuse server of version 3 or newer"
        ) from None
    return score


def _score_body(score: NewScore) -> JSON:
    of_trace = score.trace_id is not None
    return {
        "id": f"{OWN_SCORE_PREFIX}{score.id}",
        "name": score.name,
        "value": score.value,
        "dataType": "NUMERIC",
        "timestamp": format_time(int(score.at.timestamp() * 1000)),
        "metadata": dict(score.metadata),
        **({"traceId": score.trace_id} if of_trace else {"datasetRunId": score.run_id}),
    }
