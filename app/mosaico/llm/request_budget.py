"""A budget of model requests: how many may be sent, and what they may cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mosaico.core.errors import AppError
from mosaico.llm.conversation import Usage
from mosaico.llm.prices import NoPrice, Price
from mosaico.llm.request_size import TokenEstimate, estimate_batch
from mosaico.llm.reservations import Reservations
from mosaico.llm.types import BatchResponse, RequestBatch

if TYPE_CHECKING:
    from mosaico.llm.completion_pool import BatchCompleter


class LlmBudgetExhausted(AppError):
    """The limit of model requests or of their cost is reached; raise it and repeat the command:
    stored answers are free.
    """

    code = "llm-budget"
    status = 400
    exit_code = 3


@dataclass(slots=True, kw_only=True)
class RequestBudget:
    """Counts requests and dollars against limits; None means no limit.

    A request that would exceed a limit is not sent. Before it, its cost is expected by its price and
    the size of its input, with the longest output so far, and to be at least that of the most
    expensive request so far. The first is sent alone, because the length of its output is unknown.
    """

    max_requests: int | None = None
    max_usd: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    sent_count: int = 0
    spent_usd: float = 0.0
    _reserved: Reservations = field(default_factory=Reservations, init=False)
    _highest_cost_usd: float | None = field(default=None, init=False)
    _longest_output: int = field(default=0, init=False)
    _input_tokens: TokenEstimate = field(default_factory=TokenEstimate, init=False)
    _model_without_price: str | None = field(default=None, init=False)

    async def admit(self, batch: RequestBatch) -> float:
        """Wait until one more request fits the budget; return the dollars that are kept for it.

        Raises, after the requests in flight were answered: `LlmBudgetExhausted` when it will not,
        `NoPrice` when the cost is limited and that of a model is unknown.
        """
        input_tokens = estimate_batch(batch)
        while not self._fits(self._expected_usd(batch[0].model, input_tokens)):
            if not self._reserved.amounts:
                if self._model_without_price is not None:
                    raise NoPrice(self._model_without_price)
                raise LlmBudgetExhausted(self._reason(), hint="raise --max-requests or --max-usd")
            await self._reserved.wait()
        expected_usd = self._expected_usd(batch[0].model, input_tokens)
        self.sent_count += 1
        self._reserved.take(expected_usd)
        return expected_usd

    def settle(self, reserved_usd: float) -> None:
        """Count one request in flight less."""
        self._reserved.release(reserved_usd)

    def add_cost(self, batch: RequestBatch, response: BatchResponse) -> BatchResponse:
        """Count the cost of a response, and return the response with it."""
        model, cost = batch[0].model, response.cost_usd
        price = self.prices.get(model)
        if cost is None and price is not None:
            cost = price.of(response.usage)
        if cost is None:
            if self.max_usd is not None:
                self._model_without_price = model
            return response
        self.spent_usd += cost
        self._highest_cost_usd = max(cost, self._highest_cost_usd or 0.0)
        self._input_tokens.learn(estimate_batch(batch), response.usage.input_tokens)
        self._longest_output = max(response.usage.output_tokens, self._longest_output)
        return response._replace(cost_usd=cost)

    def _expected_usd(self, model: str, input_tokens: int) -> float:
        price = self.prices.get(model)
        expected_input = self._input_tokens.correct(input_tokens)
        usage = Usage(input_tokens=expected_input, output_tokens=self._longest_output)
        return max(price.of(usage) if price else 0.0, self._highest_cost_usd or 0.0)

    def _fits(self, expected_usd: float) -> bool:
        if self._model_without_price is not None or self._is_request_limit_reached():
            return False
        if self.max_usd is None:
            return True
        if self._highest_cost_usd is None and self._reserved.amounts:
            return False
        return self.spent_usd + sum(self._reserved.amounts) + expected_usd <= self.max_usd

    def _is_request_limit_reached(self) -> bool:
        return self.max_requests is not None and self.sent_count >= self.max_requests

    def _reason(self) -> str:
        if self._is_request_limit_reached():
            limit = f"{self.max_requests:,} model requests"
        else:
            limit = f"${self.max_usd:g}"
        requests = "request was" if self.sent_count == 1 else "requests were"
        cost = f" for ${self.spent_usd:.4g}" if self._highest_cost_usd is not None else ""
        return (
            f"the limit of {limit} is too low: {self.sent_count:,} {requests} sent{cost}. The "
            "answers are in the cache and are free in the next run"
        )


class BudgetedCompleter:
    """Sends batches within a budget. Provides `BatchCompleter`."""

    def __init__(self, completer: "BatchCompleter", budget: RequestBudget) -> None:
        self._completer = completer
        self._budget = budget

    async def complete(self, batch: RequestBatch) -> BatchResponse:
        """The response with its cost, where known. Raises: `LlmBudgetExhausted`, `NoPrice`."""
        reserved_usd = await self._budget.admit(batch)
        try:
            response = await self._completer.complete(batch)
            return self._budget.add_cost(batch, response)
        finally:
            self._budget.settle(reserved_usd)

    async def close(self) -> None:
        """Close the connections."""
        await self._completer.close()
