"""The connection to a server over streamable HTTP, and what its answers mean that are none of MCP.

The SDK tells all of them in one sentence; whoever mends a file needs the status.
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
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from app.core.http.async_client import outbound_async_client
from app.core.http.network_policy import OutboundPolicy
from app.harness.mcp.config import HttpServer

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
REQUEST_TIMEOUT_S: Final = 3600.0  # tasks have limits of their own
_MCP_CONTENT_TYPES: Final = ("application/json", "text/event-stream")
# With what the SDK says that nothing comes any more; servers have the same number for theirs.
_SDK_CLOSED_MESSAGES: Final = ("Connection closed", "SSE stream")
_URL_REMEDY: Final = "; correct its url"
_STATUS_REMEDIES: Final = dict.fromkeys((401, 403), "; correct its headers")


class HttpConnection:
    """Speaks with one server, and remembers the last answer that was none of MCP."""

    def __init__(self, config: HttpServer, policy: OutboundPolicy) -> None:
        self._config = config
        self._policy = policy
        self._refusal: str | None = None
        self._refused_at = 0.0

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """What a session of the SDK reads and writes."""
        async with outbound_async_client(
            timeout_s=REQUEST_TIMEOUT_S, max_bytes=MAX_RESPONSE_BYTES, policy=self._policy
        ) as http:
            http.headers.update(self._config.headers)
            # A hook, because the SDK reports every kind of failure in the same words.
            http.event_hooks["response"].append(self._check_response)
            async with streamable_http_client(self._config.url, http_client=http) as streams:
                yield streams

    def loss_reason(self, error: BaseException, since: float = float("-inf")) -> str | None:
        """What an error tells of the connection, with the answers since then; None when it is an
        answer of the server. `since` is of the monotonic clock.
        """
        if isinstance(error, MCPError):
            if self._refusal is not None and self._refused_at >= since:
                return self._refusal
            if error.code == mcp_types.PARSE_ERROR:
                return f"{_host(self._config.url)} answered with what is no JSON-RPC{_URL_REMEDY}"
            if error.code == mcp_types.CONNECTION_CLOSED and error.message.startswith(
                _SDK_CLOSED_MESSAGES
            ):
                return f"{_host(self._config.url)} closed the connection"
        return None

    async def _check_response(self, response: httpx2.Response) -> None:
        """Only what is posted counts: a server need not offer a stream of its own, or end sessions."""
        if response.request.method != "POST":
            return
        problem = await _describe_non_mcp_response(response)
        if problem is not None:
            self._refusal = f"{_host(self._config.url)} answered {problem}"
            self._refused_at = time.monotonic()


async def _describe_non_mcp_response(response: httpx2.Response) -> str | None:
    status = response.status_code
    if status < HTTPStatus.MULTIPLE_CHOICES:
        content_type = response.headers.get("content-type", "").partition(";")[0].strip()
        is_mcp = status != HTTPStatus.OK or content_type.startswith(_MCP_CONTENT_TYPES)
        return (
            None
            if is_mcp
            else f"with {content_type or 'no type'!r}, which no server of MCP does" + _URL_REMEDY
        )
    if response.is_redirect:
        return f"{status} and sends elsewhere, where nobody follows{_URL_REMEDY}"
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
    return "; look into its log, or try again later" if is_temporary else _URL_REMEDY


def _is_json_rpc(content: bytes) -> bool:
    """Some servers tell errors of MCP with a status that is one, too."""
    try:
        message = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and "jsonrpc" in message


def _host(url: str) -> str:
    """Host and port; the rest of an address may hold secrets."""
    return urlsplit(url).netloc.rpartition("@")[2]
