"""Budgets of tokens and dollars: limits, and the usage counted against them.

The tokens of a request are known only after it, so a limit of tokens is checked before a request
and passed by the last one. Dollars are paid: the cost of a request is expected before it is sent,
and one that may exceed the limit is not sent.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from mosaico.harness.limits import BudgetLimits
from mosaico.harness.results import ConversationEnding, NamedEnding
from mosaico.llm.conversation import ChatMessage, Tool, Turn, Usage
from mosaico.llm.prices import Price
from mosaico.llm.request_size import TokenEstimate, estimate_conversation
from mosaico.llm.reservations import Reservations


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
    """The budget of the run is exhausted, or the next request may exceed it, for the reason."""

    def __init__(self, kind: BudgetKind, reason: str | None = None) -> None:
        detail = f": {reason}" if reason else ""
        super().__init__(f"the run reached its limit of {kind}{detail}")


class AttemptBudgetExhausted(Exception):
    """The budget of the attempt is exhausted, or the next request may exceed it, for the reason."""

    def __init__(self, kind: BudgetKind, reason: str | None = None) -> None:
        super().__init__(reason or str(kind))
        self.ended = NamedEnding(kind.ending, reason)


class TurnTaker(Protocol):
    """A model that is asked for a turn."""

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn: ...


class UsedBudget(NamedTuple):
    """The usage of an interrupted run, judges included, each model at its own price."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def resume(
        self,
        limits: BudgetLimits,
        price: Price | None = None,
        max_output_tokens: int | None = None,
    ) -> "Budget":
        """The budget of the whole run, this usage already counted."""
        return Budget(
            limits=limits,
            price=price,
            max_output_tokens=max_output_tokens,
            known_input_tokens=self.input_tokens,
            known_output_tokens=self.output_tokens,
            known_usd=self.usd,
        )


@dataclass(slots=True, kw_only=True)
class Budget:
    """Counts usage against limits. Usage also counts against the parent budget, at the child's price.

    `max_output_tokens` is the limit of the output of one request, where one is set; `longest_output`
    is the longest so far, and `estimate` the tokens of input so far compared with the sizes of the
    texts. `is_spent` is set when a request was not sent because of its cost.
    """

    limits: BudgetLimits = field(default_factory=BudgetLimits)
    price: Price | None = None
    parent: "Budget | None" = None
    max_output_tokens: int | None = None
    known_input_tokens: int = 0
    known_output_tokens: int = 0
    known_cached_tokens: int = 0
    known_cache_write_tokens: int = 0
    known_usd: float = 0.0
    is_complete: bool = True
    is_spent: bool = field(default=False, init=False)
    longest_output: int = field(default=0, init=False)
    estimate: TokenEstimate = field(default_factory=TokenEstimate, init=False)
    reserved: Reservations = field(default_factory=Reservations, init=False)

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
            self.known_cached_tokens += usage.cached_tokens
            self.known_cache_write_tokens += usage.cache_write_tokens
            self.longest_output = max(usage.output_tokens, self.longest_output)
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
        if limits.cost_usd is not None and (self.is_spent or self.known_usd >= limits.cost_usd):
            return BudgetKind.COST
        return None

    @asynccontextmanager
    async def reserve(self, input_tokens: int) -> AsyncIterator[float]:
        """Reserve the dollars of a request in this budget and its parents; gives their number.

        The cost is the worst case where the output of a request is limited; else the output is
        expected to be as long as the longest so far. While other requests are in flight, what they
        reserved may become free, and is waited for. Raises: AttemptBudgetExhausted,
        RunBudgetExhausted.
        """
        expected_usd = self._expected_usd(input_tokens)
        levels = [level for level in self._levels() if level.limits.cost_usd is not None]
        while full := next((level for level in levels if not level.fits(expected_usd)), None):
            if not full.reserved.amounts:
                full.is_spent = True
                raise self._exhausted_by(full, expected_usd)
            await full.reserved.wait()
        for level in levels:
            level.reserved.take(expected_usd)
        try:
            yield expected_usd
        finally:
            for level in levels:
                level.reserved.release(expected_usd)

    def _expected_usd(self, input_tokens: int) -> float:
        """The cost of a request with about this input; 0 without a price."""
        if self.price is None:
            return 0.0
        run = self._run()
        usage = Usage(
            input_tokens=run.estimate.correct(input_tokens),
            output_tokens=self.max_output_tokens or run.longest_output,
        )
        return self.price.of(usage)

    def learn(self, estimated_tokens: int, usage: Usage) -> None:
        """Compare the estimated tokens of an answered request with its tokens."""
        self._run().estimate.learn(estimated_tokens, usage.input_tokens)

    def _run(self) -> "Budget":
        """The budget of the whole run."""
        return self if self.parent is None else self.parent._run()  # noqa: SLF001 - the same class

    def _levels(self) -> "Iterator[Budget]":
        """This budget and its parents."""
        level: Budget | None = self
        while level is not None:
            yield level
            level = level.parent

    def fits(self, expected_usd: float) -> bool:
        """Return whether a request of this cost fits, whatever the parents allow."""
        limit = self.limits.cost_usd
        spent_usd = self.known_usd + sum(self.reserved.amounts)
        return limit is None or (not self.is_spent and spent_usd + expected_usd <= limit)

    def _exhausted_by(self, full: "Budget", expected_usd: float) -> Exception:
        """The error for a request that a budget, this one or a parent, does not allow."""
        reason = (
            f"the next request may cost ${expected_usd:.4g}, and ${full.known_usd:.4g} of"
            f" ${full.limits.cost_usd:g} are spent"
        )
        if full is self:
            return AttemptBudgetExhausted(BudgetKind.COST, reason)
        return RunBudgetExhausted(BudgetKind.COST, reason)


async def turn_within_budget(
    llm: TurnTaker,
    budget: Budget,
    system: str,
    messages: Sequence[ChatMessage],
    tools: Sequence[Tool],
) -> Turn:
    """The next turn of a model, counted in the budget; the request is not sent when it may exceed it.

    Raises: LlmError, AttemptBudgetExhausted, RunBudgetExhausted.
    """
    exhausted = budget.own_exhausted()
    if exhausted is not None:
        raise AttemptBudgetExhausted(exhausted)
    budget.require_run_budget()
    estimated_tokens = estimate_conversation(system, messages, tools)
    async with budget.reserve(estimated_tokens) as expected_usd:
        turn = await llm.turn(system, messages, tools)
        if turn.usage is None:
            # The server does not say what it cost: a limit has to count something.
            budget.add_reported(None, expected_usd)
        else:
            budget.add_usage(turn.usage)
            budget.learn(estimated_tokens, turn.usage)
    return turn
