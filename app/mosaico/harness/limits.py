"""Limits of attempts and of whole runs: what settings name, without what counts against them."""

from dataclasses import dataclass
from typing import Final

# Of one bash call: about 25,000 tokens, so that a few of them fit into the context of most models.
DEFAULT_TOOL_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """The limits of a budget; None means no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
