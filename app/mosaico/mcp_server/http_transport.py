"""Streamable HTTP: every request brings its own key, and is for a host that this server has."""

import ipaddress
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mosaico.core.console.terminal import WrongUsage, print_status
from mosaico.mcp_server.caller_views import key_of_request, view_of_request
from mosaico.mcp_server.server import build_server
from mosaico.mcp_server.tool_table import tools_of_service

PATH: Final = "/mcp"
# Arguments of tools are short.
MAX_BODY_BYTES: Final = 256 * 1024
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_MAX_PORT: Final = 65_535


class HttpAddress(NamedTuple):
    """The address to listen on."""

    host: str
    port: int

    @property
    def in_url(self) -> str:
        """The host as URLs and the header `Host` have it."""
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str) -> HttpAddress:
    """`HOST:PORT`, `[::1]:PORT`, or `PORT` of this machine alone. Raises: `WrongUsage`."""
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if (
        not port.isascii()
        or not port.isdigit()
        or int(port) > _MAX_PORT
        or (separator and not host)
    ):
        raise WrongUsage(
            f"--http {text!r} is not an address", hint="write it as 127.0.0.1:8765, or 8765"
        )
    return HttpAddress(host or "127.0.0.1", int(port))


def allowed_hosts(address: HttpAddress, named_hosts: Sequence[str]) -> list[str]:
    """The hosts that requests may be for. Raises: `WrongUsage` for all addresses of a machine without a name.

    A page in a browser can let its own name point to this machine (DNS rebinding), but sends that name.
    """
    if _is_wildcard(address.host) and not named_hosts:
        raise WrongUsage(
            f"--http {address.in_url}:{address.port} listens on all addresses of this machine",
            hint="add --allowed-host with the name that clients use, such as mosaico.example.org",
        )
    hosts = [*_LOOPBACK, *named_hosts]
    return hosts if _is_wildcard(address.host) else list(dict.fromkeys([*hosts, address.in_url]))


def http_app(server: Server[Any], hosts: Sequence[str]) -> ASGIApp:
    """The server as an ASGI app, which answers requests with a key for these hosts only.

    No session outlives a request, so that nobody can continue the session of somebody else.
    """
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[pattern for host in hosts for pattern in (host, f"{host}:*")],
            allowed_origins=[
                f"{scheme}://{pattern}"
                for host in hosts
                for scheme in ("http", "https")
                for pattern in (host, f"{host}:*")
            ],
        ),
    )
    return RequireKey(app)


class RequireKey:
    """Refuses requests without an API key; whether it is valid, the service says."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and key_of_request(Headers(scope=scope)) is None:
            response = JSONResponse(
                {"error": "send an API key of MOSAICO as `Authorization: Bearer KEY`"},
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await response(scope, receive, send)
            return
        await self.app(scope, receive, send)


def serve_http(
    url: str, address: HttpAddress, named_hosts: Sequence[str], *, allow_runs: bool
) -> None:
    """Serve until Ctrl-C, with the key that each request brings.

    Without the tool of files: whoever sends requests would read files of this machine.
    """
    hosts = allowed_hosts(address, named_hosts)
    server = build_server(tools_of_service(allow_runs=allow_runs), partial(view_of_request, url))
    app = http_app(server, hosts)
    with _listen(address) as listener:
        print_status(f"MCP server at http://{address.in_url}:{address.port}{PATH}")
        config = uvicorn.Config(app, log_level="warning", server_header=False)
        uvicorn.Server(config).run(sockets=[listener])


def _listen(address: HttpAddress) -> socket.socket:
    """A socket that listens. Raises: `WrongUsage`, such as for a port that is in use."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(address, family=family)
    except OSError as error:
        raise WrongUsage(
            f"cannot listen on {address.in_url}:{address.port}: {error.strerror}",
            hint="choose another address with --http",
        ) from error


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
