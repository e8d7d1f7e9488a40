"""Writing scores: one request each, since servers up to 4.16 refuse lists of them."""

from collections.abc import Generator, Iterator, Sequence
from functools import partial

from app.core.http.throttle import IN_FLIGHT, CancelToken, Pause
from app.core.resources import Resources
from app.traces.registry import NewScore, TraceQuery
from app.traces.sources.langfuse.background import BEAT_S, attended, in_order
from app.traces.sources.langfuse.client import Access, Client, access_of, open_client
from app.traces.sources.langfuse.failures import AskForLess, BadResponse, NotThere
from app.traces.sources.langfuse.retry import PATIENCE, Patience
from app.traces.sources.langfuse.scores import OWN
from app.traces.sources.langfuse.wire import JSON, moment


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
