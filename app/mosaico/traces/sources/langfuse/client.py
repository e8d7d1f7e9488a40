"""HTTP client for one Langfuse server with one pair of keys; retries failed requests, reads numbered pages.

API v3 and the datasets number their pages; the rows decide where a list ends.
"""

import base64
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx

from mosaico.core.encryption import Secret
from mosaico.core.http.client import outbound_client
from mosaico.core.http.threads import run_in_order
from mosaico.core.http.throttle import Pause, Throttle, get_throttle
from mosaico.core.http.transport import OversizedResponse
from mosaico.core.ids import is_path_segment
from mosaico.core.resources import Resources
from mosaico.traces.circuit_breaker import CircuitBreaker
from mosaico.traces.sources.langfuse.failures import (
    BadResponse,
    FailureKind,
    LangfuseAuthError,
    LangfusePolicy,
    LangfuseUnavailable,
    NotFoundError,
    PageTooLarge,
    RaiseFinalError,
    RaiseNotFound,
    ReducePageSize,
    RequestFailure,
    RetryAfterWait,
    classify_response,
    classify_transport_error,
    decide_retry,
)
from mosaico.traces.sources.langfuse.json_fields import JSON, parse_number

Parameters = Mapping[str, str | int | None]
# Langfuse does not shorten inputs and outputs: pages of 100 rows can have tens of megabytes.
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024
API_PREFIX: Final = "/api/public"
EVENTS_PATH: Final = "/ingestion"


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseCredentials:
    """The server of a project and the keys of the project; `host` has no trailing slash."""

    host: str
    public_key: str
    secret_key: Secret


def require_credentials(
    url: str | None, public_key: str | None, secret_key: Secret | None
) -> LangfuseCredentials:
    """The credentials of an agent.

    Raises: `LangfuseAuthError` for a missing key, `LangfuseUnavailable` for a missing URL.
    """
    if not public_key or secret_key is None:
        raise LangfuseAuthError(_describe_missing_keys(public_key, secret_key))
    if not url:
        raise LangfuseUnavailable("the agent has no langfuseUrl; set it to the server's URL")
    return LangfuseCredentials(host=url.rstrip("/"), public_key=public_key, secret_key=secret_key)


def _describe_missing_keys(public_key: str | None, secret_key: Secret | None) -> str:
    if not public_key and secret_key is None:
        return (
            "the agent has no keys of Langfuse; set langfusePublicKey and langfuseSecretKey of the"
            " project that holds its traces"
        )
    missing, field = (
        ("secret", "langfuseSecretKey") if public_key else ("public", "langfusePublicKey")
    )
    return f"the agent has no {missing} key of Langfuse; set {field}, or clear the other key to read uploads"


class LangfuseClient:
    """Requests to the public API, answered with JSON objects.

    `get` and `post_events` raise `NotFoundError` for a 404, `PageTooLarge`, the errors listed in `errors`,
    and whatever `pause` raises to end a wait.
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
        self._base_url = f"{credentials.host}{API_PREFIX}"
        self._headers = {"Authorization": _basic_auth(credentials)}
        self._throttle = throttle
        self._circuit_breaker = circuit_breaker
        self._reported: set[bool] = set()
        self._pause = pause
        self._policy = policy
        self._random_factor = random_factor
        self.credentials = credentials

    def get(self, path: str, parameters: Parameters | None = None) -> JSON:
        """Send a GET request; parameters with the value None are omitted."""
        query = {name: value for name, value in (parameters or {}).items() if value is not None}
        return self._request("GET", path, query, None)

    def post_events(self, body: JSON) -> JSON:
        """Send a batch of events, and return the status of each. The events must be idempotent, because
        the batch is repeated without a response.
        """
        return self._request("POST", EVENTS_PATH, {}, body)

    def _request(
        self, method: str, path: str, parameters: Mapping[str, str | int], body: JSON | None
    ) -> JSON:
        # Counted by kind: a rate limit in the middle of an outage does not use up its retries.
        failures: Counter[FailureKind] = Counter()
        # All waits of this request together, whatever their reason: it limits the wait for the rate
        # limit.
        waited_s = 0.0
        while True:
            response = self._send(method, path, parameters, body)
            if not isinstance(response, RequestFailure):
                self._report_availability(available=True)
                return response
            decision = decide_retry(
                response,
                request_name=f"{method} {API_PREFIX}{path}",
                failed_attempts=failures[response.kind],
                waited_s=waited_s,
                random_factor=self._random_factor(),
                policy=self._policy,
            )
            match decision:
                case RetryAfterWait(seconds=seconds, for_all_clients=for_all_clients):
                    failures[response.kind] += 1
                    waited_s += seconds
                    if for_all_clients:
                        self._throttle.delay_requests(seconds)
                        # The throttle makes the clients of this process wait, the circuit breaker
                        # those of all workers.
                        self._circuit_breaker.hold_requests(seconds)
                    self._pause(seconds)
                case ReducePageSize(final_error=final_error):
                    raise PageTooLarge(final_error)
                case RaiseNotFound():
                    raise NotFoundError(response.detail)
                case RaiseFinalError(error=error):
                    if response.kind in (FailureKind.SERVER_ERROR, FailureKind.UNREACHABLE):
                        self._report_availability(available=False)
                    raise error

    def _report_availability(self, *, available: bool) -> None:
        """Tell all processes whether the server answers; once per client, to save writes."""
        if available in self._reported:
            return
        self._reported.add(available)
        if available:
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
                    self._base_url + path,
                    params=parameters,
                    json=body,
                    headers=self._headers,
                )
            except (httpx.HTTPError, OversizedResponse) as error:
                return classify_transport_error(error)
        # 207 is the answer to a batch of events: the caller reads the status of each.
        is_batch = path == EVENTS_PATH
        is_partial = response.status_code == HTTPStatus.MULTI_STATUS and not is_batch
        if not response.is_success or is_partial:
            return classify_response(response)
        return _parse_document(response)


@contextmanager
def open_client(
    resources: Resources,
    credentials: LangfuseCredentials,
    *,
    pause: Pause,
    policy: LangfusePolicy,
) -> Iterator[LangfuseClient]:
    """Open a client that shares its limits with all clients of the same key.

    The limit of concurrent requests is shared within the process, the waits with all processes.
    """
    name = throttle_name(credentials.host, credentials.public_key)
    throttle, breaker = get_throttle(name), CircuitBreaker(db=resources.db, name=name)
    # The server may just have required another process to wait.
    throttle.delay_requests(min(breaker.open_for_s(), policy.rate_limit_s))
    with outbound_client(
        timeout_s=policy.request_s, max_bytes=MAX_RESPONSE_BYTES, policy=resources.outbound
    ) as http:
        yield LangfuseClient(
            http,
            credentials,
            throttle=throttle,
            circuit_breaker=breaker,
            pause=pause,
            policy=policy,
        )


def throttle_name(host: str, public_key: str) -> str:
    """The name under which all clients of one key share their limits."""
    return f"langfuse:{host}:{public_key}"


def quote_segment(name: str) -> str:
    """A name as one percent-encoded segment of a path."""
    assert is_path_segment(name)
    return quote(name, safe="")


def get_rows(document: JSON, request_name: str, *, any_rows: bool = False) -> list[JSON]:
    """The objects in `data`; a row that is not an object is returned as an empty one.

    Raises: `BadResponse` when `data` is not a list, or, unless `any_rows`, no row of it is an object.
    """
    rows = document.get("data")
    has_objects = isinstance(rows, list) and any(isinstance(row, dict) for row in rows)
    if not isinstance(rows, list) or (rows and not (any_rows or has_objects)):
        raise BadResponse(
            f"the response to {request_name} has no list `data`; check that langfuseUrl is the"
            " address of a Langfuse server of version 3 or newer"
        )
    return [row if isinstance(row, dict) else {} for row in rows]


def get_meta(document: JSON) -> JSON:
    """The object `meta`, which holds the cursor or the number of pages; empty when missing."""
    meta = document.get("meta")
    return meta if isinstance(meta, dict) else {}


def _parse_document(response: httpx.Response) -> JSON | RequestFailure:
    try:
        content: Any = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        media_type = response.headers.get("content-type", "").partition(";")[0]
        detail = f"{media_type or 'no content type'}, {error}"[:200]
        return RequestFailure(kind=FailureKind.MALFORMED, detail=detail)
    if not isinstance(content, dict):
        return RequestFailure(kind=FailureKind.MALFORMED, detail="the JSON is not an object")
    return content


def _basic_auth(credentials: LangfuseCredentials) -> str:
    pair = f"{credentials.public_key}:{credentials.secret_key.reveal()}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


class NumberedPage(NamedTuple):
    """The rows of one page, and the number of pages that the server reports."""

    rows: list[JSON]
    total_pages: int

    def is_last(self, number: int, limit: int) -> bool:
        """Return whether this page, number `number` with at most `limit` rows, is the last one.

        Servers report too few pages, too many or none, so a full page is never the last.
        """
        return not self.rows or (len(self.rows) < limit and number >= self.total_pages)


def iter_pages(
    fetch: Callable[[int], NumberedPage], *, limit: int, concurrency: int = 1, rows_name: str
) -> Iterator[NumberedPage]:
    """Yield the pages in order; up to `concurrency` of the reported pages are fetched at once.

    Raises: `BadResponse` when a page repeats, since the rows after it are unknown.
    """
    page = fetch(1)
    reported_pages = (partial(fetch, number) for number in range(2, page.total_pages + 1))
    prefetched = run_in_order(reported_pages, concurrency=concurrency)
    for number in count(1):
        yield page
        if page.is_last(number, limit):
            return
        # Beyond the reported number of pages the list is read on, one page at a time.
        previous, page = page, next(prefetched, None) or fetch(number + 1)
        if page.rows and page.rows == previous.rows:
            raise BadResponse(
                f"Langfuse returned the same page of {rows_name} twice; report it to the operator"
                " of the server, then retry"
            )


def fetch_page(
    client: LangfuseClient,
    path: str,
    parameters: Parameters,
    number: int,
    fields: Sequence[str] = (),
) -> NumberedPage:
    """Fetch one page; with `fields` only these fields of each row are kept, to save memory."""
    document = client.get(path, {**parameters, "page": number})
    total_pages = parse_number(get_meta(document).get("totalPages"))
    rows = get_rows(document, f"GET {path}")
    if fields:
        rows = [{field: row.get(field) for field in fields} for row in rows]
    return NumberedPage(rows, int(total_pages or 1))


def fetch_page_in_parts(
    client: LangfuseClient,
    path: str,
    parameters: Parameters,
    number: int,
    fields: Sequence[str] = (),
) -> NumberedPage:
    """Fetch one page; when it is too large for the server, as several smaller pages.

    Raises: `PageTooLarge` when a page of one row is too large.
    """
    try:
        return fetch_page(client, path, parameters, number, fields)
    except PageTooLarge:
        limit = int(parameters["limit"] or 1)
        # Only a divisor of the limit works: page N must cover whole smaller pages.
        part_count = next((divisor for divisor in (2, 5) if limit % divisor == 0), None)
        if part_count is None:
            raise
    smaller_pages, last_number = {**parameters, "limit": limit // part_count}, number * part_count
    rows = list[JSON]()
    for part_number in range(last_number - part_count + 1, last_number + 1):
        part = fetch_page_in_parts(client, path, smaller_pages, part_number, fields)
        rows += part.rows
        if part.is_last(part_number, limit // part_count):
            break
    return NumberedPage(rows, math.ceil(part.total_pages / part_count))
