"""The errors that users can cause or meet, and what each means at the edges.

An error says what is wrong and what to do about it; the edge decides how to show it: a problem
document over HTTP, one line and an exit code on a terminal.

    AppError
    ├── Invalid          422   exit 65   the request cannot be understood or is not allowed
    ├── NotFound         404   exit 66   it names something that does not exist
    ├── Conflict         409   exit 73   it does not fit the present state
    ├── Unauthorized     401   exit 77   nobody known is asking
    ├── Forbidden        403   exit 77   somebody known may not do this
    ├── TooLarge         413   exit 65   it is larger than the service accepts
    └── Unavailable      503   exit 75   try again later; the only kind that is retried
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorItem:
    """One of several things wrong with a request.

    `pointer` is a JSON pointer into the body (`/kpis/0/formula`) or the name of a parameter;
    `span` gives start and end offsets inside the text that the pointer names.
    """

    pointer: str
    detail: str
    span: tuple[int, int] | None = None


class AppError(Exception):
    """The request could not be carried out."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        detail: str | None = None,
        *,
        code: str | None = None,
        errors: Sequence[ErrorItem] = (),
        **extra: Any,
    ) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip().splitlines()[0]
        self.error_code = code or self.code
        self.errors = tuple(errors)
        self.extra = extra
        super().__init__(self.detail)

    def __str__(self) -> str:
        return "\n".join(
            [self.detail, *(f"  {item.pointer}: {item.detail}" for item in self.errors)]
        )


class Invalid(AppError):
    """The request is not valid; see `errors` for each field to change."""

    code = "invalid"
    status = 422
    exit_code = 65


class NotFound(AppError):
    """Nothing with this name exists; list the collection to see what does."""

    code = "not-found"
    status = 404
    exit_code = 66


class Conflict(AppError):
    """The request does not fit the present state; read the resource again and decide anew."""

    code = "conflict"
    status = 409
    exit_code = 73


class Unauthorized(AppError):
    """No valid API key was sent; send `Authorization: Bearer <key>`."""

    code = "unauthorized"
    status = 401
    exit_code = 77


class Forbidden(AppError):
    """This API key may not do that; use a key with the role that the message names."""

    code = "forbidden"
    status = 403
    exit_code = 77


class TooLarge(AppError):
    """The request body is larger than the service accepts; send less at once."""

    code = "too-large"
    status = 413
    exit_code = 65


class Unavailable(AppError):
    """The service cannot answer at the moment; try again in a few seconds."""

    code = "unavailable"
    status = 503
    exit_code = 75
