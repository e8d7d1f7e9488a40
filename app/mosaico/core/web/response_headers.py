"""Headers that every kind of response gets (view, file, problem), those of security included."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)

SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_RAW = {name.lower().encode(): value.encode() for name, value in SECURITY_HEADERS.items()}
_RAW_OF_API = {**_RAW, b"cache-control": b"no-store"}


class SecurityHeadersMiddleware:
    """Adds the security headers to every response, and `no-store` to those of `/api/`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        security_headers = _RAW_OF_API if scope["path"].startswith("/api/") else _RAW

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                other_headers = (
                    header for header in message["headers"] if header[0] not in security_headers
                )
                message["headers"] = [*other_headers, *security_headers.items()]
            await send(message)

        return await self.app(scope, receive, send_guarded)


_HEADERS = "mosaico.headers"


def add_header(scope: Scope, name: str, value: str) -> None:
    """Add a header to the response of this request, unless the response sets it itself."""
    scope.setdefault("state", {}).setdefault(_HEADERS, {})[name] = value


class ResponseHeadersMiddleware:
    """Adds the headers of `add_header` to the response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            headers_to_add = scope.get("state", {}).get(_HEADERS)
            if headers_to_add and message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in headers_to_add.items():
                    headers.setdefault(name, value)
            await send(message)

        return await self.app(scope, receive, send_with_headers)
