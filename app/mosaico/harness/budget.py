"""Budgets of tokens and dollars: limits, and the usage counted against them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from mosaico.harness.results import ConversationEnding
from mosaico.llm.conversation import Usage
from mosaico.llm.prices import Price


class BudgetKind(StrEnum):
    """The resource whose limit is reached."""

    TOKENS = "tokens"
    COST = "cost"

    @property
    def ending(self) -> ConversationEnding:
        """The ending of a conversation that reached the limit."""
        if self is BudgetKind.TOKENS:
            return ConversationEnding.TOKEN_LIMIT
        return ConversationEnding.COST_LIMIT


class RunBudgetExhausted(Exception):
    """The budget of the run is exhausted."""

    def __init__(self, kind: BudgetKind) -> None:
        super().__init__(f"the run reached its limit of {kind}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """The limits of a budget; None means no limit."""

    tokens: int | None = None
    cost_usd: float | None = None


class UsedBudget(NamedTuple):
    """The usage of an interrupted run, judges included, each model at its own price."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def resume(self, limits: BudgetLimits, price: Price | None = None) -> "Budget":
        """The budget of the whole run, this usage already counted."""
        return Budget(
            limits=limits,
            price=price,
            known_input_tokens=self.input_tokens,
            known_output_tokens=self.output_tokens,
            known_usd=self.usd,
        )


@dataclass(slots=True, kw_only=True)
class Budget:
    """Counts usage against limits. Usage also counts against the parent budget, at the child's price."""

    limits: BudgetLimits = field(default_factory=BudgetLimits)
    price: Price | None = None
    parent: "Budget | None" = None
    known_input_tokens: int = 0
    known_output_tokens: int = 0
    known_usd: float = 0.0
    is_complete: bool = True

    def add_usage(self, usage: Usage | None) -> None:
        """Count the tokens of one turn; None when the server did not report them."""
        cost = 0.0
        if usage is not None and self.price is not None:
            cost = self.price.of(usage)
        self._count(usage, cost)

    def add_reported(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Count the usage and the cost that an agent reported itself; None is unknown."""
        self._count(usage, cost_usd or 0.0)

    def _count(self, usage: Usage | None, cost_usd: float) -> None:
        self.known_usd += cost_usd
        if usage is None:
            # From here on a total would be too low, so it counts as unknown; the limits go on with
            # what is known.
            self.is_complete = False
        else:
            self.known_input_tokens += usage.input_tokens
            self.known_output_tokens += usage.output_tokens
        if self.parent is not None:
            # The cost is passed on and not computed again: each model has its own price.
            self.parent._count(usage, cost_usd)  # noqa: SLF001 - the same class

    @property
    def input_tokens(self) -> int | None:
        """Input tokens; None as soon as one turn did not report its usage."""
        return self.known_input_tokens if self.is_complete else None

    @property
    def output_tokens(self) -> int | None:
        """Output tokens; None as soon as one turn did not report its usage."""
        return self.known_output_tokens if self.is_complete else None

    @property
    def cost_usd(self) -> float | None:
        """Cost in dollars; None when the price or the usage of a turn is unknown."""
        if self.price is None or not self.is_complete:
            return None
        return self.known_usd

    def exhausted(self) -> BudgetKind | None:
        """The limit that is reached, of this budget or its parent, by the known usage."""
        return self.own_exhausted() or (self.parent.exhausted() if self.parent else None)

    def require_run_budget(self) -> None:
        """Raise RunBudgetExhausted when the parent budget is exhausted."""
        kind = self.parent.exhausted() if self.parent is not None else None
        if kind is not None:
            raise RunBudgetExhausted(kind)

    def own_exhausted(self) -> BudgetKind | None:
        """The limit that is reached, of this budget only."""
        limits = self.limits
        tokens = self.known_input_tokens + self.known_output_tokens
        # Checked before a turn, because the tokens of a turn are known only after it.
        if limits.tokens is not None and tokens >= limits.tokens:
            return BudgetKind.TOKENS
        if limits.cost_usd is not None and self.known_usd >= limits.cost_usd:
            return BudgetKind.COST
        return None
