"""Requests to one Langfuse server with one pair of keys; failures are retried as they deserve."""

import base64
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import httpx

from app.core.encryption import Secret
from app.core.http.client import AnswerTooLarge, outbound_client
from app.core.http.throttle import Pause, Throttle, turns_at
from app.core.resources import Resources
from app.traces.circuit_breaker import SourceLimit
from app.traces.sources.langfuse.errors import (
    AskForLess,
    BadResponse,
    Failure,
    Kind,
    LangfuseAuth,
    LangfuseUnavailable,
    NotThere,
    failure_of_answer,
    failure_of_error,
)
from app.traces.sources.langfuse.payload import JSON
from app.traces.sources.langfuse.retry import GiveUp, NotFound, Patience, Smaller, Wait, next_step

Parameters = Mapping[str, str | int | None]

MAX_BYTES: Final = 32 * 1024 * 1024
API: Final = "/api/public"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where a project is and with which keys it is read; `host` has no slash at its end."""

    host: str
    public_key: str
    secret_key: Secret


def access_of(url: str | None, public_key: str | None, secret_key: Secret | None) -> Access:
    """What the client needs. Raises: `LangfuseAuth`, `LangfuseUnavailable` for what is not set."""
    if not public_key or secret_key is None:
        missing = "public" if not public_key else "secret"
        raise LangfuseAuth(
            f"the agent has no {missing} key of Langfuse; PATCH it with langfusePublicKey and"
            " langfuseSecretKey of the project that holds its traces"
        )
    if not url:
        raise LangfuseUnavailable("the agent has no langfuseUrl; PATCH it with the server's URL")
    return Access(host=url.rstrip("/"), public_key=public_key, secret_key=secret_key)


class Client:
    """Answers of the public API as JSON objects.

    Raises, from `get` and `post`: `NotThere` for a 404, `AskForLess`, what `failures` lists, and
    whatever `pause` raises to end a wait.
    """

    def __init__(
        self,
        http: httpx.Client,
        access: Access,
        *,
        turns: Throttle,
        shared: SourceLimit,
        pause: Pause,
        patience: Patience,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._http = http
        self._base = f"{access.host}{API}"
        self._headers = {"Authorization": _basic(access)}
        self._turns = turns
        self._shared = shared
        self._told: set[bool] = set()
        self._pause = pause
        self._patience = patience
        self._chance = chance
        self.access = access

    def get(self, path: str, parameters: Parameters | None = None) -> JSON:
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        return self._answer("GET", path, given, None)

    def post(self, path: str, body: JSON) -> JSON:
        """Send what may well be sent twice: a request that brought no answer is made again."""
        return self._answer("POST", path, {}, body)

    def _answer(
        self, method: str, path: str, parameters: Mapping[str, str | int], body: JSON | None
    ) -> JSON:
        failures: Counter[Kind] = Counter()
        waited_s = 0.0
        while True:
            answer = self._ask(method, path, parameters, body)
            if not isinstance(answer, Failure):
                self._tell(answers=True)
                return answer
            step = next_step(
                answer,
                asked=f"{method} {API}{path}",
                attempt=failures[answer.kind],
                waited_s=waited_s,
                chance=self._chance(),
                patience=self._patience,
            )
            match step:
                case Wait(seconds=seconds, shared=shared):
                    failures[answer.kind] += 1
                    waited_s += seconds
                    if shared:
                        self._turns.hold(seconds)
                        self._shared.hold(seconds)
                    self._pause(seconds)
                case Smaller(instead=instead):
                    raise AskForLess(instead)
                case NotFound():
                    raise NotThere(answer.detail)
                case GiveUp(error=error):
                    if answer.kind in (Kind.SERVER, Kind.UNREACHABLE):
                        self._tell(answers=False)
                    raise error

    def _tell(self, *, answers: bool) -> None:
        """Let all processes know, once for each client, whether the server answers."""
        if answers in self._told:
            return
        self._told.add(answers)
        if answers:
            self._shared.answered()
        else:
            self._shared.gave_up()

    def _ask(
        self, method: str, path: str, parameters: Mapping[str, str | int], body: JSON | None
    ) -> JSON | Failure:
        with self._turns.turn(self._pause):
            try:
                response = self._http.request(
                    method,
                    self._base + path,
                    params=parameters,
                    json=body,
                    headers=self._headers,
                )
            except (httpx.HTTPError, AnswerTooLarge) as error:
                return failure_of_error(error)
        if not response.is_success or response.status_code == HTTPStatus.MULTI_STATUS:
            return failure_of_answer(response)
        return _document(response)


@contextmanager
def open_client(
    resources: Resources, access: Access, *, pause: Pause, patience: Patience
) -> Iterator[Client]:
    """A client that shares its limits with all others for the same key: the requests in flight
    with those of this process, the times to wait with every process.
    """
    name = turn_of(access.host, access.public_key)
    turns, shared = turns_at(name), SourceLimit(db=resources.db, name=name)
    turns.hold(min(shared.closed_s(), patience.rate_limit_s))
    with outbound_client(
        timeout_s=patience.request_s, max_bytes=MAX_BYTES, policy=resources.outbound
    ) as http:
        yield Client(http, access, turns=turns, shared=shared, pause=pause, patience=patience)


def turn_of(host: str, key: str) -> str:
    """The name under which whoever reads with one key takes turns and shares limits."""
    return f"langfuse:{host}:{key}"


def is_segment(name: str) -> bool:
    """Whether a name can be one step of a path: these two mean another path, encoded or not, to
    whoever reads an address (WHATWG URL, dot segments).
    """
    return name not in (".", "..")


def segment(name: str) -> str:
    """A name as one step of a path, whatever characters it has."""
    assert is_segment(name)
    return quote(name, safe="")


def rows_of(document: JSON, asked: str) -> list[JSON]:
    """The objects in `data`. Raises: `BadResponse` when it does not hold any such list."""
    rows = document.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadResponse(
            f"the answer to {asked} has no list `data`; check that langfuseUrl is the address of a"
            " Langfuse server of version 3 or newer"
        )
    return rows


def meta_of(document: JSON) -> JSON:
    meta = document.get("meta")
    return meta if isinstance(meta, dict) else {}


def _document(response: httpx.Response) -> JSON | Failure:
    try:
        content: Any = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("content-type", "").partition(";")[0]
        return Failure(kind=Kind.GARBLED, detail=f"{kind or 'no type'}, {error}"[:200])
    if not isinstance(content, dict):
        return Failure(kind=Kind.GARBLED, detail="no object")
    return content


def _basic(access: Access) -> str:
    pair = f"{access.public_key}:{access.secret_key.reveal()}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"
