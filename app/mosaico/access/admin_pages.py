"""Pages for admins: the API keys, of which a new one is shown once, and the audit log."""

from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response

from mosaico.access import queries, service
from mosaico.access.deps import ADMIN
from mosaico.access.one_time_secrets import find_secret, forget_secret, redirect_with_secret
from mosaico.access.queries import AuditFilter
from mosaico.access.schemas import ApiKeyCreate, ApiKeyPatch, ApiKeyView
from mosaico.core.keyset import PageQuery
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.form_page import (
    FormPage,
    require_revision,
    revision_of,
    show_form,
    submit_form,
)
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.rendering import FieldInput, SchemaForm
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, list_in_api, render_page, see_other
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router

router = Router()

NAV = "/keys"
STEPS = (Crumb("API keys", NAV),)
SHOWN_ACTIONS = 20

_INPUTS = {
    "name": FieldInput(help="Who or what uses the key, such as nightly CI."),
    "role": FieldInput(
        help="Read: see everything. Run: also start and cancel runs, acknowledge. Admin: also change settings and keys."
    ),
    "personId": FieldInput(
        "Person", "ID of the person whose key it is; it stops working when they are blocked."
    ),
    "only": FieldInput("Only these benchmarks", "IDs, one in each line. Empty: all."),
    "expiresAt": FieldInput("Expires at", "Leave empty for a key that never expires."),
}
FORM = SchemaForm(
    create=ApiKeyCreate, main=("name", "role", "expiresAt", "personId", "only"), inputs=_INPUTS
)
EDIT_FORM = SchemaForm(
    create=ApiKeyPatch, patch=ApiKeyPatch, main=("name", "expiresAt"), inputs=_INPUTS
)

KeyId = Annotated[str, Path(alias="keyId")]
AuditFilters = Annotated[
    SentFilters[AuditFilter], Depends(PageFilters(AuditFilter, "actor action outcome from to"))
]


@router.get("/keys", dependencies=ADMIN)
def show_keys(request: Request, res: Res, query: ListQuery) -> Response:
    """The API keys, revoked ones too."""
    with res.db.read() as session:
        page = queries.list_keys(session, query)
    return render_page(
        request,
        "keys.html",
        title="API keys",
        nav=NAV,
        api=list_in_api(request, "/keys"),
        keys=page.items,
        next_cursor=page.next_cursor,
    )


@router.get("/keys/{keyId}", dependencies=ADMIN)
def show_key(request: Request, key_id: KeyId, res: Res) -> Response:
    """Show one key with its latest changes; directly after its creation, also its text."""
    with res.db.read() as session:
        key = queries.get_key(session, key_id)
        actions = queries.list_audit_entries(
            session, PageQuery(SHOWN_ACTIONS), AuditFilter(actor_id=key_id)
        )
        owners = queries.list_caller_names(session, {key.person_id} if key.person_id else set())
    response = render_page(
        request,
        "key.html",
        title=key.name,
        nav=NAV,
        api=path_of("keys", key_id),
        has_secrets=True,
        steps=STEPS,
        key=key,
        token=find_secret(request, res.secrets),
        actions=actions.items,
        owner=owners.get(key.person_id or "", ""),
        audit_url=f"/api/v1{build_url('/audit', actorId=key_id)}",
    )
    return forget_secret(request, response)


@router.get("/new/key", dependencies=ADMIN)
def show_new_key(request: Request) -> Response:
    """The form of a new key."""
    return show_form(request, _new_page())


@router.post("/keys", dependencies=ADMIN)
def create_api_key(request: Request, form: SentForm, res: Res) -> Response:
    """Create a key and show its text once."""
    tokens: list[str] = []

    def save(body: ApiKeyCreate) -> str:
        with res.db.begin() as session:
            key = service.create_key(
                session, body.name, body.role, now=res.clock(), expires_at=body.expires_at,
                person_id=body.person_id, only=body.only or None,
            )  # fmt: skip
            request.state.created = address = path_of("keys", key.id)
        tokens.append(key.token.reveal())
        return address

    response = submit_form(request, form, _new_page, save)
    if not tokens:
        return response
    return redirect_with_secret(request, response.headers["location"], tokens[0], res.secrets)


@router.get("/keys/{keyId}/edit", dependencies=ADMIN)
def show_key_form(request: Request, key_id: KeyId, res: Res) -> Response:
    """The form of a key."""
    return show_form(request, _edit_page(key_id, res))


@router.post("/keys/{keyId}", dependencies=ADMIN)
def change_api_key(request: Request, key_id: KeyId, form: SentForm, res: Res) -> Response:
    """Change the name or the expiry of a key."""

    def save(body: ApiKeyPatch) -> str:
        with res.db.begin() as session:
            queries.lock_key(session, key_id)
            require_revision(form, _revision(queries.get_key(session, key_id)))
            service.update_key(session, key_id, body, now=res.clock())
        return path_of("keys", key_id)

    return submit_form(request, form, lambda: _edit_page(key_id, res), save)


@router.post("/keys/{keyId}/revoke", dependencies=ADMIN)
def revoke_api_key(key_id: KeyId, res: Res) -> Response:
    """Revoke a key; its sessions end, too."""
    with res.db.begin() as session:
        service.revoke_key(session, key_id, now=res.clock())
    return see_other(NAV)


@router.get("/audit", dependencies=ADMIN)
def show_audit_log(request: Request, res: Res, query: ListQuery, filters: AuditFilters) -> Response:
    """The entries, newest first."""
    with res.db.read() as session:
        page = queries.list_audit_entries(session, query, filters.of_list)
        actors = queries.list_key_names(session)
    return render_page(
        request, "audit.html", title="Audit log", nav="/audit",
        api=list_in_api(request, "/audit", **filters.in_api), filters=filters.fields,
        entries=page.items, actors=actors, names={"actor": actors.choices()},
        next_cursor=page.next_cursor,
    )  # fmt: skip


def _revision(key: ApiKeyView) -> str:
    return revision_of(key.model_dump(mode="json", include={"name", "expires_at", "revoked_at"}))


def _new_page() -> FormPage:
    return FormPage(
        form=FORM, title="New API key", nav=NAV, steps=STEPS, action=NAV, back=NAV, submit="Create"
    )


def _edit_page(key_id: str, res: Resources) -> FormPage:
    with res.db.read() as session:
        key = queries.get_key(session, key_id)
    address = path_of("keys", key_id)
    values: dict[str, Any] = key.model_dump(mode="json")
    return FormPage(
        form=EDIT_FORM, title=f"Edit {key.name}", nav=NAV, steps=(*STEPS, Crumb(key.name, address)),
        action=address, back=address, values=values, revision=_revision(key),
    )  # fmt: skip
