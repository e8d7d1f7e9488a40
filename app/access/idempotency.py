"""Requests that are carried out once, however often they arrive.

A client that sends `Idempotency-Key` may repeat a creating request for a day: the first one that
succeeds creates, every later one gets the same answer. The answer is stored in the transaction of
the effect, behind an advisory lock that ends with it: both exist or neither does, and a request
that fails, or whose process dies, leaves nothing behind.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel, SecretStr
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.access.deps import get_caller
from app.access.models import IdempotencyKey
from app.core.encryption import Secret
from app.core.errors import Conflict, Invalid
from app.core.resources import Resources
from app.core.web.deps import get_resources
from app.core.web.etag import find_etag
from app.core.web.response_headers import add_header

RETENTION = timedelta(hours=24)
RETRY_AFTER_S = 1

T = TypeVar("T", bound=BaseModel)

KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[ -~]{1,255}$",
        description="Any text of at most 255 printable characters, new for each thing to create."
        " A repeated request with the same key within 24 hours gets the first answer again.",
    ),
]


class IdempotencyKeyReused(Invalid):
    """This Idempotency-Key came with another request before; send a new key for a new request."""

    code = "idempotency-key-reused"


class IdempotencyKeyInFlight(Conflict):
    """The first request with this Idempotency-Key is still under way; repeat it in a second."""

    code = "idempotency-key-in-flight"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """An answer as it goes over the wire; `body` is JSON text."""

    status: int
    location: str | None
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyClaim:
    """One client's key for one kind of request; `fingerprint` tells its content."""

    id: str
    api_key_id: str
    method: str
    path: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentCreate:
    """Carries out the creating request at hand, once per `Idempotency-Key` if one was sent.

    Every creating route reads the same:

        @router.post("", status_code=201, response_model=AgentView)
        def create_agent(body: AgentCreate, once: Once) -> Response:
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
        """Run `action` in a transaction of its own and answer with what it returns.

        `body` is what the client sent, or a digest of it when it was streamed. `location` gives
        the path of what was created; without it, that is the path of the request and the `id`
        of the answer.
        Raises: `IdempotencyKeyReused`, `IdempotencyKeyInFlight`, whatever `action` raises;
        nothing is written then.
        """

        def answer(session: Session) -> StoredResponse:
            created = action(session)
            address = location(created) if location else self._member_path(created)
            self.request.state.created = address
            etag = find_etag(created)
            if etag is not None:
                add_header(self.request.scope, "ETag", etag)
            return StoredResponse(
                status=status, location=address, body=created.model_dump_json(by_alias=True)
            )

        if self.key is None:
            with self.resources.db.begin() as session:
                fresh = answer(session)
            return _response(fresh, replayed=False)
        return self._respond_once(_claim(self.request, self.key, body), answer)

    def _member_path(self, created: BaseModel) -> str | None:
        member = getattr(created, "id", None)
        return None if member is None else f"{self.request.url.path}/{member}"

    def _respond_once(
        self, claim: IdempotencyClaim, answer: Callable[[Session], StoredResponse]
    ) -> Response:
        with self.resources.db.begin() as session:
            _lock_claim(session, claim)
            earlier = self._find_response(session, claim)
            if earlier is not None:
                self.request.state.replayed = True
                return _response(earlier, replayed=True)
            fresh = answer(session)
            self._store_response(session, claim, fresh)
        return _response(fresh, replayed=False)

    def _find_response(self, session: Session, claim: IdempotencyClaim) -> StoredResponse | None:
        row = session.get(IdempotencyKey, claim.id)
        if row is None:
            return None
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
        self, session: Session, claim: IdempotencyClaim, answer: StoredResponse
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
                status=answer.status,
                location=answer.location,
                response=self.resources.secrets.encrypt(
                    answer.body, table=table, row=claim.id, column="response"
                ),
                created_at=now,
                expires_at=now + RETENTION,
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
    content = body.model_dump(exclude_unset=True) if isinstance(body, BaseModel) else body
    return IdempotencyClaim(
        id=_digest([api_key_id, method, path, key]).hex(),
        api_key_id=api_key_id,
        method=method,
        path=path,
        # The key salts the digest, so that it does not tell which secret a body held.
        fingerprint=_digest([api_key_id, key, request.url.query, content]),
    )


def _lock_claim(session: Session, claim: IdempotencyClaim) -> None:
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


def _response(answer: StoredResponse, *, replayed: bool) -> Response:
    headers = {"Idempotent-Replayed": "true"} if replayed else {}
    if answer.location is not None:
        headers["Location"] = answer.location
    return Response(
        answer.body, status_code=answer.status, media_type="application/json", headers=headers
    )
