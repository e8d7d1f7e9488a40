"""Headers that keep a browser from doing with an answer what it was not meant for."""

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
    """Puts the headers on every answer; what `/api/` answers is kept by no cache."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        security_headers = _RAW_OF_API if scope["path"].startswith("/api/") else _RAW

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                others = (each for each in message["headers"] if each[0] not in security_headers)
                message["headers"] = [*others, *security_headers.items()]
            await send(message)

        return await self.app(scope, receive, send_guarded)
