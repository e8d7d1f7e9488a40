"""The client of a request that came through trusted proxies: its address, scheme and host name.

Any other peer could send these headers, and guess keys from a new address each time.
Sources: RFC 7239 (`Forwarded`); `X-Forwarded-For`, `-Proto` and `-Host` have no standard.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mosaico.core.web.client_network import TrustedProxies, parse_address
from mosaico.core.web.refusal_log import RefusalLog

# 192.0.2.7, 192.0.2.7:4711, 2001:db8::7, [2001:db8::7] or [2001:db8::7]:4711.
_NODE: Final = re.compile(r"\[([^\]]+)\](?::\d+)?|([^:]+)(?::\d+)?|(.+)", re.ASCII)
_HOST: Final = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?", re.ASCII)
_UNSTANDARDIZED: Final = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")
_SCHEMES: Final = frozenset({"http", "https"})


# The mark of requests that a trusted proxy sent; no header can set it.
_FROM_PROXY: Final = "mosaico.from_proxy"


def is_from_proxy(scope: Scope) -> bool:
    """Return whether a trusted proxy sent a request."""
    return bool(scope.get(_FROM_PROXY))


class MalformedForwardedHeaders(ValueError):
    """The headers of a trusted proxy do not tell the client; the message is one of a few."""


class ForwardedClient(NamedTuple):
    """What proxies say of a request; None is what they do not say."""

    address: str | None = None
    scheme: str | None = None
    host: str | None = None


class ForwardedHeadersMiddleware:
    """Replaces the client, the scheme and the `Host` header of a request by what trusted proxies say of it.

    Malformed headers are ignored as a whole, and logged: the request then is one of the proxy.
    """

    refusals: ClassVar[RefusalLog] = RefusalLog("headers of a trusted proxy ignored")

    def __init__(self, app: ASGIApp, *, proxies: TrustedProxies) -> None:
        self.app = app
        self.proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope["client"][0] if scope.get("client") else ""
        if scope["type"] == "http" and self.proxies.trusts(peer):
            scope = {**scope, _FROM_PROXY: True}
            try:
                scope = _with_client(scope, read_client(Headers(scope=scope), self.proxies))
            except MalformedForwardedHeaders as error:
                self.refusals.record(str(error), peer)
        return await self.app(scope, receive, send)


def read_client(headers: Headers, proxies: TrustedProxies) -> ForwardedClient:
    """The client of a request whose peer is trusted: the rightmost address that is not a trusted proxy.

    What is left of that address comes from the client, who may write anything there; it is not read.
    Raises: `MalformedForwardedHeaders`.
    """
    forwarded = _split(headers.getlist("forwarded"))
    if not forwarded:
        nodes = _split(headers.getlist("x-forwarded-for"))
        client = _find_client(({"for": node} for node in reversed(nodes)), proxies)
        return client._replace(
            scheme=_check_scheme(_join(headers, "x-forwarded-proto")),
            host=_check_host(_join(headers, "x-forwarded-host")),
        )
    if any(name in headers for name in _UNSTANDARDIZED):
        # The proxy sets one kind and forwards the other kind as the client sent it: nobody knows which.
        raise MalformedForwardedHeaders("both Forwarded and X-Forwarded headers")
    return _find_client(map(_parse_element, reversed(forwarded)), proxies)


def _with_client(scope: Scope, client: ForwardedClient) -> Scope:
    """A copy of the scope with what is known of the client."""
    changed = dict(scope)
    if client.address is not None:
        changed["client"] = (client.address, 0)
    if client.scheme is not None:
        changed["scheme"] = client.scheme
    if client.host is not None:
        other_headers = (header for header in scope["headers"] if header[0] != b"host")
        changed["headers"] = [(b"host", client.host.encode()), *other_headers]
    return changed


def _find_client(hops: Iterable[Mapping[str, str]], proxies: TrustedProxies) -> ForwardedClient:
    """The first of these hops, of which the nearest is the first, that is not a trusted proxy; else the last."""
    client = ForwardedClient()
    for hop in hops:
        client = ForwardedClient(
            _parse_node(hop.get("for", "")),
            _check_scheme(hop.get("proto")),
            _check_host(hop.get("host")),
        )
        if not proxies.trusts(client.address):
            break
    return client


def _split(values: Sequence[str]) -> list[str]:
    """The elements of a header that may be repeated."""
    return [element.strip() for value in values for element in value.split(",")]


def _join(headers: Headers, name: str) -> str | None:
    """The value of a header; of a repeated one a list, which no check accepts. None if it is empty."""
    return ", ".join(headers.getlist(name)).strip() or None


def _parse_element(element: str) -> dict[str, str]:
    """An element of `Forwarded`, such as `for="[2001:db8::7]:4711";proto=https`."""
    pairs = (pair.strip().partition("=") for pair in element.split(";"))
    return {name.lower(): value.strip('"') for name, _, value in pairs}


def _parse_node(node: str) -> str:
    match = _NODE.fullmatch(node)
    address = parse_address(next(filter(None, match.groups()))) if match else None
    # The name of a zone may be any text.
    if address is None or "%" in node:
        raise MalformedForwardedHeaders("an address is not valid")
    return str(address)


def _check_scheme(scheme: str | None) -> str | None:
    if scheme is not None and scheme.lower() not in _SCHEMES:
        raise MalformedForwardedHeaders("the scheme is neither http nor https")
    return scheme and scheme.lower()


def _check_host(host: str | None) -> str | None:
    if host is not None and not _HOST.fullmatch(host):
        raise MalformedForwardedHeaders("the host name is not valid")
    return host
