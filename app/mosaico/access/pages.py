"""Pages for logging in and out, the time zone of the reader, and pages of errors."""

import re
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlencode

from fastapi import Query, Request, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from mosaico.access import error_pages, sessions
from mosaico.access.audit import AuditResource, record_action
from mosaico.access.authentication import identify_token, named_by_proxy
from mosaico.access.login_pages import logged_in, login_page, with_cookie
from mosaico.access.login_rules import PROXY_ISSUER, UNCLEAR, Identity
from mosaico.access.provider_pages import log_in_identity
from mosaico.access.sessions import COOKIE, Draft, NewSession
from mosaico.core.clock import zone_names
from mosaico.core.errors import AppError, Unauthorized
from mosaico.core.resources import Resources
from mosaico.core.url_syntax import is_redacted
from mosaico.core.web.deps import SAFE_METHODS, Res
from mosaico.core.web.forms.confirmation import page_before
from mosaico.core.web.forms.rendering import REMOVE
from mosaico.core.web.forms.sent_fields import FORM_TYPE, SentForm, local_path
from mosaico.core.web.page_text import find_zone
from mosaico.core.web.pages import ZONE_COOKIE, build_url, render_page, see_other
from mosaico.core.web.request_body import read_content_type
from mosaico.core.web.request_origin import (
    CrossSiteRequest,
    require_kept_cookie,
    require_same_origin,
)
from mosaico.core.web.routes import Router

router = Router()

A_YEAR_S = 365 * 24 * 3600
MAX_DRAFT_CHARS = 64 * 1024
SESSION_ENDED = "Your session has ended; log in to continue."
INPUT_LOST = f"{SESSION_ENDED} What you sent is not kept, and nothing was changed: send it again after the login."
# Values that a page must never show again: `langfuseSecretKey`, and no `langfusePublicKey` or `metric.key`.
SECRET_FIELD: Final = re.compile(r"(?:secret(?:key)?|apikey|password|token)$", re.IGNORECASE)
ADDRESS_FIELDS: Final = frozenset({"recipient", "recipients", "runUrl"})
# The fields of a kept form whose value is not kept, one in each.
LEFT_OUT: Final = "leftOut"

NextPath = Annotated[str, Query(alias="next", max_length=4096)]


@router.get("/login")
def show_login(
    request: Request,
    res: Res,
    next_path: Annotated[str | None, Query(alias="next", max_length=4096)] = None,
    once: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """The form of an API key; with `once`, the link that logs in by itself."""
    target = local_path(next_path or "/")
    named = named_by_proxy(request)
    if named is not None and once is None and request.method != "HEAD":
        return _log_in_named(request, res, named, target)
    is_logged_in = getattr(request.state, "caller", None) is not None
    # A program that looks where a link leads does not use it up.
    if once is None or request.method == "HEAD":
        # The browser went back to the page that asked for the key, which is done.
        is_done = is_logged_in and next_path is not None
        return see_other(target) if is_done else login_page(request, target)
    try:
        with res.db.begin() as session:
            new_session = sessions.log_in_with_link(session, once, res.clock())
            _record_login(session, new_session, "log_in_with_link")
    except sessions.LoginLinkUsed as error:
        if is_logged_in:
            return see_other(target)
        return login_page(request, target, message=error.detail, status=error.status)
    return logged_in(request, new_session, target)


def _log_in_named(request: Request, res: Res, named: str, target: str) -> Response:
    """Log in the person whom a trusted proxy names, by their address."""
    if named == UNCLEAR:
        header = res.login.header
        message = f"the proxy names no single person in {header}; it must send one address in it, once and in UTF-8"
        return login_page(request, target, message=message, status=Unauthorized.status)
    identity = Identity(
        issuer=PROXY_ISSUER, subject=named, name=named, email=named if "@" in named else None
    )
    try:
        return logged_in(request, log_in_identity(res, identity), target)
    except AppError as error:
        return login_page(request, target, message=error.detail, status=error.status)


@router.post("/login")
async def log_in(request: Request, form: SentForm, res: Res) -> Response:
    """Log in with an API key, and go on where the browser was stopped."""
    require_same_origin(request)
    require_kept_cookie(request)
    target, encrypted = local_path(form.text("next", "/")), form.text("draft")
    try:
        key = await identify_token(request, form.text("key"))
    except AppError as error:
        return login_page(
            request, target, error="is not valid: unknown, mistyped, expired or revoked"
            if isinstance(error, Unauthorized) else error.detail,
            status=error.status, draft=encrypted,
        )  # fmt: skip

    def start() -> NewSession:
        with res.db.begin() as session:
            new_session = sessions.start_key_session(session, key.id, res.clock())
            _record_login(session, new_session, "log_in")
            return new_session

    new_session = await run_in_threadpool(start)
    draft = Draft.decrypt(encrypted, key.id, res.secrets) if encrypted else None
    if draft is None:
        return logged_in(request, new_session, target)
    fields = parse_qsl(draft.body, keep_blank_values=True)
    response = render_page(
        request, "draft.html", title="Send your input?", action=local_path(draft.action), next=target,
        fields=[field for field in fields if field[0] != LEFT_OUT],
        left_out=[name for marker, name in fields if marker == LEFT_OUT], has_secrets=True,
    )  # fmt: skip
    return with_cookie(request, response, new_session)


@router.post("/logout")
def log_out(request: Request, res: Res) -> Response:
    """End the session of the browser."""
    require_same_origin(request)
    token = request.cookies.get(COOKIE)
    if token is not None:
        with res.db.begin() as session:
            sessions.log_out(session, token)
    response = see_other("/login")
    response.delete_cookie(COOKIE, path="/")
    return response


@router.get("/time-zone")
def show_time_zone(request: Request, next_path: NextPath = "/") -> Response:
    """The choice of the zone in which pages show times."""
    names = sorted(zone_names())
    return render_page(
        request, "time_zone.html", title="Time zone", next=local_path(next_path),
        zones=[(name, name) for name in names],
    )  # fmt: skip


@router.post("/time-zone")
async def choose_time_zone(request: Request, form: SentForm) -> Response:
    """Keep the zone in a cookie, which the script of the pages reads, too."""
    require_same_origin(request)
    response = see_other(local_path(form.text("next", "/")))
    zone = find_zone(form.text("zone"))
    if zone is not None:
        response.set_cookie(ZONE_COOKIE, zone.key, max_age=A_YEAR_S, samesite="lax")
    return response


async def render_error(request: Request, error: AppError) -> Response:
    """Render the page of an error, or the login page for a browser without a session."""
    is_login = isinstance(error, Unauthorized) and request.scope["path"] != "/login"
    if not is_login:
        return await run_in_threadpool(error_pages.render_error, request, error)
    if request.method in SAFE_METHODS:
        query = f"?{request.url.query}" if request.url.query else ""
        return see_other(build_url("/login", next=request.url.path + query))
    draft = ""
    if _is_small_form(request):
        # What the user typed survives: it is sent after the login.
        body = (await request.body()).decode("utf-8", "replace")
        draft = await run_in_threadpool(_keep_draft, request, _without_secrets(body))
    message = SESSION_ENDED if draft else INPUT_LOST
    return login_page(
        request, page_before(request), message=message, status=error.status, draft=draft
    )


def _keep_draft(request: Request, body: str) -> str:
    """The encrypted draft of the key or person whose session the browser had, or of anybody if it has lost its cookie.

    Empty for a form of another site: it was not typed here.
    """
    try:
        require_same_origin(request)
    except CrossSiteRequest:
        return ""
    resources: Resources = request.app.state.resources
    token = request.cookies.get(COOKIE)
    owner = None
    if token is not None:
        with resources.db.read_statement() as session:
            owner = sessions.find_ended_owner(session, token)
    return Draft(request.url.path, body).encrypt(owner or sessions.ANYBODY, resources.secrets)


def _record_login(session: Session, new_session: NewSession, action: str) -> None:
    owner = new_session.owner
    record_action(session, owner, action, AuditResource("keys", owner.id))


def _is_small_form(request: Request) -> bool:
    """Return whether the body is a form that may be read into memory; an upload of a file
    is not.
    """
    length = request.headers.get("content-length", "")
    return (
        read_content_type(request) == FORM_TYPE
        and length.isdecimal()
        and int(length[:20]) <= MAX_DRAFT_CHARS
    )


def _without_secrets(body: str) -> str:
    """The fields of a form with the values that a page may show, and the names of those without their value."""
    fields = parse_qsl(body, keep_blank_values=True)
    safe = [(name, _without_secret(name, value)) for name, value in fields]
    left_out = [
        name for (name, value), field in zip(fields, safe, strict=True) if field[1] != value
    ]
    return urlencode([*safe, *((LEFT_OUT, name) for name in dict.fromkeys(left_out))])


def _without_secret(name: str, value: str) -> str:
    field = name.rpartition(".")[2]
    if field in ADDRESS_FIELDS:
        lines = value.splitlines()
        safe = [line for line in lines if not line.strip() or _is_shown_address(line)]
        return value if safe == lines else "\n".join(safe)
    # A checkbox that removes the stored value has no secret.
    is_secret = SECRET_FIELD.search(field) and not name.startswith(REMOVE)
    return "" if is_secret else value


def _is_shown_address(address: str) -> bool:
    """Return whether an address is as the form has shown it, redacted, or an e-mail address. The URL of a webhook is
    a credential.
    """
    return is_redacted(address) or ("@" in address and "://" not in address)
