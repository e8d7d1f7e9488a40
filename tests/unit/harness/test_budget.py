"""Limits in dollars: no request is sent that may exceed one."""

import asyncio
from collections.abc import Sequence

import pytest

from mosaico.harness.bash.agent import AgentAttempt, AttemptLimits, attempt_task
from mosaico.harness.budget import (
    AttemptBudgetExhausted,
    Budget,
    RunBudgetExhausted,
    turn_within_budget,
)
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.llm.conversation import ChatMessage, Tool, Turn, Usage, user_message
from mosaico.llm.prices import Price
from mosaico.llm.request_size import estimate_conversation, estimate_tokens
from tests.support.bash_eval import task
from tests.support.bash_turns import ScriptedTurns, run_all, turn

pytestmark = pytest.mark.usefixtures("loaded_checks")

# A dollar for each input token, or for each output token.
BY_INPUT = Price(input_usd=1e6, output_usd=0.0)
BY_OUTPUT = Price(input_usd=0.0, output_usd=1e6)


class Crowd:
    """Answers when every request that may be sent was sent; counts those in flight."""

    def __init__(self, usage: Usage | None) -> None:
        self._usage = usage
        self.in_flight = 0
        self.most_in_flight = 0

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        del system, messages, tools
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        for _ in range(10):
            await asyncio.sleep(0)
        self.in_flight -= 1
        return turn(text="Done.", usage=self._usage)


def ask_together(llm: Crowd, budget: Budget, count: int) -> list[Turn | BaseException]:
    """The outcomes of requests for the attempts of one run."""

    async def ask_all() -> list[Turn | BaseException]:
        attempts = (
            Budget(price=budget.price, parent=budget, max_output_tokens=budget.max_output_tokens)
            for _ in range(count)
        )
        turns = (turn_within_budget(llm, one, "", [user_message("x")], []) for one in attempts)
        return await asyncio.gather(*turns, return_exceptions=True)

    return asyncio.run(ask_all())


def attempt(llm: ScriptedTurns, budget: Budget) -> AgentAttempt:
    return asyncio.run(attempt_task(task(), llm, AttemptLimits(), budget))


def test_estimate__is_not_below_the_tokens_of_common_texts() -> None:
    # 9 tokens of any current tokenizer; 44 bytes.
    assert estimate_tokens("The quick brown fox jumps over the lazy dog.") == 15
    assert estimate_tokens("") == 0
    assert estimate_tokens("\u65e5\u672c\u8a9e") == 3
    short, long = user_message("x"), user_message("x" * 300)
    grown = estimate_conversation("", [long], []) - estimate_conversation("", [short], [])
    assert grown == 99


def test_cost_limit__request_that_may_exceed_it_is_not_sent() -> None:
    llm = ScriptedTurns([turn("true")])
    ended = attempt(llm, Budget(limits=BudgetLimits(cost_usd=5.0), price=BY_INPUT))
    assert (ended.trace.ending, ended.trace.turns) == (ConversationEnding.COST_LIMIT, 0)
    assert llm.received == []
    assert "the next request may cost" in str(ended.trace.ending_detail)
    assert "$0 of $5 are spent" in str(ended.trace.ending_detail)


def test_cost_limit__worst_case_is_the_limit_of_the_output() -> None:
    """An answer takes 2 tokens, so 2 dollars, and may take 10: 2 + 2 + 10 is more than 13."""
    budget = Budget(limits=BudgetLimits(cost_usd=13.0), price=BY_OUTPUT, max_output_tokens=10)
    ended = attempt(ScriptedTurns([turn("true")] * 9), budget)
    assert (ended.trace.ending, ended.trace.turns) == (ConversationEnding.COST_LIMIT, 2)
    assert ended.trace.cost_usd == 4.0


def test_cost_limit__estimate_is_corrected_by_the_answers() -> None:
    """Each request takes 8 tokens, far less than its bytes suggest: 8 dollars, of 1,000."""
    budget = Budget(limits=BudgetLimits(cost_usd=1000.0), price=BY_INPUT)
    ended = attempt(ScriptedTurns([turn("true")] * 6 + [turn(text="Done.")]), budget)
    assert (ended.trace.ending, ended.trace.cost_usd) == (ConversationEnding.NATURAL, 56.0)
    assert budget.estimate.correct(1000) < 100


def test_run_limit__requests_in_flight_never_exceed_it() -> None:
    """Each takes 2 dollars and may take 10. Of 25 dollars two fit at once; when they are answered, the
    next ones fit, until 10 more would exceed 25.
    """
    llm = Crowd(Usage(input_tokens=1, output_tokens=2))
    budget = Budget(limits=BudgetLimits(cost_usd=25.0), price=BY_OUTPUT, max_output_tokens=10)
    outcomes = ask_together(llm, budget, 20)
    assert llm.most_in_flight == 2
    answered = [outcome for outcome in outcomes if isinstance(outcome, Turn)]
    assert len(answered) == 8
    assert budget.known_usd == 16.0
    refused = [outcome for outcome in outcomes if not isinstance(outcome, Turn)]
    assert {type(outcome) for outcome in refused} == {RunBudgetExhausted}


def test_run_limit__missing_usage_counts_as_expected() -> None:
    """A server that reports nothing must not make the limit ineffective."""
    budget = Budget(limits=BudgetLimits(cost_usd=25.0), price=BY_OUTPUT, max_output_tokens=10)
    outcomes = ask_together(Crowd(None), budget, 5)
    assert sum(isinstance(outcome, Turn) for outcome in outcomes) == 2
    assert (budget.known_usd, budget.cost_usd) == (20.0, None)


def test_run_limit__attempts_that_it_does_not_allow_are_skipped() -> None:
    run = Budget(limits=BudgetLimits(cost_usd=3.0), price=BY_OUTPUT)
    tasks = [task(prompt=text) for text in ("a", "b", "c")]
    llm = ScriptedTurns([turn(text="Done.")])
    results = run_all(llm, *tasks, budget=run)
    outcomes = [result.outcome for result in results]
    assert outcomes == [AttemptOutcome.SCORED, AttemptOutcome.SKIPPED, AttemptOutcome.SKIPPED]
    assert len(llm.received) == 1
    assert "the next request may cost $2, and $2 of $3 are spent" in str(results[1].reason)


def test_attempt_limit__does_not_end_the_run() -> None:
    run = Budget(limits=BudgetLimits(cost_usd=100.0), price=BY_OUTPUT)
    own = Budget(
        limits=BudgetLimits(cost_usd=1.0), price=BY_OUTPUT, parent=run, max_output_tokens=9
    )
    llm = Crowd(Usage(input_tokens=1, output_tokens=2))

    async def ask() -> None:
        await turn_within_budget(llm, own, "", [user_message("x")], [])

    with pytest.raises(AttemptBudgetExhausted):
        asyncio.run(ask())
    assert run.exhausted() is None


def test_cached_tokens__are_counted_in_attempt_and_run() -> None:
    usage = Usage(input_tokens=100, output_tokens=2, cached_tokens=60, cache_write_tokens=30)
    run = Budget()
    ask_together(Crowd(usage), run, 3)
    assert (run.known_input_tokens, run.known_cached_tokens) == (300, 180)
    assert run.known_cache_write_tokens == 90
