"""One-time secrets: the redirect carries a new secret in a cookie, which the next page shows and deletes.

A page that answered the form itself would show the secret again, or make another one, when it is reloaded.
"""

from typing import Final

from fastapi import Request, Response

from mosaico.core.encryption import SecretBox
from mosaico.core.errors import AppError
from mosaico.core.web.pages import see_other
from mosaico.core.web.request_origin import needs_secure_cookie

COOKIE: Final = "mosaico_shown_once"
MAX_AGE_S: Final = 60


def redirect_with_secret(request: Request, path: str, secret: str, box: SecretBox) -> Response:
    """A redirect to a page, which shows the secret with `find_secret`."""
    response = see_other(path)
    response.set_cookie(
        COOKIE,
        box.encrypt(secret, table=COOKIE, row=path, column="secret"),
        max_age=MAX_AGE_S,
        path=path,
        httponly=True,
        samesite="strict",
        secure=needs_secure_cookie(request),
    )
    return response


def find_secret(request: Request, box: SecretBox) -> str | None:
    """The secret that this page shows; None when there is none."""
    encrypted = request.cookies.get(COOKIE)
    if encrypted is None:
        return None
    try:
        return box.decrypt(encrypted, table=COOKIE, row=request.url.path, column="secret").reveal()
    except AppError:
        return None


def forget_secret(request: Request, response: Response) -> Response:
    """Delete the cookie, so that the next load of the page has no secret."""
    response.delete_cookie(COOKIE, path=request.url.path)
    return response
