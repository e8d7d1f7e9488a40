"""What every way to log in needs: the login page, and the response that carries the cookie of a new session."""

from fastapi import Request, Response

from mosaico.access.sessions import COOKIE, NewSession
from mosaico.core.defaults import KEEP_ENDED_SESSIONS
from mosaico.core.resources import Resources
from mosaico.core.web.pages import build_url, render_page, see_other
from mosaico.core.web.request_origin import needs_secure_cookie


def login_page(
    request: Request, target: str, *, message: str = "", error: str | None = None,
    status: int = 200, draft: str = "",
) -> Response:  # fmt: skip
    """The form of an API key, and the link to the provider if there is one."""
    resources: Resources = request.app.state.resources
    provider = resources.login.provider
    return render_page(
        request, "login.html", title="Log in", next=target, message=message, error=error,
        status=status, draft=draft, has_secrets=True,
        provider=provider.host if provider else None,
        provider_url=build_url("/login/provider", next=target),
    )  # fmt: skip


def logged_in(request: Request, new_session: NewSession, target: str) -> Response:
    """Lead a browser with its new session to the page that it asked for."""
    return with_cookie(request, see_other(target), new_session)


def with_cookie(request: Request, response: Response, new_session: NewSession) -> Response:
    """A response that carries the cookie of a new session."""
    response.set_cookie(
        COOKIE,
        new_session.token,
        max_age=int((new_session.lifetime + KEEP_ENDED_SESSIONS).total_seconds()),
        httponly=True,
        samesite="lax",
        secure=needs_secure_cookie(request),
    )
    return response
