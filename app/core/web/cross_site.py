"""Refuses changes that another web site requests through a signed-in browser.

Source: OWASP Cross-Site Request Forgery Prevention, "Fetch Metadata headers".
"""

from urllib.parse import urlsplit

from fastapi import Request

from app.core.errors import Forbidden
from app.core.web.deps import SAFE_METHODS


class CrossSiteRequest(Forbidden):
    """The request comes from another web site; open the page of this service and repeat it there."""


def require_same_origin(request: Request) -> None:
    """Raise `CrossSiteRequest` for a change that a page of another origin sends.

    `none` is an action of the user, such as a bookmark. Browsers without the header send `Origin`.
    """
    if request.method in SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in {"same-origin", "none"}:
            raise CrossSiteRequest
        return
    origin = urlsplit(request.headers.get("origin", "")).netloc
    if not origin or origin.lower() != request.headers.get("host", "").lower():
        raise CrossSiteRequest
