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
from app.core.http.client import outbound_client
from app.core.http.throttle import Pause, Throttle, get_throttle
from app.core.http.transport import OversizedResponse
from app.core.resources import Resources
from app.traces.circuit_breaker import CircuitBreaker
from app.traces.sources.langfuse.errors import (
    BadResponse,
    FailureKind,
    LangfuseAuthError,
    LangfuseUnavailable,
    NotFoundError,
    PageTooLarge,
    RequestFailure,
    classify_response,
    classify_transport_error,
)
from app.traces.sources.langfuse.payload import JSON
from app.traces.sources.langfuse.retry import (
    LangfusePolicy,
    RaiseFinalError,
    RaiseNotFound,
    ReducePageSize,
    RetryAfterWait,
    decide_retry,
)

Parameters = Mapping[str, str | int | None]

MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024
API_PREFIX: Final = "/api/public"


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseCredentials:
    """Where a project is and with which keys it is read; `host` has no slash at its end."""

    host: str
    public_key: str
    secret_key: Secret


def require_credentials(
    url: str | None, public_key: str | None, secret_key: Secret | None
) -> LangfuseCredentials:
    """What the client needs. Raises: `LangfuseAuth`, `LangfuseUnavailable` for what is not set."""
    if not public_key or secret_key is None:
        missing = "public" if not public_key else "secret"
        raise LangfuseAuthError(
            f"the agent has no {missing} key of Langfuse; PATCH it with langfusePublicKey and"
            " langfuseSecretKey of the project that holds its traces"
        )
    if not url:
        raise LangfuseUnavailable("the agent has no langfuseUrl; PATCH it with the server's URL")
    return LangfuseCredentials(host=url.rstrip("/"), public_key=public_key, secret_key=secret_key)


class LangfuseClient:
    """Answers of the public API as JSON objects.

    Raises, from `get` and `post`: `NotThere` for a 404, `AskForLess`, what `failures` lists, and
    whatever `pause` raises to end a wait.
    """

    def __init__(
        self,
        http: httpx.Client,
        credentials: LangfuseCredentials,
        *,
        throttle: Throttle,
        circuit_breaker: CircuitBreaker,
        pause: Pause,
        policy: LangfusePolicy,
        random_factor: Callable[[], float] = random.random,
    ) -> None:
        self._http = http
        self._base = f"{credentials.host}{API_PREFIX}"
        self._headers = {"Authorization": _basic_auth(credentials)}
        self._throttle = throttle
        self._circuit_breaker = circuit_breaker
        self._reported: set[bool] = set()
        self._pause = pause
        self._policy = policy
        self._random_factor = random_factor
        self.credentials = credentials

    def get(self, path: str, parameters: Parameters | None = None) -> JSON:
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        return self._request("GET", path, given, None)

    def post(self, path: str, body: JSON) -> JSON:
        """Send what may well be sent twice: a request that brought no answer is made again."""
        return self._request("POST", path, {}, body)

    def _request(
        self, method: str, path: str, parameters: Mapping[str, str | int], body: JSON | None
    ) -> JSON:
        failures: Counter[FailureKind] = Counter()
        waited_s = 0.0
        while True:
            answer = self._send(method, path, parameters, body)
            if not isinstance(answer, RequestFailure):
                self._report_availability(answers=True)
                return answer
            step = decide_retry(
                answer,
                request_name=f"{method} {API_PREFIX}{path}",
                failed_attempts=failures[answer.kind],
                waited_s=waited_s,
                random_factor=self._random_factor(),
                policy=self._policy,
            )
            match step:
                case RetryAfterWait(seconds=seconds, for_all_clients=shared):
                    failures[answer.kind] += 1
                    waited_s += seconds
                    if shared:
                        self._throttle.delay_requests(seconds)
                        self._circuit_breaker.hold_requests(seconds)
                    self._pause(seconds)
                case ReducePageSize(final_error=instead):
                    raise PageTooLarge(instead)
                case RaiseNotFound():
                    raise NotFoundError(answer.detail)
                case RaiseFinalError(error=error):
                    if answer.kind in (FailureKind.SERVER_ERROR, FailureKind.UNREACHABLE):
                        self._report_availability(answers=False)
                    raise error

    def _report_availability(self, *, answers: bool) -> None:
        """Let all processes know, once for each client, whether the server answers."""
        if answers in self._reported:
            return
        self._reported.add(answers)
        if answers:
            self._circuit_breaker.record_success()
        else:
            self._circuit_breaker.record_failure()

    def _send(
        self, method: str, path: str, parameters: Mapping[str, str | int], body: JSON | None
    ) -> JSON | RequestFailure:
        with self._throttle.slot(self._pause):
            try:
                response = self._http.request(
                    method,
                    self._base + path,
                    params=parameters,
                    json=body,
                    headers=self._headers,
                )
            except (httpx.HTTPError, OversizedResponse) as error:
                return classify_transport_error(error)
        if not response.is_success or response.status_code == HTTPStatus.MULTI_STATUS:
            return classify_response(response)
        return _parse_document(response)


@contextmanager
def open_client(
    resources: Resources, credentials: LangfuseCredentials, *, pause: Pause, policy: LangfusePolicy
) -> Iterator[LangfuseClient]:
    """A client that shares its limits with all others for the same key: the requests in flight
    with those of this process, the times to wait with every process.
    """
    name = throttle_name(credentials.host, credentials.public_key)
    turns, shared = get_throttle(name), CircuitBreaker(db=resources.db, name=name)
    turns.delay_requests(min(shared.open_for_s(), policy.rate_limit_s))
    with outbound_client(
        timeout_s=policy.request_s, max_bytes=MAX_RESPONSE_BYTES, policy=resources.outbound
    ) as http:
        yield LangfuseClient(
            http, credentials, throttle=turns, circuit_breaker=shared, pause=pause, policy=policy
        )


def throttle_name(host: str, key: str) -> str:
    """The name under which whoever reads with one key takes turns and shares limits."""
    return f"langfuse:{host}:{key}"


def is_path_segment(name: str) -> bool:
    """Whether a name can be one step of a path: these two mean another path, encoded or not, to
    whoever reads an address (WHATWG URL, dot segments).
    """
    return name not in (".", "..")


def quote_segment(name: str) -> str:
    """A name as one step of a path, whatever characters it has."""
    assert is_path_segment(name)
    return quote(name, safe="")


def get_rows(document: JSON, request_name: str) -> list[JSON]:
    """The objects in `data`. Raises: `BadResponse` when it does not hold any such list."""
    rows = document.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadResponse(
            f"the answer to {request_name} has no list `data`; check that langfuseUrl is the address of a"
            " Langfuse server of version 3 or newer"
        )
    return rows


def get_meta(document: JSON) -> JSON:
    meta = document.get("meta")
    return meta if isinstance(meta, dict) else {}


def _parse_document(response: httpx.Response) -> JSON | RequestFailure:
    try:
        content: Any = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("content-type", "").partition(";")[0]
        return RequestFailure(
            kind=FailureKind.MALFORMED, detail=f"{kind or 'no type'}, {error}"[:200]
        )
    if not isinstance(content, dict):
        return RequestFailure(kind=FailureKind.MALFORMED, detail="no object")
    return content


def _basic_auth(access: LangfuseCredentials) -> str:
    pair = f"{access.public_key}:{access.secret_key.reveal()}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"
