"""What a run or a task may use, counted as it is used."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from app.llm.conversation import Usage
from app.llm.prices import Price


class Limit(StrEnum):
    """A limit that was reached."""

    TOKENS = "tokens"
    COST = "cost"


class RunLimitReached(Exception):
    """The whole run may use no more; the message names the limit."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(f"the run's limit of {limit} is reached")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How much may be used; None is no limit."""

    tokens: int | None = None
    cost_usd: float | None = None


class Spent(NamedTuple):
    """What a run used before it was interrupted, the judge included, each model at its price."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def go_on(self, allowance: Allowance, price: Price | None = None) -> "Spending":
        """What the whole run may use, of which so much is used already."""
        return Spending(
            allowance=allowance,
            price=price,
            told_input=self.input_tokens,
            told_output=self.output_tokens,
            told_usd=self.usd,
        )


@dataclass(slots=True, kw_only=True)
class Spending:
    """What was used of an allowance. What a part spends, the whole has spent, each at its price."""

    allowance: Allowance = field(default_factory=Allowance)
    price: Price | None = None
    whole: "Spending | None" = None
    told_input: int = 0
    told_output: int = 0
    told_usd: float = 0.0
    all_told: bool = True

    def spend(self, usage: Usage | None) -> None:
        """Count the tokens of one turn; None when the server did not tell them."""
        cost = 0.0
        if usage is not None and self.price is not None:
            cost = self.price.of(usage.input_tokens, usage.output_tokens)
        self._count(usage, cost)

    def _count(self, usage: Usage | None, cost_usd: float) -> None:
        if usage is None:
            self.all_told = False
        else:
            self.told_input += usage.input_tokens
            self.told_output += usage.output_tokens
            self.told_usd += cost_usd
        if self.whole is not None:
            self.whole._count(usage, cost_usd)  # noqa: SLF001 - one of its kind

    @property
    def input_tokens(self) -> int | None:
        """Tokens read; None once a turn did not tell its own."""
        return self.told_input if self.all_told else None

    @property
    def output_tokens(self) -> int | None:
        """Tokens written; None once a turn did not tell its own."""
        return self.told_output if self.all_told else None

    @property
    def cost_usd(self) -> float | None:
        """The dollars so far; None when a price or a token is not known."""
        if self.price is None or not self.all_told:
            return None
        return self.told_usd

    def reached(self) -> Limit | None:
        """The limit that is used up, here or in the whole, by what was told."""
        return self.reached_alone() or (self.whole.reached() if self.whole is not None else None)

    def require_whole(self) -> None:
        """Raise RunLimitReached when the whole, of which this is a part, is used up."""
        limit = self.whole.reached() if self.whole is not None else None
        if limit is not None:
            raise RunLimitReached(limit)

    def reached_alone(self) -> Limit | None:
        """The same without the whole."""
        allowed = self.allowance
        if allowed.tokens is not None and self.told_input + self.told_output >= allowed.tokens:
            return Limit.TOKENS
        if allowed.cost_usd is not None and self.told_usd >= allowed.cost_usd:
            return Limit.COST
        return None
