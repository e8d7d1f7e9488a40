"""Errors of the product, with their HTTP status and exit code.

The message contains the problem and its remedy; the edge chooses the presentation: a problem
document over HTTP, one line and an exit code on a terminal.

    AppError
    ├── Invalid          422   exit 65   the request is malformed or not allowed
    ├── NotFound         404   exit 66   a named resource does not exist
    ├── Conflict         409   exit 73   the request conflicts with the current state
    ├── Unauthorized     401   exit 77   no valid credentials
    ├── Forbidden        403   exit 77   the role does not allow the operation
    ├── TooLarge         413   exit 65   the request exceeds a size limit
    ├── Unavailable      503   exit 75   temporary; the only kind that is retried
    ├── Misconfigured    500   exit 78   a setting of the service is missing or wrong
    ├── BadUsage         400   exit 2    an argument of a command is missing or wrong
    └── UnusableInput    422   exit 2    a command cannot use what its arguments name
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

Found = TypeVar("Found")

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorItem:
    """One error in a request.

    `pointer` is a JSON pointer into the body (`/kpis/0/formula`) or the name of a parameter;
    `span` gives start and end offsets inside the text that the pointer names.
    """

    pointer: str
    detail: str
    span: tuple[int, int] | None = None


class AppError(Exception):
    """The request failed.

    The code of an error of the product is the name of its class: `RunNotFound` is `run-not-found`.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 70

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A class of a plugin keeps the code of its base, which the documentation describes.
        if "code" not in vars(cls) and cls.__module__.startswith("mosaico."):
            is_upper = cls.code.isupper()  # of the errors that a run records
            words = _WORD_START.sub("_" if is_upper else "-", cls.__name__)
            cls.code = words.upper() if is_upper else words.lower()

    def __init__(
        self,
        detail: str | None = None,
        *,
        code: str | None = None,
        errors: Sequence[ErrorItem] = (),
        **extra: Any,
    ) -> None:
        self.detail = detail or default_detail(type(self))
        self.error_code = code or self.code
        self.errors = tuple(errors)
        self.extra = extra
        super().__init__(self.detail)

    def __str__(self) -> str:
        return "\n".join(
            [self.detail, *(f"  {item.pointer}: {item.detail}" for item in self.errors)]
        )


def default_detail(error: type[AppError]) -> str:
    """The first paragraph of the docstring of an error class, as one line."""
    # The first line alone would cut the remedy off, where a long sentence is wrapped.
    return " ".join((error.__doc__ or "").strip().partition("\n\n")[0].split())


class Invalid(AppError):
    """The request is not valid; see `errors` for each field to change."""

    status = 422
    exit_code = 65


class NotFound(AppError):
    """The resource does not exist; list the collection to see the existing resources."""

    status = 404
    exit_code = 66

    @classmethod
    def unless(cls, resource: Found | None, detail: str | None = None) -> Found:
        """Return the resource of a query. Raises: this error, with `detail`, if the query found none."""
        if resource is None:
            raise cls(detail)
        return resource


class Conflict(AppError):
    """The request conflicts with the current state; read the resource again, then repeat."""

    status = 409
    exit_code = 73


class Unauthorized(AppError):
    """No valid API key was sent; send `Authorization: Bearer <key>`."""

    status = 401
    exit_code = 77


class Forbidden(AppError):
    """The role of this API key does not allow that; use a key with the role in the message."""

    status = 403
    exit_code = 77


class TooLarge(AppError):
    """The request body exceeds the size limit; send less at once."""

    status = 413
    exit_code = 65


class Unavailable(AppError):
    """The service is temporarily unavailable; try again in a few seconds."""

    status = 503
    exit_code = 75


class Misconfigured(AppError):
    """A setting of the service is missing or wrong; correct it as described in the message."""

    exit_code = 78


class BadUsage(AppError):
    """An argument of the command is missing or wrong; see the help of the command."""

    status = 400
    exit_code = 2


class UnusableInput(AppError):
    """The command cannot use the named file or run; name another, or correct it."""

    status = 422
    exit_code = 2


# A part of a message that advises a request, or a header of one, up to the next comma or semicolon.
_REQUEST_REMEDY = re.compile(
    r"[;,] (?:[^;,]*?)(?:(?:GET|POST|PUT|PATCH|DELETE) /api/v1|`?/api/v1/|\bPATCH (?:it|that)\b"
    r"|\bIf-Match\b|`Authorization:|\bContent-Type\b|`Retry-After`|\bIdempotency-Key\b)[^;,]*"
)


def without_request(detail: str) -> str:
    """The detail of an error for a reader who sends no requests: without those that it advises.

    A command or a page offers its own remedy.
    """
    return _REQUEST_REMEDY.sub("", detail)
