"""HTTP API of API keys, of people and of the audit log."""

from typing import Annotated

from fastapi import Path, Query, Response
from sqlalchemy.orm import Session

from mosaico.access import people, queries, service
from mosaico.access.deps import ADMIN
from mosaico.access.idempotency import Idempotent
from mosaico.access.queries import AuditFilter
from mosaico.access.schemas import (
    ApiKeyCreate,
    ApiKeyCreated,
    ApiKeyPatch,
    ApiKeyView,
    AuditEntryView,
    PersonPatch,
    PersonView,
)
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.schemas import Page
from mosaico.core.web.deps import Res
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router

PATH = "/keys"

KeyId = Annotated[str, Path(alias="keyId")]
PersonId = Annotated[str, Path(alias="personId")]

router = Router(prefix=PATH, tags=["access"], dependencies=ADMIN)
people_router = Router(prefix="/people", tags=["access"], dependencies=ADMIN)
audit_router = Router(prefix="/audit", tags=["access"], dependencies=ADMIN)


@router.post("", status_code=201, response_model=ApiKeyCreated)
def create_api_key(body: ApiKeyCreate, once: Idempotent, res: Res) -> Response:
    """Create an API key. Only this response contains its text."""

    def create(session: Session) -> ApiKeyCreated:
        key = service.create_key(
            session, body.name, body.role, now=res.clock(), expires_at=body.expires_at,
            person_id=body.person_id, only=body.only,
        )  # fmt: skip
        view = queries.get_key(session, key.id)
        body.confirm_created(view)
        return ApiKeyCreated(**view.model_dump(), token=key.token.reveal())

    return once(body, create)


@router.get("")
def list_api_keys(paging: PageParams, res: Res) -> Page[ApiKeyView]:
    """List all API keys, newest first, revoked ones too."""
    with res.db.read() as session:
        return queries.list_keys(session, paging)


@router.get("/{keyId}")
def get_api_key(key_id: KeyId, res: Res) -> ApiKeyView:
    """Show one API key, without its text."""
    with res.db.read() as session:
        return queries.get_key(session, key_id)


@router.patch("/{keyId}", responses=CONFLICT)
def change_api_key(key_id: KeyId, body: ApiKeyPatch, res: Res) -> ApiKeyView:
    """Change the given fields of an API key that is not revoked. Its role never changes."""
    with res.db.begin() as session:
        queries.lock_key(session, key_id)
        edit = body.compare_with_view(queries.get_key(session, key_id))
        service.update_key(session, key_id, edit, now=res.clock())
        return queries.get_key(session, key_id)


@router.delete("/{keyId}", status_code=204, responses=CONFLICT)
def revoke_api_key(key_id: KeyId, res: Res) -> None:
    """Revoke an API key. It stays in the list and stops working within a second."""
    with res.db.begin() as session:
        service.revoke_key(session, key_id, now=res.clock())


@people_router.get("")
def list_people(paging: PageParams, res: Res) -> Page[PersonView]:
    """List everybody who has logged in as a person, newest first, blocked ones too."""
    with res.db.read() as session:
        return people.list_people(session, paging)


@people_router.get("/{personId}")
def get_person(person_id: PersonId, res: Res) -> PersonView:
    """Show one person: name, address, provider, and the role of the last login."""
    with res.db.read() as session:
        return people.get_person(session, person_id)


@people_router.patch("/{personId}")
def change_person(person_id: PersonId, body: PersonPatch, res: Res) -> PersonView:
    """Block or unblock a person. The sessions and keys of a blocked one stop working within a second."""
    with res.db.begin() as session:
        edit = body.compare_with_view(people.get_person(session, person_id)).given_fields()
        if "blocked" in edit:
            people.set_blocked(session, person_id, is_blocked=edit["blocked"], now=res.clock())
        if "only" in edit:
            people.limit_person(session, person_id, edit["only"])
        return people.get_person(session, person_id)


@audit_router.get("")
def list_audit(
    paging: PageParams,
    res: Res,
    filters: Annotated[AuditFilter, Query()],
) -> Page[AuditEntryView]:
    """List the audit log, newest first: names of changed fields, never their values."""
    with res.db.read() as session:
        return queries.list_audit_entries(session, paging, filters)
