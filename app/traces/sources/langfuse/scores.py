"""The scores that Langfuse holds on a trace, as one number for each name."""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from app.core.http.throttle import IN_FLIGHT, CancelToken, Pause
from app.core.resources import Resources
from app.traces.registry import NewScore, TraceQuery
from app.traces.sources.langfuse.background import BEAT_S, attended, in_order
from app.traces.sources.langfuse.client import Access, Client, access_of, open_client
from app.traces.sources.langfuse.errors import AskForLess, BadResponse, NotThere
from app.traces.sources.langfuse.payload import JSON, moment, number_of, object_of, text_of
from app.traces.sources.langfuse.retry import PATIENCE, Patience

# The ids of the scores that this service wrote itself: what it measured is not what it judges by.
OWN: Final = "mosaico-"

# Of two scores of one name the one that is nearer to the whole trace counts.
_ON_TRACE: Final = 2
_ON_TASK: Final = 1
_ON_CHILD: Final = 0


def scores_of(scores: Iterable[Any], *, task_id: str) -> dict[str, float]:
    """The numeric and yes-or-no scores by name; texts, categories and corrections are no numbers,
    and those that this service wrote are not read.

    Where a name comes several times, a score of the trace wins over one of its task, that over
    one of a span below, and then the newest.
    """
    found = [score for score in scores if isinstance(score, dict) and _counts(score)]
    found.sort(key=lambda score: (_place(score, task_id), str(score.get("timestamp") or "")))
    return {
        name: value
        for score in found
        if (name := text_of(score, "name")) is not None and (value := _worth(score)) is not None
    }


def by_trace(scores: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Scores by the trace that they, or the observation they are on, belong to."""
    found = defaultdict[str, list[Mapping[str, Any]]](list)
    for score in scores:
        subject = object_of(score, "subject")
        on_trace = subject.get("kind") == "trace"
        trace_id = text_of(subject, "id" if on_trace else "traceId") or text_of(score, "traceId")
        if trace_id is not None:
            found[trace_id].append(score)
    return found


def _counts(score: Mapping[str, Any]) -> bool:
    return _worth(score) is not None and not (text_of(score, "id") or "").startswith(OWN)


def _place(score: Mapping[str, Any], task_id: str) -> int:
    subject = object_of(score, "subject")
    on = text_of(subject, "id") if subject.get("kind") == "observation" else None
    on = on or text_of(score, "observationId")
    if on is None:
        return _ON_TRACE
    return _ON_TASK if on == task_id else _ON_CHILD


def _worth(score: Mapping[str, Any]) -> float | None:
    value = score.get("value")
    match score.get("dataType"):
        case "BOOLEAN" if isinstance(value, bool):
            return float(value)
        case "NUMERIC" | "BOOLEAN" | None:
            return number_of(value)
        case _:
            return None


def write_scores(
    resources: Resources,
    query: TraceQuery,
    scores: Sequence[NewScore],
    *,
    patience: Patience = PATIENCE,
) -> Iterator[None]:
    """Write every score, eight at a time; when this ends, the server has accepted them all.

    The server knows a score again by its id and the day of its time, and shows it some seconds
    after it accepted it.
    Raises: `CollectionFailed` with its codes.
    """
    access = access_of(query.url, query.public_key, query.secret_key)
    stop = CancelToken()
    writing = _written(resources, access, scores, stop.pause, patience)
    for _ in attended(writing, stop, beat_s=BEAT_S):
        yield None


def _written(
    resources: Resources,
    access: Access,
    scores: Sequence[NewScore],
    pause: Pause,
    patience: Patience,
) -> Generator[NewScore, None, None]:
    with open_client(resources, access, pause=pause, patience=patience) as client:
        works = (partial(_write, client, score) for score in scores)
        yield from in_order(works, ahead=IN_FLIGHT)


def _write(client: Client, score: NewScore) -> NewScore:
    try:
        client.post("/scores", _document(score))
    except AskForLess as refusal:
        raise refusal.instead from None
    except NotThere as error:
        raise BadResponse(
            f"the server takes no scores ({error.detail or 'not found'}); check that langfuseUrl is"
            " the address of a Langfuse server of version 3 or newer"
        ) from None
    return score


def _document(score: NewScore) -> JSON:
    of_trace = score.trace_id is not None
    return {
        "id": f"{OWN}{score.id}",
        "name": score.name,
        "value": score.value,
        "dataType": "NUMERIC",
        "timestamp": moment(int(score.at.timestamp() * 1000)),
        "metadata": dict(score.metadata),
        **({"traceId": score.trace_id} if of_trace else {"datasetRunId": score.run_id}),
    }
