"""The connection to a server over HTTP, and its responses that are not MCP.

The SDK reports all of them with one sentence; the author of a benchmark file needs the HTTP status.
"""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import mcp_types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from mosaico.core.http.async_client import outbound_async_client
from mosaico.core.network_policy import OutboundPolicy
from mosaico.harness.mcp.config import HttpServer

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
REQUEST_TIMEOUT_S: Final = 3600.0  # each task has its own timeout
_MCP_CONTENT_TYPES: Final = ("application/json", "text/event-stream")
MAX_EVENT_BYTES: Final = MAX_RESPONSE_BYTES - 64 * 1024  # such a response holds other lines, too
MAX_STREAM_BYTES: Final = 256 * 1024 * 1024  # of HTTP+SSE, where all responses are one stream
# Messages of the SDK for a closed connection; a server may use the same error code for its own. One
# event that is too large (`SSE stream failed`) ends its request only.
_SDK_CLOSED_MESSAGES: Final = ("Connection closed", "SSE stream ended")
_URL_REMEDY: Final = "; correct its url"
_SSE_REMEDY: Final = "; correct its url, or write type: sse if it speaks HTTP+SSE"
_STATUS_REMEDIES: Final = {
    **dict.fromkeys((401, 403), "; correct its headers"),
    **dict.fromkeys((404, 405), _SSE_REMEDY),
}
_SESSION_HEADER: Final = "mcp-session-id"


class HttpConnection:
    """Connects to one server and remembers its last response that was not MCP."""

    def __init__(self, config: HttpServer, policy: OutboundPolicy) -> None:
        self._config = config
        self._policy = policy
        self._refusal: str | None = None
        self._refused_at = 0.0

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """The message streams for a session of the SDK."""
        if self._config.type == "sse":
            async with sse_client(
                self._config.url,
                sse_read_timeout=REQUEST_TIMEOUT_S,
                httpx_client_factory=self._stream_client,
            ) as streams:
                yield streams
            return
        async with (
            self._client(MAX_RESPONSE_BYTES) as http,
            streamable_http_client(
                self._config.url, http_client=http, max_sse_event_size=MAX_EVENT_BYTES
            ) as streams,
        ):
            yield streams

    def _stream_client(
        self,
        headers: dict[str, str] | None = None,  # noqa: ARG002 - the signature
        timeout: httpx2.Timeout | None = None,  # noqa: ARG002
        auth: httpx2.Auth | None = None,  # noqa: ARG002
    ) -> httpx2.AsyncClient:
        return self._client(MAX_STREAM_BYTES)

    def _client(self, max_bytes: int) -> httpx2.AsyncClient:
        http = outbound_async_client(
            timeout_s=REQUEST_TIMEOUT_S, max_bytes=max_bytes, policy=self._policy
        )
        http.headers.update(self._config.headers)
        # A hook, because the SDK reports every kind of failure in the same words.
        http.event_hooks["response"].append(self._check_response)
        return http

    def loss_reason(self, error: BaseException, since: float = float("-inf")) -> str | None:
        """Return the reason why the connection is lost, given an error and the responses after
        `since` (monotonic clock).

        None when the error is a regular error response of the server.
        """
        if isinstance(error, MCPError):
            if self._refusal is not None and self._refused_at >= since:
                return self._refusal
            if error.code == mcp_types.PARSE_ERROR:
                return f"{_host(self._config.url)} did not answer with JSON-RPC{_URL_REMEDY}"
            if is_closed(error):
                return f"{_host(self._config.url)} closed the connection"
        return None

    async def _check_response(self, response: httpx2.Response) -> None:
        """Check the response to a POST; GET streams and DELETE of sessions are optional for servers."""
        if response.request.method != "POST":
            return
        is_stream = self._config.type == "sse"
        problem = await _lost_session(response) or (
            None if is_stream else await _describe_non_mcp_response(response)
        )
        if problem is not None:
            self._refusal = f"{_host(self._config.url)} answered {problem}"
            self._refused_at = time.monotonic()


def is_closed(error: BaseException) -> bool:
    """Return whether the SDK reports a closed connection; a server may use the same code itself."""
    return (
        isinstance(error, MCPError)
        and error.code == mcp_types.CONNECTION_CLOSED
        and error.message.startswith(_SDK_CLOSED_MESSAGES)
    )


async def _lost_session(response: httpx2.Response) -> str | None:
    """Why the session is lost, when the server no longer knows it.

    The specification says 404; servers also say it with another status, in the error's words.
    """
    status = response.status_code
    if status < HTTPStatus.BAD_REQUEST or _SESSION_HEADER not in response.request.headers:
        return None
    await response.aread()
    message = _json_rpc_error(response.content)
    if message is None or (status != HTTPStatus.NOT_FOUND and "session" not in message.lower()):
        return None
    return f"{status} {message}: it lost the session; check its log"


async def _describe_non_mcp_response(response: httpx2.Response) -> str | None:
    status = response.status_code
    if status < HTTPStatus.MULTIPLE_CHOICES:
        content_type = response.headers.get("content-type", "").partition(";")[0].strip()
        is_mcp = status != HTTPStatus.OK or content_type.startswith(_MCP_CONTENT_TYPES)
        return (
            None
            if is_mcp
            else f"with {content_type or 'no content type'!r}, which is not MCP{_URL_REMEDY}"
        )
    if response.is_redirect:
        return f"with the redirect {status}, which is not followed{_URL_REMEDY}"
    await response.aread()
    if _is_json_rpc(response.content):
        return None
    return f"{status} {response.reason_phrase}".rstrip() + _STATUS_REMEDIES.get(
        status, _remedy(status)
    )


def _remedy(status: int) -> str:
    is_temporary = (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    )
    return "; check its log, or try again later" if is_temporary else _URL_REMEDY


def _is_json_rpc(content: bytes) -> bool:
    """Return whether the content is a JSON-RPC message: some servers send it with an error
    status.
    """
    message = _json_object(content)
    return message is not None and "jsonrpc" in message


def _json_rpc_error(content: bytes) -> str | None:
    message = _json_object(content) or {}
    error = message.get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else None


def _json_object(content: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _host(url: str) -> str:
    """Host and port only: other parts of a URL may hold secrets."""
    return urlsplit(url).netloc.rpartition("@")[2]
