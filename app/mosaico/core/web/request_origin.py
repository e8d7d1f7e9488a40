"""Refuses requests that another web site causes: under a host name that is not the service's own, and changes through a
signed-in browser (OWASP Cross-Site Request Forgery Prevention, "Fetch Metadata headers").

Without the check of the host, a web page could point its own name at this machine (DNS rebinding) and have the
browser of a visitor send requests to the service. The origin of a form also tells whether its browser keeps a cookie of
https only.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mosaico.core.errors import Forbidden
from mosaico.core.problem_documents import UnknownHost, error_response
from mosaico.core.resources import Resources
from mosaico.core.web.deps import SAFE_METHODS

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
# Probes of load balancers send the address that they probe, and learn nothing here.
PROBED_PATHS = frozenset({"/healthz", "/readyz"})
# The page of the error needs its style sheet, which is the same for everybody.
PUBLIC_FILES = "/static/"
MAX_QUOTED_CHARS = 100
_HTTP = "http://"


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The host names of the service, in lower case: exact, `*.example.org`, or `*` for any.

    With `any_address`, every IP address is accepted: rebinding needs a name.
    """

    names: frozenset[str] = LOOPBACK_HOSTS
    any_address: bool = False

    def allows(self, host_header: str) -> bool:
        """Return whether a `Host` header, with or without port, names the service."""
        host = split_host(host_header)
        return host is not None and (
            "*" in self.names
            or host in self.names
            or any(f"*{host[dot:]}" in self.names for dot in _dots(host))
            or (self.any_address and _is_address(host))
        )


def host_policy(configured: str | None, *, bind_host: str, public_host: str | None) -> HostPolicy:
    """The policy of the settings.

    `configured` is MOSAICO_ALLOWED_HOSTS, comma-separated. Loopback, the address that the API listens
    on and the host of MOSAICO_PUBLIC_URL are always allowed; a service that listens on every address
    is reached under each of them.
    """
    own_names = {bind_host, *([public_host] if public_host else [])}
    names = own_names | {name.strip() for name in (configured or "").split(",") if name.strip()}
    return HostPolicy(
        LOOPBACK_HOSTS | {name.lower().strip("[]") for name in names},
        any_address=bind_host in ("0.0.0.0", "::"),  # noqa: S104 - compared, not bound
    )


def split_host(host_header: str) -> str | None:
    """The name or address in a `Host` header, in lower case; None for an invalid header."""
    host, colon, port = host_header.strip().lower().rpartition(":")
    if not colon or host_header.rstrip().endswith("]"):
        host, port = host_header.strip().lower(), ""
    if port and not (port.isascii() and port.isdecimal()):
        return None
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host.removesuffix(".")
    return host if host and (bracketed or ":" not in host) else None


class AllowedHostsMiddleware:
    """Responds with 421 to requests whose `Host` header is missing, repeated or not allowed."""

    def __init__(self, app: ASGIApp, *, policy: HostPolicy) -> None:
        self.app = app
        self.policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_public(scope["path"]):
            return await self.app(scope, receive, send)
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) == 1 and self.policy.allows(hosts[0]):
            return await self.app(scope, receive, send)
        # Addresses are made of this header, which may be anything: the page of the error has none of it.
        other_headers = [header for header in scope["headers"] if header[0] != b"host"]
        request = Request({**scope, "headers": other_headers}, receive)
        response = await error_response(request, _unknown_host(hosts))
        return await response(scope, receive, send)


def _is_public(path: str) -> bool:
    return path in PROBED_PATHS or path.startswith(PUBLIC_FILES)


def _unknown_host(hosts: Iterable[str]) -> UnknownHost:
    name = ", ".join(hosts)[:MAX_QUOTED_CHARS]
    return UnknownHost(
        f"the host name {name!r} is not allowed; use the address of the service, or ask the "
        "operator to add the name to MOSAICO_ALLOWED_HOSTS"
    )


def _dots(host: str) -> list[int]:
    return [index for index, character in enumerate(host) if character == "."]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class CrossSiteRequest(Forbidden):
    """The request comes from another web site; open the page of this service and repeat it there."""


class InsecureLogin(Forbidden):
    """The service has an https address, and the page of the login is not at https; log in at that address."""


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


def needs_secure_cookie(request: Request) -> bool:
    """Whether a cookie with a secret is one of https only: its readers use https.

    A connection says nothing about that, since a proxy may end the TLS, but the origin that a browser sends
    with a form is the address that it shows. What goes to http on its own machine leaves no machine.
    """
    addresses = (request.headers.get("origin", ""), _own_url(request))
    uses_https = any(address.startswith("https:") for address in addresses)
    return uses_https and _http_host(request) not in LOOPBACK_HOSTS


def require_kept_cookie(request: Request) -> None:
    """Raise `InsecureLogin` where the browser would drop a cookie of https only, of which it tells nobody."""
    if needs_secure_cookie(request) and _http_host(request) is not None:
        raise InsecureLogin(
            f"a browser keeps no session without https; log in at {_own_url(request)}"
        )


def _own_url(request: Request) -> str:
    resources: Resources = request.app.state.resources
    return resources.options.get("public_url") or str(request.base_url)


def _http_host(request: Request) -> str | None:
    """The host of a page at http: that sent this form; None for any other page."""
    origin = request.headers.get("origin", "")
    return split_host(origin.removeprefix(_HTTP)) if origin.startswith(_HTTP) else None
