"""Errors of model requests, and the messages that users get.

LlmError             one request got no response; `final` when every other would fail as well
AppError             errors of every request of a run, which end the step that sends them
  LlmNotConfigured   no server or no model is configured
  LlmAuthError       the API key is wrong
  LlmQuotaExceeded   the account has no credit left
  LlmNotFoundError   the server has no such model or no such API
  LlmRedirected      the server has another address
  LlmUnavailable     no response at all; the step is retried later
"""

from enum import Enum, auto
from http import HTTPStatus
from typing import Final

from mosaico.core.errors import Invalid, Unavailable


class LlmNotConfigured(Invalid):
    """A metric needs a model, and no model server is configured; set MOSAICO_LLM_BASE_URL and a
    model, or remove the metric from the benchmark.
    """

    code = "LLM_NOT_CONFIGURED"


class LlmAuthError(Invalid):
    """The model server rejects the API key; correct MOSAICO_LLM_API_KEY."""

    code = "LLM_AUTH"


class LlmQuotaExceeded(Invalid):
    """The account at the model server has no credit left; top it up, then retry the run: stored
    responses are not requested again.
    """

    code = "LLM_QUOTA"


class LlmNotFoundError(Invalid):
    """The model server has no such model or no such API; correct the model name or
    MOSAICO_LLM_BASE_URL.
    """

    code = "LLM_NOT_FOUND"


class LlmRedirected(Invalid):
    """The model server redirects to another address. Redirects are not followed because the API
    key would be sent there; set MOSAICO_LLM_BASE_URL to the new address.
    """

    code = "LLM_REDIRECTED"


class LlmUnavailable(Unavailable):
    """The model server does not respond; check that it runs and that MOSAICO_LLM_BASE_URL is
    right, then retry the run: stored responses are not requested again.
    """

    code = "LLM_UNAVAILABLE"


class LlmErrorKind(Enum):
    """The reason why a model request failed."""

    AUTH = auto()
    QUOTA = auto()
    NOT_FOUND = auto()
    REDIRECTED = auto()
    REFUSED_ADDRESS = auto()
    RATE_LIMITED = auto()
    SERVER = auto()
    UNREACHABLE = auto()
    TIMEOUT = auto()
    UNREADABLE = auto()
    # About this conversation alone: it is too long, or a filter refuses it.
    CONTEXT_LENGTH = auto()
    CONTENT_FILTER = auto()
    REJECTED = auto()


_KIND_OF_STATUS: Final[dict[int, LlmErrorKind]] = {
    HTTPStatus.UNAUTHORIZED: LlmErrorKind.AUTH,
    HTTPStatus.FORBIDDEN: LlmErrorKind.AUTH,
    HTTPStatus.PAYMENT_REQUIRED: LlmErrorKind.QUOTA,
    HTTPStatus.NOT_FOUND: LlmErrorKind.NOT_FOUND,
    HTTPStatus.TOO_MANY_REQUESTS: LlmErrorKind.RATE_LIMITED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: LlmErrorKind.CONTEXT_LENGTH,
    # 408 and 409 are temporary: both SDKs retry them as well.
    HTTPStatus.REQUEST_TIMEOUT: LlmErrorKind.SERVER,
    HTTPStatus.CONFLICT: LlmErrorKind.SERVER,
}


def kind_of_status(status: int) -> LlmErrorKind:
    """The kind of a response with an error status, or of an error that reports such a code."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return LlmErrorKind.SERVER
    return _KIND_OF_STATUS.get(status, LlmErrorKind.REJECTED)


# Failures that the operator has to correct: asking again for each trace would only repeat them.
_FINAL: Final = frozenset(
    {
        LlmErrorKind.AUTH,
        LlmErrorKind.QUOTA,
        LlmErrorKind.NOT_FOUND,
        LlmErrorKind.REDIRECTED,
        LlmErrorKind.REFUSED_ADDRESS,
    }
)
_TRANSIENT: Final = frozenset(
    {
        LlmErrorKind.RATE_LIMITED,
        LlmErrorKind.SERVER,
        LlmErrorKind.UNREACHABLE,
        LlmErrorKind.TIMEOUT,
    }
)


class LlmError(Exception):
    """A model gave no response.

    `status` is the HTTP status, `retry_after_s` the wait that the server requests.
    """

    def __init__(
        self,
        reason: str,
        *,
        kind: LlmErrorKind = LlmErrorKind.REJECTED,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def final(self) -> bool:
        """Return whether every other request to the same model would fail as well."""
        return self.kind in _FINAL

    @property
    def transient(self) -> bool:
        """Return whether the server is busy or away: the same request may succeed later."""
        return self.kind in _TRANSIENT
