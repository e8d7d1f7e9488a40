"""Reads the responses of the service's REST API, and translates its problem documents into errors."""

import http
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from mosaico.core.console.error_messages import find_remedy
from mosaico.core.errors import (
    AppError,
    Conflict,
    ErrorItem,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
    without_request,
)

JSON: TypeAlias = dict[str, Any]
M = TypeVar("M", bound=BaseModel)

API_PREFIX = "/api/v1"

_ERROR_CLASSES: Mapping[int, type[AppError]] = {
    400: Invalid,
    412: Conflict,
    415: Invalid,
    # Several statuses share a class of error, which decides the exit code.
    408: Unavailable,
    429: Unavailable,
    **{
        kind.status: kind
        for kind in (Invalid, NotFound, Conflict, Unauthorized, Forbidden, TooLarge, Unavailable)
    },
}


class ServiceUnreachable(AppError):
    """The service does not respond; start it with `mosaico serve`."""

    status = 503
    exit_code = 69


class UnexpectedResponse(AppError):
    """The response does not come from MOSAICO; set MOSAICO_URL to the address of the service."""

    status = 502
    exit_code = 69


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Raise `ServiceUnreachable` for a failed connection to the service at a URL."""
    try:
        yield
    except httpx.TransportError as error:
        raise ServiceUnreachable(
            f"the service at {url} does not respond",
            cause=str(error) or type(error).__name__,
            hint="start it with `mosaico serve`, or set MOSAICO_URL to its address",
        ) from error


def check_status(response: httpx.Response, key_source: str) -> httpx.Response:
    """The response if it is a success. Raises: the error that its problem document states."""
    if response.is_success:
        return response
    try:
        problem = response.json()
        code = problem["type"].removeprefix("/problems/")
        detail = str(problem["detail"])
        items = [_parse_error_item(item) for item in problem.get("errors", ())]
    # Another server answers at this address, with whatever it has.
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _unexpected(response) from None
    if code == NotFound.code:
        # The path is that of no resource: by an ID with a slash, or by the address of the service.
        if not _names_resource(response.request.url):
            raise _unexpected(response)
        detail = "no resource has this ID"
    members = {
        name: value
        for name, value in problem.items()
        if name not in ("type", "title", "detail", "errors")
    }
    hint = _hint(response.status_code, code, key_source)
    if hint:
        members["hint"] = hint
        detail = without_request(detail)
    error_class = _ERROR_CLASSES.get(response.status_code, AppError)
    raise error_class(detail, code=code, errors=items, **members)


def parse_json(response: httpx.Response) -> JSON:
    """The document of a successful response. Raises: `UnexpectedResponse`."""
    try:
        document: JSON = response.json()
    except ValueError:
        raise _unexpected(response) from None
    return document


def parse_response(model: type[M], document: JSON) -> M:
    """A document of the service as a model. Raises: `UnexpectedResponse`."""
    try:
        # A newer service may have more fields.
        return model.model_validate(document, extra="ignore")
    except ValidationError as error:
        raise UnexpectedResponse(
            f"the response of the service is not a {model.__name__}: {error.error_count()} "
            "fields differ",
            hint="install the version of the service: `mosaico --version` on its machine shows it",
        ) from error


def _unexpected(response: httpx.Response) -> UnexpectedResponse:
    url = str(response.request.url.copy_with(query=None)).rpartition(API_PREFIX)[0]
    return UnexpectedResponse(
        f"{url} responded with {response.status_code}, but the response is not from MOSAICO",
        hint="set MOSAICO_URL to the address of the service",
    )


def _hint(status: int, code: str, key_source: str) -> str | None:
    if status == http.HTTPStatus.UNAUTHORIZED:
        return f"set MOSAICO_API_KEY to a valid API key; source of the key sent: {key_source}"
    if status == http.HTTPStatus.FORBIDDEN:
        return (
            "set MOSAICO_API_KEY to a key with that role; an administrator creates one with"
            " `mosaico keys create`"
        )
    return find_remedy(code)


def _names_resource(url: httpx.URL) -> bool:
    """Return whether a URL of the API has more than a list in its path."""
    return url.path.partition(API_PREFIX)[2].strip("/").count("/") > 0


def _parse_error_item(item: JSON) -> ErrorItem:
    span = item.get("span")
    return ErrorItem(
        pointer=str(item["pointer"]),
        detail=str(item["detail"]),
        span=(span[0], span[1]) if span else None,
    )
