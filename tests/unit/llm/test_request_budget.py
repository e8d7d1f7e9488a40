"""The budget of model requests: no request beyond a limit, and no paid answer lost."""

import asyncio
from dataclasses import dataclass, field

import pytest

from mosaico.llm.conversation import Usage
from mosaico.llm.prices import NoPrice, Price
from mosaico.llm.request_budget import BudgetedCompleter, LlmBudgetExhausted, RequestBudget
from mosaico.llm.types import (
    BatchResponse,
    ChatAnswer,
    ChatRequest,
    PromptMessage,
    RequestBatch,
)

REQUEST = [ChatRequest(model="judge", messages=())]
ANSWER = ChatAnswer(content="yes")
# 1,000 input and 100 output tokens at 1 and 10 dollars per million: 0.001 + 0.001 dollars.
USAGE = Usage(input_tokens=1_000, output_tokens=100)
PRICES = {"judge": Price(input_usd=1.0, output_usd=10.0)}


@dataclass
class SlowServer:
    """Answers a request when all others had the time to begin. Provides `BatchCompleter`."""

    cost_usd: float | None = None
    in_flight: int = 0
    most_in_flight: list[int] = field(default_factory=list)

    async def complete(self, batch: RequestBatch) -> BatchResponse:
        self.in_flight += 1
        self.most_in_flight.append(self.in_flight)
        # Ten turns of the loop: every request that may begin has begun.
        for _ in range(10):
            await asyncio.sleep(0)
        self.in_flight -= 1
        return BatchResponse((ANSWER,) * len(batch), USAGE, self.cost_usd)

    async def close(self) -> None:
        raise AssertionError("nothing to close")


def send(
    budget: RequestBudget, server: SlowServer, count: int
) -> list[BatchResponse | BaseException]:
    """The outcomes of requests that are sent at the same time."""
    completer = BudgetedCompleter(server, budget)

    async def send_all() -> list[BatchResponse | BaseException]:
        requests = (completer.complete(REQUEST) for _ in range(count))
        return await asyncio.gather(*requests, return_exceptions=True)

    return asyncio.run(send_all())


def test_requests__no_more_than_the_limit_are_sent() -> None:
    server, budget = SlowServer(), RequestBudget(max_requests=3)
    outcomes = send(budget, server, 5)
    assert [type(outcome) for outcome in outcomes] == [BatchResponse] * 3 + [LlmBudgetExhausted] * 2
    assert "the limit of 3 model requests is too low: 3 requests were sent" in str(outcomes[4])
    assert len(server.most_in_flight) == 3


@pytest.mark.parametrize("reported", [None, 0.002])
def test_usd__limit_is_not_exceeded_by_requests_in_flight(reported: float | None) -> None:
    # Each costs 0.002 dollars: five of them fit into 0.0101.
    server, budget = SlowServer(reported), RequestBudget(max_usd=0.0101, prices=PRICES)
    outcomes = send(budget, server, 20)
    responses = [outcome for outcome in outcomes if isinstance(outcome, BatchResponse)]
    assert [response.cost_usd for response in responses] == [0.002] * 5
    assert budget.spent_usd == pytest.approx(0.01)
    # The first alone, because its cost is unknown; then the four that fit, at once.
    assert server.most_in_flight == [1, 1, 2, 3, 4]
    assert str(outcomes[-1]).startswith(
        "the limit of $0.0101 is too low: 5 requests were sent for $0.01."
    )


def test_usd__limit_needs_a_cost() -> None:
    server, budget = SlowServer(), RequestBudget(max_usd=1.0)
    first, *unsent = send(budget, server, 3)
    # Its answer is paid for, and is kept.
    assert isinstance(first, BatchResponse)
    assert [type(outcome) for outcome in unsent] == [NoPrice, NoPrice]
    assert len(server.most_in_flight) == 1


def test_cost__without_a_limit_may_be_unknown() -> None:
    outcomes = send(RequestBudget(), SlowServer(), 12)
    assert [outcome.cost_usd for outcome in outcomes if isinstance(outcome, BatchResponse)] == (
        [None] * 12
    )


def test_usd__request_whose_input_alone_exceeds_the_limit_is_not_sent() -> None:
    """3,000 bytes are taken for 1,000 tokens, with the message 1,004: 0.001004 dollars."""
    request = [
        ChatRequest(model="judge", messages=(PromptMessage(role="user", content="x" * 3_000),))
    ]
    for max_usd, sent in ((0.001, 0), (0.0011, 1)):
        server = SlowServer()
        completer = BudgetedCompleter(server, RequestBudget(max_usd=max_usd, prices=PRICES))
        if sent:
            asyncio.run(completer.complete(request))
        else:
            with pytest.raises(LlmBudgetExhausted, match="0 requests were sent"):
                asyncio.run(completer.complete(request))
        assert len(server.most_in_flight) == sent
