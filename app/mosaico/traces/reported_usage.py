"""Tokens and cost as tools report them; pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

_TOTALS: Final = (
    *("total", "total_tokens", "totaltokens", "tokens", "total_token_count", "totaltokencount"),
)
_INPUT_WORDS: Final = ("input", "prompt")
# The output of Gemini is that of its candidates, with its thoughts.
_OUTPUT_WORDS: Final = (
    "output",
    "completion",
    "candidates",
    "thoughts_token",
    "thoughtstokencount",
)
_PLAIN_INPUTS: Final = ("input", "input_tokens", "inputtokens", "prompt_tokens", "prompttokens")
_PLAIN_OUTPUTS: Final = (
    *("output", "output_tokens", "outputtokens", "completion_tokens", "completiontokens"),
)
# A number with more digits is not read: it fits into no column.
_MAX_DIGITS: Final = 20


class ReportedUsage(NamedTuple):
    """Usage of one call or attempt; None means unknown."""

    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


def drop_unknown_zeros(
    input_tokens: int | None, output_tokens: int | None, cost_usd: float | None
) -> ReportedUsage:
    """The usage without the zeros that tools write for unknown numbers: every call of a model has
    tokens, and without tokens nobody knows that it was free.
    """
    if input_tokens or output_tokens:
        return ReportedUsage(input_tokens, output_tokens, cost_usd)
    return ReportedUsage(None, None, cost_usd or None)


class TokenCounts(NamedTuple):
    """Tokens of one call, with those that a cache served or kept; None when unknown."""

    input: int | None
    output: int | None


def read_usage_details(details: Mapping[str, Any]) -> TokenCounts:
    """Sum the token counts of a document of usage by the words in its keys.

    Writers use different keys (`input`, `promptTokens`, `input_cached_tokens` …). A finer count such as cached tokens is
    either part of the plain count or comes on top of it; the total decides which. The total also supplies a side that
    is missing. Nested objects are parts of the plain counts and are not read. Source: docs of `usage_details` of Langfuse.
    """
    counts = ((name.lower(), _count(value)) for name, value in details.items())
    amounts = {name: count for name, count in counts if count is not None}
    input_tokens = _sum_matching(amounts, _INPUT_WORDS)
    output_tokens = _sum_matching(amounts, _OUTPUT_WORDS)
    total = next((amounts[name] for name in _TOTALS if name in amounts), None)
    if total is not None:
        if total < (input_tokens or 0) + (output_tokens or 0):
            # The finer counts were counted twice: only the plain counts remain.
            input_tokens = _plain(amounts, _PLAIN_INPUTS, _INPUT_WORDS, input_tokens)
            output_tokens = _plain(amounts, _PLAIN_OUTPUTS, _OUTPUT_WORDS, output_tokens)
        if input_tokens is None:
            input_tokens = max(total - (output_tokens or 0), 0)
        if output_tokens is None:
            output_tokens = max(total - input_tokens, 0)
    return TokenCounts(input_tokens, output_tokens)


def _count(value: Any) -> int | None:
    """A count of tokens; some writers send it as a text."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:_MAX_DIGITS])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    return int(value)


def _plain(
    amounts: Mapping[str, int], names: Sequence[str], words: Sequence[str], otherwise: int | None
) -> int | None:
    """The plain count, if the finer ones can be parts of it: a larger one comes on top, whatever the total says."""
    plain = next((amounts[name] for name in names if name in amounts), None)
    if plain is None or max(_matching(amounts, words)) > plain:
        return otherwise
    return plain


def _matching(amounts: Mapping[str, int], words: Sequence[str]) -> list[int]:
    return [amount for name, amount in amounts.items() if any(word in name for word in words)]


def _sum_matching(amounts: Mapping[str, int], words: Sequence[str]) -> int | None:
    matches = _matching(amounts, words)
    return sum(matches) if matches else None
