"""Idempotency keys: a repeated create request creates once and gets the same response again.

A client that sends `Idempotency-Key` may repeat a create request for a day. The response is stored
in the transaction that creates the resource, under an advisory lock of that transaction: both
exist or neither does, and a request that fails, or whose process dies, leaves nothing behind.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel, SecretStr
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mosaico.access.deps import get_caller
from mosaico.access.models import IdempotencyKey
from mosaico.core.defaults import KEEP_IDEMPOTENCY_KEYS
from mosaico.core.encryption import Secret
from mosaico.core.errors import Conflict, Invalid
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.resources import Resources
from mosaico.core.web.deps import get_resources
from mosaico.core.web.etag import find_etag
from mosaico.core.web.response_headers import add_header

# Creating a resource takes milliseconds: after a second the first request has almost always ended.
RETRY_AFTER_S = 1

T = TypeVar("T", bound=BaseModel)

KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[ -~]{1,255}$",
        description=(
            "Text of at most 255 printable characters that identifies the request. A repeated "
            "request with the same key within 24 hours returns the first response; use a new "
            "key for each new resource."
        ),
    ),
]


def document_conflict(operation: dict[str, Any]) -> None:
    """Add the conflict of parallel requests with one key to the description of an operation."""
    if any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", ())):
        operation["responses"]["409"] = CONFLICT[409]


class IdempotencyKeyReused(Invalid):
    """This Idempotency-Key was used for another request; send a new key for a new request."""


class IdempotencyKeyInFlight(Conflict):
    """The first request with this Idempotency-Key is still running; repeat it in a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response as it is sent; `body` is JSON text."""

    status: int
    location: str | None
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyClaim:
    """An idempotency key of one API key, method and path; `fingerprint` identifies the content."""

    id: str
    api_key_id: str
    method: str
    path: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentCreate:
    """Creates the resource of a request, once per `Idempotency-Key` if one was sent.

    Every create route looks the same:

        @router.post("", status_code=201, response_model=AgentView)
        def create_agent(body: AgentCreate, once: Idempotent) -> Response:
            return once(body, lambda session: service.create_agent(session, body))
    """

    request: Request
    resources: Resources
    key: str | None

    def __call__(
        self,
        body: BaseModel | str | None,
        action: Callable[[Session], T],
        *,
        location: Callable[[T], str] | None = None,
        status: int = 201,
    ) -> Response:
        """Run `action` in its own transaction and respond with the view that it returns.

        `body` is the body of the request, or a digest of a streamed one. `location` gives the path
        of the created resource; the default is the path of the request and the `id` of the view.
        Raises: `IdempotencyKeyReused`, `IdempotencyKeyInFlight`, whatever `action` raises; then
        nothing is written.
        """

        def respond(session: Session) -> StoredResponse:
            created = action(session)
            address = location(created) if location else self._member_path(created)
            # For the audit entry, which is written at the end of this transaction.
            self.request.state.created = address
            etag = find_etag(created)
            if etag is not None:
                # Not stored: the tag of a repeated response could be outdated.
                add_header(self.request.scope, "ETag", etag)
            return StoredResponse(
                status=status, location=address, body=created.model_dump_json(by_alias=True)
            )

        if self.key is None:
            with self.resources.db.begin() as session:
                response = respond(session)
            return _to_http_response(response, replayed=False)
        return self._respond_once(_claim(self.request, self.key, body), respond)

    def _member_path(self, created: BaseModel) -> str | None:
        member = getattr(created, "id", None)
        return None if member is None else f"{self.request.url.path}/{member}"

    def _respond_once(
        self, claim: IdempotencyClaim, respond: Callable[[Session], StoredResponse]
    ) -> Response:
        with self.resources.db.begin() as session:
            # Before the look-up: of two parallel requests one creates, the other one gets 409 and
            # repeats.
            _lock_claim(session, claim)
            stored_response = self._find_response(session, claim)
            if stored_response is not None:
                self.request.state.replayed = True
                return _to_http_response(stored_response, replayed=True)
            response = respond(session)
            self._store_response(session, claim, response)
        return _to_http_response(response, replayed=False)

    def _find_response(self, session: Session, claim: IdempotencyClaim) -> StoredResponse | None:
        row = session.get(IdempotencyKey, claim.id)
        if row is None:
            return None
        # Deleted here, because the periodic deletion may come later, and the id is needed again
        # now.
        if row.expires_at <= self.resources.clock():
            session.delete(row)
            session.flush()
            return None
        if row.fingerprint != claim.fingerprint:
            raise IdempotencyKeyReused
        body = self.resources.secrets.decrypt(
            row.response, table=row.__tablename__, row=row.id, column="response"
        )
        return StoredResponse(status=row.status, location=row.location, body=body.reveal())

    def _store_response(
        self, session: Session, claim: IdempotencyClaim, response: StoredResponse
    ) -> None:
        now = self.resources.clock()
        table = IdempotencyKey.__tablename__
        session.add(
            IdempotencyKey(
                id=claim.id,
                api_key_id=claim.api_key_id,
                method=claim.method,
                path=claim.path,
                fingerprint=claim.fingerprint,
                status=response.status,
                location=response.location,
                # Encrypted, because the response of a create route may contain a new API key.
                response=self.resources.secrets.encrypt(
                    response.body, table=table, row=claim.id, column="response"
                ),
                created_at=now,
                expires_at=now + KEEP_IDEMPOTENCY_KEYS,
            )
        )
        session.flush()


async def _idempotent_create(
    request: Request, idempotency_key: KeyHeader = None
) -> IdempotentCreate:
    return IdempotentCreate(request=request, resources=get_resources(request), key=idempotency_key)


Idempotent = Annotated[IdempotentCreate, Depends(_idempotent_create)]


def _claim(request: Request, key: str, body: BaseModel | str | None) -> IdempotencyClaim:
    api_key_id, method, path = get_caller(request).key_id, request.method, request.url.path
    # The parsed body: another order of members or other white space is the same request.
    content = body.model_dump(exclude_unset=True) if isinstance(body, BaseModel) else body
    return IdempotencyClaim(
        id=_digest([api_key_id, method, path, key]).hex(),
        api_key_id=api_key_id,
        method=method,
        path=path,
        # The body may contain a secret with few possible values: the key is the salt of the digest.
        fingerprint=_digest([api_key_id, key, request.url.query, content]),
    )


def _lock_claim(session: Session, claim: IdempotencyClaim) -> None:
    # Advisory locks are 64-bit numbers; a collision only makes two requests wait for each other.
    number = int.from_bytes(bytes.fromhex(claim.id)[:8], signed=True)
    if not session.scalar(select(func.pg_try_advisory_xact_lock(number))):
        raise IdempotencyKeyInFlight(headers={"Retry-After": str(RETRY_AFTER_S)})


def _digest(parts: list[Any]) -> bytes:
    text = json.dumps(parts, sort_keys=True, default=_reveal)
    return hashlib.sha256(text.encode()).digest()


def _reveal(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value)


def _to_http_response(stored: StoredResponse, *, replayed: bool) -> Response:
    headers = {"Idempotent-Replayed": "true"} if replayed else {}
    if stored.location is not None:
        headers["Location"] = stored.location
    return Response(
        stored.body, status_code=stored.status, media_type="application/json", headers=headers
    )
