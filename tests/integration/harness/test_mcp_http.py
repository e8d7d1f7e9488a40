"""HTTP servers with responses that are not MCP: the message names the remedy."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from mosaico.harness.mcp.config import EvaluatorConfig, HttpServer
from mosaico.harness.mcp.evaluator_registry import load_evaluators
from mosaico.harness.mcp.plan import PlannedServer
from mosaico.harness.mcp.types import ErrorKind, TaskResult
from mosaico.harness.results import AttemptOutcome
from tests.support.http import serving
from tests.support.mcp_bench import direct_task, run
from tests.support.mcp_servers import http
from tests.support.texts import assert_names

JSON = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def _evaluators() -> None:
    load_evaluators()


@dataclass(slots=True)
class Remote:
    """A server with one tool; the response to a method can be replaced."""

    url: str = ""
    host: str = ""
    instead: dict[str, Callable[[JSON], Response]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        # MCP: a server may offer no stream to GET, and no end of a session by DELETE.
        response = Response(status_code=405)
        if request.method == "POST":
            response = self.answer(await request.json())
        await response(scope, receive, send)

    def answer(self, request: JSON) -> Response:
        method = request["method"]
        if method in self.instead:
            return self.instead[method](request)
        # A notification, which MCP accepts without a body.
        if "id" not in request:
            return Response(status_code=202)
        results: dict[str, JSON] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "remote", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        }
        if method not in results:
            return JSONResponse(error(request["id"], -32601, "Method not found"), 404)
        return JSONResponse({"jsonrpc": "2.0", "id": request["id"], "result": results[method]})


def error(number: int, code: int, message: str) -> JSON:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


@pytest.fixture
def remote() -> Iterator[Remote]:
    server = Remote()
    with serving(server) as client:
        server.host = client.base_url.netloc.decode()
        server.url = f"http://{server.host}/mcp?key=hidden"
        yield server


def called(remote: Remote, **more: Any) -> TaskResult:
    return run(direct_task(http("web", remote.url), "echo", **more)).result


def test_http_server__tools_can_be_called(remote: Remote) -> None:
    result = called(remote)
    assert (result.outcome, result.response) == (AttemptOutcome.SCORED, "hello")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Response("{}", 401), "answered 401 Unauthorized; correct its headers"),
        (Response("no", 403), "answered 403 Forbidden; correct its headers"),
        (
            Response("no", 404),
            "answered 404 Not Found; correct its url, or write type: sse if it speaks HTTP+SSE",
        ),
        (
            Response(status_code=405),
            "answered 405 Method Not Allowed; correct its url, or write type: sse if it speaks HTTP+SSE",
        ),
        (
            Response("oops", 503),
            "answered 503 Service Unavailable; check its log, or try again later",
        ),
        (
            Response(status_code=307, headers={"Location": "/mcp/"}),
            "answered with the redirect 307, which is not followed; correct its url",
        ),
        (
            Response("<html>", 200, media_type="text/html"),
            "answered with 'text/html', which is not MCP; correct its url",
        ),
        (JSONResponse({}), "did not answer with JSON-RPC; correct its url"),
    ],
)
def test_http_server__non_mcp_response_is_reported_with_a_remedy(
    remote: Remote, answer: Response, message: str
) -> None:
    """The message names only the host: the rest of a URL may hold secrets."""
    remote.instead["initialize"] = lambda _: answer
    result = called(remote)
    assert result.outcome is AttemptOutcome.INFRA_ERROR
    assert result.error is not None
    assert result.error.kind is ErrorKind.SERVER_START
    assert result.error.detail == f"server 'web' does not start: {remote.host} {message}"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Response("oops", 500), "answered 500 Internal Server Error; check its log"),
        (Response("no", 401), "answered 401 Unauthorized; correct its headers"),
        (Response("no", 404), "answered 404 Not Found; correct its url"),
        (Response("{", media_type="application/json"), "did not answer with JSON-RPC"),
        (Response("", media_type="text/event-stream"), "closed the connection"),
    ],
)
def test_http_server__failure_during_a_call_is_not_an_expected_tool_error(
    remote: Remote, answer: Response, message: str
) -> None:
    remote.instead["tools/call"] = lambda _: answer
    # Any error of the tool would pass.
    result = called(remote, evaluator=EvaluatorConfig(expect_error=True, regex="."))
    assert (result.outcome, result.passed) == (AttemptOutcome.INFRA_ERROR, None)
    assert result.error is not None
    assert result.error.kind is ErrorKind.SERVER_DIED
    assert result.error.detail.startswith(f"server 'web' is gone: {remote.host} {message}")


def test_http_server__repeated_header_is_masked(remote: Remote) -> None:
    remote.instead["initialize"] = lambda request: JSONResponse(
        error(request["id"], -32600, "who is Bearer sekret-of-mine?")
    )
    server = HttpServer(
        type="http",
        url=remote.url,
        headers={"Authorization": "Bearer sekret-of-mine", "X-V": "who"},
    )
    result = run(direct_task(PlannedServer(name="web", config=server), "echo")).result
    assert result.error is not None
    assert_names(result.error.detail, "server 'web'", "-32600: *** is ***?")


@pytest.mark.parametrize("code", [-32603, -32000])
@pytest.mark.parametrize("status", [200, 400])
def test_http_server__json_rpc_error_is_a_result_for_any_status(
    remote: Remote, status: int, code: int
) -> None:
    remote.instead["tools/call"] = lambda request: JSONResponse(
        error(request["id"], code, "no such zone"), status
    )
    result = called(remote, evaluator=EvaluatorConfig(expect_error=True, expected="no such zone"))
    assert (result.outcome, result.passed) == (AttemptOutcome.SCORED, True), result.error


SESSION = {"mcp-session-id": "s1"}


@pytest.mark.parametrize(
    ("status", "message"),
    [(404, "unknown"), (404, "Session not found"), (400, "No valid session ID"), (503, "session?")],
)
def test_http_server__lost_session_is_no_failure_of_the_agent(
    remote: Remote, status: int, message: str
) -> None:
    """The specification says 404; some servers say it with another status, in words."""
    start = remote.answer

    def starts_a_session(request: JSON) -> Response:
        del remote.instead["initialize"]
        response = start(request)
        response.headers.update(SESSION)
        return response

    remote.instead["initialize"] = starts_a_session
    remote.instead["tools/call"] = lambda request: JSONResponse(
        error(request["id"], -32001, message), status
    )
    result = called(remote, evaluator=EvaluatorConfig(expect_error=True, regex="."))
    assert (result.outcome, result.passed) == (AttemptOutcome.INFRA_ERROR, None)
    assert result.error is not None
    assert_names(result.error.detail, f"{status}", message, "lost the session")


def event_of(request: JSON, text: str) -> Response:
    content = {"content": [{"type": "text", "text": text}]}
    message = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": content})
    return Response(f"event: message\ndata: {message}\n\n", media_type="text/event-stream")


def test_http_server__large_event_is_a_result(remote: Remote) -> None:
    remote.instead["tools/call"] = lambda request: event_of(request, "x" * 1_200_000)
    assert called(remote).response == "x" * 1_200_000


def test_http_server__event_above_the_limit_fails_its_call_only(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mosaico.harness.mcp.servers.http.MAX_EVENT_BYTES", 1000)
    remote.instead["tools/call"] = lambda request: event_of(
        request, "x" * 2000 if request["params"]["arguments"] else "short"
    )
    server = http("web", remote.url)
    tasks = [
        direct_task(server, "echo", name=name, arguments=arguments, share_servers=True)
        for name, arguments in (("long", {"n": 1}), ("short", {}))
    ]
    large, small = run(*tasks, concurrency=1).report.results
    assert large.outcome is AttemptOutcome.AGENT_ERROR
    assert (small.outcome, small.response) == (AttemptOutcome.SCORED, "short")
