"""Headers that an answer gets whatever it turns out to be: a view, a file, a problem."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = "mosaico.headers"


def add_header(scope: Scope, name: str, value: str) -> None:
    """Put a header on the answer to this request, unless the answer has one of that name."""
    scope.setdefault("state", {}).setdefault(_HEADERS, {})[name] = value


class AnswerHeaders:
    """Puts on the answer what `add_header` was told while it was made."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in scope.get("state", {}).get(_HEADERS, {}).items():
                    headers.setdefault(name, value)
            await send(message)

        return await self.app(scope, receive, send_with_headers)
