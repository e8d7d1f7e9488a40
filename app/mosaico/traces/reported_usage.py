"""Tokens and cost as tools report them; pure."""

from typing import NamedTuple


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
