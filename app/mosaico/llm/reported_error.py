"""What the error of a model server means: of an error response, or in a response with status 200.

Servers report the same fault under different statuses, so the codes and texts count as well.
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

from mosaico.llm.errors import LlmError, LlmErrorKind, kind_of_status

MAX_ERROR_CHARS: Final = 300  # of an error in a response with status 200

# Codes and texts of accounts that no wait refills. Source: the error codes of OpenAI and Anthropic.
_QUOTA_WORDS: Final = (
    "insufficient_quota",
    "billing",
    "credit balance",
    "credit_balance_exhausted",
    "exceeded your current quota",
    "spend_limit",
    "spend limit",
    "usage_limit_exceeded",
    "usage limits",
)
# A 402 of OpenRouter for requests in flight, which ends with them.
_BUSY_WORD: Final = "in_flight_budget_exhausted"
# Source: the error texts of OpenAI, Anthropic, vLLM, llama.cpp and Gemini.
_CONTEXT_WORDS: Final = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "available context size",
    "input token count",
)
_MODERATION: Final = "moderation"
# Source: the codes of OpenAI and Azure, and the text of OpenRouter with status 403.
_FILTER_WORDS: Final = (
    f"{_MODERATION}: ",
    "content_filter",
    "content_policy_violation",
    "content management policy",
    "invalid_prompt",
    "bio_policy",
    "misalignment_policy_violation",
    "requires moderation",
    "was flagged",
)
# Of errors without a status. Source: the error codes of OpenAI.
_KIND_OF_CODE: Final = {
    "rate_limit_exceeded": LlmErrorKind.RATE_LIMITED,
    "slow_down": LlmErrorKind.RATE_LIMITED,
    "invalid_api_key": LlmErrorKind.AUTH,
    "model_not_found": LlmErrorKind.NOT_FOUND,
}


def kind_of_error(status: int, description: str) -> LlmErrorKind:
    """The kind of an error with this status, by what the server says about it."""
    words = description.lower()
    # An empty account looks like a rate limit or a bad request. Retrying it for minutes would delay
    # the run and hide the cause.
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.TOO_MANY_REQUESTS) and _has(
        words, _QUOTA_WORDS
    ):
        return LlmErrorKind.QUOTA
    if status == HTTPStatus.PAYMENT_REQUIRED and _BUSY_WORD in words:
        return LlmErrorKind.RATE_LIMITED
    if status == HTTPStatus.BAD_REQUEST and _has(words, _CONTEXT_WORDS):
        return LlmErrorKind.CONTEXT_LENGTH
    # A 403 about one prompt says nothing about the key.
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN) and _has(words, _FILTER_WORDS):
        return LlmErrorKind.CONTENT_FILTER
    return kind_of_status(status)


def describe_error(document: Any) -> str:
    """The message and the codes in the body of an error response."""
    if isinstance(document, list) and document:  # Gemini, with the API of OpenAI
        document = document[0]
    error = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(error, dict):
        return str(error)
    parts = [*(error.get(name) for name in ("message", "code", "type", "param")), *_details(error)]
    # Without duplicates: many servers send the same text as code and as type.
    return "; ".join(dict.fromkeys(str(part) for part in parts if part))


def error_in_response(error: Any) -> LlmError | None:
    """The error that a server reports in a response with status 200; None when it reports none.

    Gateways such as OpenRouter answer so when the provider behind them fails.
    """
    if not error:
        return None
    details = error if isinstance(error, dict) else {"message": error}
    code, message = details.get("code"), str(details.get("message") or "no message")
    status = code if type(code) is int and 400 <= code < 600 else None  # noqa: PLR2004 - HTTP
    texts = [f"200 with an error: {f'{code}: ' if code else ''}{message}", *_details(details)]
    reason = "; ".join(texts)[:MAX_ERROR_CHARS]
    if type(code) is int:
        kind = kind_of_error(code, reason)
    else:
        kind = _kind_without_status(str(code).lower(), reason)
    return LlmError(reason, kind=kind, status=status)


def _kind_without_status(code: str, description: str) -> LlmErrorKind:
    """The kind of an error with a code of letters, or none; an unknown one is worth a retry."""
    known = _KIND_OF_CODE.get(code)
    if known is not None:
        return known
    # With these two statuses the words of each kind count.
    for status in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN):
        kind = kind_of_error(status, description)
        if kind is not kind_of_status(status):
            return kind
    return LlmErrorKind.SERVER


def _has(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)


def _details(error: dict[str, Any]) -> Iterator[str]:
    """What else an error holds: the code of Anthropic, the reasons of a moderation of OpenRouter."""
    details, metadata = error.get("details"), error.get("metadata")
    if isinstance(details, dict) and details.get("error_code"):
        yield str(details["error_code"])
    reasons = metadata.get("reasons") if isinstance(metadata, dict) else None
    if isinstance(reasons, list) and reasons:
        yield f"{_MODERATION}: {', '.join(map(str, reasons))}"
