"""Problem documents: every HTTP error with its cause, place, remedy and request id.

Source: RFC 9457. Extension members are `errors` (one item per wrong field) and the data of the error
itself. An unexpected error shows only its request id.
"""

import errno
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeAlias

import structlog
from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import iter_route_contexts
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mosaico.core.correlation import TRACEPARENT, bind_correlation, is_traceparent
from mosaico.core.errors import AppError, ErrorItem, Invalid, NotFound, Unavailable
from mosaico.core.ids import is_identifier, new_id
from mosaico.core.strict_json import MalformedJson, escape_pointer_step

log = structlog.stdlib.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 50
REQUEST_ID = "X-Request-Id"
FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})

# How the application shows an error to a browser; `app.state.render_error`.
RenderError: TypeAlias = Callable[[Request, AppError], Awaitable[Response]]


class MethodNotAllowed(AppError):
    """This path does not support the method; use a method in the `Allow` header."""

    status = 405
    exit_code = 64


class UnsupportedMediaType(AppError):
    """This path does not accept the format of the body; send `Content-Type: application/json`."""

    status = 415
    exit_code = 65


class TooManyRequests(AppError):
    """Too many requests in a short time; wait for the time in `Retry-After`."""

    status = 429
    exit_code = 75


class SlowRequest(AppError):
    """The headers did not arrive in time; send them at once."""

    status = 408
    exit_code = 75


class UnknownHost(AppError):
    """The host name is not allowed; use a name in MOSAICO_ALLOWED_HOSTS, or the address of the
    service.
    """

    status = 421
    exit_code = 64


class MalformedRequest(AppError):
    """The request is not HTTP/1.1; send header lines without control characters and a valid length."""

    status = 400
    exit_code = 65


class InternalError(AppError):
    """An unexpected error occurred; report the ID of the request to the operator."""


PROBLEM_SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "examples": ["/problems/not-found"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "The error and its remedy."},
        "instance": {"type": "string", "description": "The request id."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {
                    "pointer": {
                        "type": "string",
                        "description": "JSON pointer into the body, or the name of a parameter.",
                    },
                    "detail": {"type": "string"},
                    "span": {
                        "type": "array",
                        "items": {"type": "integer"},
                        "minItems": 2,
                        "maxItems": 2,
                        "description": "Start and end offset in the invalid text.",
                    },
                },
            },
        },
    },
}


def document_problem(status: int, description: str) -> dict[str, Any]:
    """The OpenAPI description of a problem response."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": f"{HTTPStatus(status).phrase}: {description}", "content": content}


def _document_problems(descriptions: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    return {status: document_problem(status, text) for status, text in descriptions.items()}


# Any request may have them.
PROBLEMS = _document_problems(
    {
        400: "the body or a parameter cannot be read",
        401: "no valid API key",
        403: "the API key lacks the role",
        404: "the resource does not exist",
        421: "the host name is not allowed",
        422: "a field is invalid; `errors` lists it",
        429: "too many requests",
        503: "try again in a few seconds",
    }
)
# A route that reads JSON has all of them; a route that reads its body itself declares its own.
BODY_PROBLEMS = _document_problems(
    {
        413: "the body is too large",
        415: "the body is not of the documented type",
    }
)
# Declared by each route that can raise a `Conflict`.
CONFLICT = _document_problems({409: "the request conflicts with the current state"})

_DEFAULT_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "5"},
    503: {"Retry-After": "2"},
}

_ABBREVIATIONS = frozenset({"api", "id", "json", "kpi", "llm", "url"})

_BY_STATUS: Mapping[int, type[AppError]] = {
    400: MalformedJson,
    404: NotFound,
    405: MethodNotAllowed,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
}


def install(app: FastAPI) -> None:
    """Respond to every error of this application with a problem document."""
    app.add_exception_handler(AppError, on_app_error)
    app.add_exception_handler(OSError, _on_system_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)


def wants_page(request: Request) -> bool:
    """Return whether a browser asks for a page; everything below `/api/` is for programs."""
    is_api = request.scope["path"].startswith("/api/")
    return not is_api and "text/html" in request.headers.get("accept", "")


async def error_response(request: Request, error: AppError) -> Response:
    """The response to an error: a page for a browser, otherwise a problem document."""
    render: RenderError | None = getattr(request.app.state, "render_error", None)
    if render is not None and wants_page(request):
        return await render(request, error)
    return problem_response(error, request_id=request_id(request.scope))


def problem_response(error: AppError, *, request_id: str | None) -> JSONResponse:
    """The problem document of an error; `extra["headers"]` of the error become headers."""
    extra = dict(error.extra)
    headers = {**_DEFAULT_HEADERS.get(error.status, {}), **extra.pop("headers", {})}
    body: dict[str, Any] = {
        "type": f"/problems/{error.error_code}",
        "title": problem_title(error.error_code),
        "status": error.status,
        "detail": error.detail,
        "instance": request_id,
    }
    if error.errors:
        body["errors"] = [_item_to_json(item) for item in error.errors[:MAX_ERRORS]]
    body |= {key: value for key, value in jsonable_encoder(extra).items() if key not in body}
    return JSONResponse(body, status_code=error.status, headers=headers, media_type=MEDIA_TYPE)


def problem_title(code: str) -> str:
    """The title of an error code: `not-found` becomes `Not found`, `api-key-revoked` `API key revoked`."""
    words = (word.upper() if word in _ABBREVIATIONS else word for word in code.lower().split("-"))
    title = " ".join(words)
    return title[:1].upper() + title[1:]


def request_id(scope: Scope) -> str | None:
    """The id of this request in the log."""
    value: str | None = scope.get("state", {}).get("request_id")
    return value


class RequestIdMiddleware:
    """Gives every request an id: that of the client if it is a valid identifier, else a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        sent_id = headers.get(REQUEST_ID)
        request_id = sent_id if sent_id and is_identifier(sent_id) else new_id()
        scope.setdefault("state", {})["request_id"] = request_id
        trace = headers.get(TRACEPARENT, "")
        correlation = {TRACEPARENT: trace} if is_traceparent(trace) else {}

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        with bind_correlation({**correlation, "request_id": request_id}):
            return await self.app(scope, receive, send_with_id)


class InternalErrorMiddleware:
    """Responds to unexpected errors with 500 and the request id, and logs the traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = False

        async def send_noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_noting)
        except ClientDisconnect:
            log.info("client disconnected", path=scope["path"])
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if started:
                raise
            response = await error_response(Request(scope, receive), InternalError())
            await response(scope, receive, send)


async def on_app_error(request: Request, error: Exception) -> Response:
    """The response to an error of the product; failures of the service are logged."""
    assert isinstance(error, AppError)
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("request refused", code=error.error_code, cause=str(error.__cause__ or ""))
    return await error_response(request, error)


async def _on_system_error(request: Request, error: Exception) -> Response:
    if not (isinstance(error, OSError) and error.errno in FULL_DISK):
        raise error
    full = Unavailable(
        "The disk for temporary files of the service is full; free some of it, then try again.",
        headers={"Retry-After": "60"},
    )
    full.__cause__ = error
    return await on_app_error(request, full)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _BY_STATUS.get(error.status_code)
    headers = dict(error.headers or {})
    if kind is None:
        problem = AppError(f"{error.detail}; see /docs for the API.", headers=headers)
        problem.status = error.status_code  # type: ignore[misc]
    elif kind is NotFound:
        problem = NotFound("This path does not exist; /docs lists the API.", headers=headers)
    elif kind is MethodNotAllowed:
        headers["Allow"] = ", ".join(_allowed_methods(request))
        problem = MethodNotAllowed(headers=headers)
    else:
        problem = kind(headers=headers)
    return await error_response(request, problem)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problem = Invalid(
        "The request is not valid; correct the fields in `errors` and send it again.",
        errors=error_items(error.errors()),
    )
    return await error_response(request, problem)


def error_items(flaws: Sequence[Mapping[str, Any]]) -> list[ErrorItem]:
    """The errors of a validation by FastAPI or pydantic, each with its place and remedy."""
    return [_error_item(flaw) for flaw in flaws[:MAX_ERRORS]]


def _allowed_methods(request: Request) -> list[str]:
    """The methods of this path, without those of a more general path such as `/things/{id}`; the
    router itself reports only those of its first route.
    """
    routes = [
        route
        for route in iter_route_contexts(request.app.routes)
        if route.methods and route.path_regex.match(request.scope["path"])
    ]
    # Routes of fixed paths come before those with parameters.
    same_path = [route for route in routes if route.path == routes[0].path]
    return sorted({method for route in same_path for method in route.methods or ()})


def _item_to_json(item: ErrorItem) -> dict[str, Any]:
    span = {"span": list(item.span)} if item.span else {}
    return {"pointer": item.pointer, "detail": item.detail, **span}


def _error_item(flaw: Mapping[str, Any]) -> ErrorItem:
    location: Sequence[str | int] = flaw["loc"]
    return ErrorItem(pointer=_pointer(location), detail=_remedy(flaw["type"], flaw["msg"]))


def _pointer(location: Sequence[str | int]) -> str:
    if location[0] == "body":
        return "".join(f"/{escape_pointer_step(str(step))}" for step in location[1:])
    # A flaw of one value of a list is at ("query", name, index): the last name is the parameter.
    names = [step for step in location if isinstance(step, str)]
    return escape_pointer_step(names[-1])


def _remedy(kind: str, message: str) -> str:
    remedy = _REMEDIES.get(kind)
    if remedy is not None:
        return remedy
    text = re.sub(r"^(Input|Value|String|List|Dictionary) should", "should", message)
    return text.removeprefix("Value error, ")


_REMEDIES: Mapping[str, str] = {
    "missing": "is missing; send it",
    "extra_forbidden": "is not a known field; remove it or correct its name",
    "string_unicode": "contains a lone surrogate; send the whole pair",
    "model_attributes_type": "should be a JSON object",
    "model_type": "should be a JSON object",
    "dict_type": "should be a JSON object",
    "finite_number": "should be a finite number; omit it or send null",
}
