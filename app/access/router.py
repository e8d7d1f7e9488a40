"""API keys over HTTP: give out, list, revoke."""

from fastapi import APIRouter, Depends, Response
from sqlalchemy.orm import Session

from app.access import queries, service
from app.access.deps import require
from app.access.idempotency import Once
from app.access.schemas import ApiKeyCreate, ApiKeyCreated, ApiKeyView
from app.core.deps import Res
from app.core.pagination import Paging
from app.core.schemas import Page

PATH = "/api-keys"

router = APIRouter(prefix=PATH, tags=["access"], dependencies=[Depends(require("admin"))])


@router.post("", status_code=201, response_model=ApiKeyCreated)
def create_api_key(body: ApiKeyCreate, once: Once, res: Res) -> Response:
    """Give out a key; the answer is the only place where its text is shown."""

    def create(session: Session) -> ApiKeyCreated:
        key = service.create_key(
            session, body.name, body.role, now=res.clock(), expires_at=body.expires_at
        )
        view = queries.get_key(session, key.id)
        return ApiKeyCreated(**view.model_dump(), token=key.token.reveal())

    return once(body, create)


@router.get("")
def list_api_keys(paging: Paging, res: Res) -> Page[ApiKeyView]:
    """The keys that were given out, newest first, revoked ones too."""
    with res.db.read() as session:
        return queries.list_keys(session, paging)


@router.get("/{key_id}")
def get_api_key(key_id: str, res: Res) -> ApiKeyView:
    with res.db.read() as session:
        return queries.get_key(session, key_id)


@router.delete("/{key_id}", status_code=204)
def revoke_api_key(key_id: str, res: Res) -> None:
    """End a key for good; it stays in the list, and stops working within a second."""
    with res.db.begin() as session:
        service.revoke_key(session, key_id, now=res.clock())
