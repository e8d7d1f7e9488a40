"""Login with an OpenID Connect provider: to the provider, back with a code, and logouts that the provider reports."""

import json
from typing import Annotated, Final

from fastapi import Query, Request, Response

from mosaico.access import sessions
from mosaico.access.audit import AuditResource, record_action
from mosaico.access.login_pages import logged_in, login_page
from mosaico.access.login_rules import Identity, decide_role
from mosaico.access.openid import LoginAttempt, LoginRefused, OpenIdProvider
from mosaico.access.people import NoRole, log_in_person
from mosaico.access.sessions import NewSession
from mosaico.core.encryption import SecretBox
from mosaico.core.errors import AppError, NotFound
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import SentForm, local_path
from mosaico.core.web.pages import see_other
from mosaico.core.web.request_origin import needs_secure_cookie
from mosaico.core.web.routes import Router

router = Router()

COOKIE: Final = "mosaico_login"
ATTEMPT_S: Final = 600
CALLBACK: Final = "/login/callback"
MAX_SENT: Final = 16 * 1024

Sent = Annotated[str | None, Query(max_length=MAX_SENT)]


class NoProvider(NotFound):
    """This service has no login provider; set MOSAICO_OIDC_ISSUER, or log in with an API key."""


@router.get("/login/provider")
def go_to_provider(
    request: Request,
    res: Res,
    next_path: Annotated[str, Query(alias="next", max_length=4096)] = "/",
) -> Response:
    """Send the browser to the provider, and keep what proves that it comes back from there."""
    attempt = LoginAttempt.begin(local_path(next_path))
    try:
        target = find_provider(request, res).login_url(attempt, _callback(request, res))
    except AppError as error:
        return login_page(request, attempt.target, message=error.detail, status=error.status)
    response = see_other(target)
    _keep(request, response, attempt, res.secrets)
    return response


@router.get(CALLBACK)
def come_back(
    request: Request, res: Res, state: Sent = None, code: Sent = None, error: Sent = None
) -> Response:
    """Log in the person for whom the provider sent a code."""
    attempt = _kept(request, state or "", res.secrets)
    target = attempt.target if attempt else "/"
    try:
        new_session = _log_in(request, res, attempt, code, error)
        response = logged_in(request, new_session, target)
    except AppError as failure:
        response = login_page(request, target, message=failure.detail, status=failure.status)
    # An attempt is used once.
    response.delete_cookie(COOKIE, path="/login")
    return response


@router.post("/login/provider-logout")
def end_sessions(request: Request, form: SentForm, res: Res) -> Response:
    """End the sessions that the provider has ended. The provider sends this request, which its signature proves."""
    provider = find_provider(request, res)
    reported = provider.read_logout(form.text("logout_token"))
    with res.db.begin() as session:
        sessions.end_sessions(
            session,
            provider.settings.issuer,
            subject=reported.subject,
            provider_session=reported.session_id,
        )
    return Response(headers={"Cache-Control": "no-store"})


def find_provider(request: Request, res: Resources) -> OpenIdProvider:
    """The provider of the settings, one for each process. Raises: `NoProvider`."""
    state = request.app.state
    settings = res.login.provider
    if settings is None:
        raise NoProvider
    if not isinstance(getattr(state, "provider", None), OpenIdProvider):
        state.provider = OpenIdProvider(settings)
    provider: OpenIdProvider = state.provider
    return provider


def log_in_identity(res: Resources, identity: Identity) -> NewSession:
    """Start a session for a person, with the role that the rules give. Raises: `NoRole`, `PersonBlocked`."""
    role = decide_role(identity, res.login.rules)
    with res.db.begin() as session:
        if role is None:
            # The role was lost since the last login.
            sessions.end_sessions(session, identity.issuer, subject=identity.subject)
            new_session = None
        else:
            new_session = log_in_person(session, identity, role, res.clock())
            resource = AuditResource("people", new_session.owner.id)
            record_action(session, new_session.owner, "log_in_person", resource)
    if new_session is None:
        raise NoRole
    return new_session


def _log_in(
    request: Request,
    res: Resources,
    attempt: LoginAttempt | None,
    code: str | None,
    error: str | None,
) -> NewSession:
    if attempt is None:
        # Without this check, another site could log a browser in as somebody else.
        raise LoginRefused(
            "this login was not started in this browser, or more than ten minutes ago; start it again"
        )
    if error is not None or code is None:
        raise LoginRefused(f"the provider refused the login: {(error or 'no code')[:100]}")
    identity = find_provider(request, res).identify(code, attempt, _callback(request, res))
    return log_in_identity(res, identity)


def _callback(request: Request, res: Resources) -> str:
    base = res.options.get("public_url") or str(request.base_url).rstrip("/")
    return f"{base}{CALLBACK}"


def _keep(request: Request, response: Response, attempt: LoginAttempt, box: SecretBox) -> None:
    # The state is the row: the cookie of one attempt does not open another one.
    value = json.dumps([attempt.nonce, attempt.verifier, attempt.target])
    response.set_cookie(
        COOKIE,
        box.encrypt(value, table=COOKIE, row=attempt.state, column="attempt"),
        max_age=ATTEMPT_S,
        path="/login",
        httponly=True,
        # Strict cookies are not sent on the way back from another site.
        samesite="lax",
        secure=needs_secure_cookie(request),
    )


def _kept(request: Request, state: str, box: SecretBox) -> LoginAttempt | None:
    encrypted = request.cookies.get(COOKIE)
    if encrypted is None:
        return None
    try:
        value = box.decrypt(encrypted, table=COOKIE, row=state, column="attempt").reveal()
    except AppError:
        return None
    nonce, verifier, target = json.loads(value)
    return LoginAttempt(state=state, nonce=nonce, verifier=verifier, target=target)
