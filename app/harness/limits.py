"""What a run or a task may use, counted as it is used."""

from dataclasses import dataclass, field
from enum import StrEnum

from app.harness.llm.conversation import Usage
from app.harness.llm.prices import Price


class Limit(StrEnum):
    """A limit that was reached."""

    TOKENS = "tokens"
    COST = "cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How much may be used; None is no limit."""

    tokens: int | None = None
    cost_usd: float | None = None


@dataclass(slots=True, kw_only=True)
class Spending:
    """What was used of an allowance. What a part spends, the whole has spent."""

    allowance: Allowance = field(default_factory=Allowance)
    price: Price | None = None
    whole: "Spending | None" = None
    told_input: int = 0
    told_output: int = 0
    all_told: bool = True

    def spend(self, usage: Usage | None) -> None:
        """Count the tokens of one turn; None when the server did not tell them."""
        if usage is None:
            self.all_told = False
        else:
            self.told_input += usage.input_tokens
            self.told_output += usage.output_tokens
        if self.whole is not None:
            self.whole.spend(usage)

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
        return self.price.of(self.told_input, self.told_output)

    def reached(self) -> Limit | None:
        """The limit that is used up, here or in the whole, by what was told."""
        tokens = self.told_input + self.told_output
        if self.allowance.tokens is not None and tokens >= self.allowance.tokens:
            return Limit.TOKENS
        cost = self.price.of(self.told_input, self.told_output) if self.price else 0.0
        if self.allowance.cost_usd is not None and cost >= self.allowance.cost_usd:
            return Limit.COST
        return self.whole.reached() if self.whole is not None else None
