"""The judge of the `llm_judge` checks: it reads the task and the transcript of an attempt."""

from dataclasses import replace
from typing import Final

from mosaico.core.text import cut_middle
from mosaico.harness.bash.check_registry import split_check
from mosaico.harness.bash.types import AgentTrace, EvalTask
from mosaico.harness.budget import Budget, RunBudgetExhausted
from mosaico.harness.judge import JudgeError, JudgeScore, judge_system_prompt, read_score
from mosaico.harness.watched_llm import turn_within
from mosaico.llm.conversation import Llm, ToolResultBlock, Turn
from mosaico.llm.errors import LlmError
from mosaico.llm.prices import Price

SCALE: Final = 1
LONGEST_TRANSCRIPT: Final = 60_000  # characters


class BashJudge:
    """Asks a model to answer each `llm_judge` check of a task."""

    def __init__(self, llm: Llm, price: Price | None = None) -> None:
        self._llm = llm
        self._price = price

    async def judge(
        self, task: EvalTask, trace: AgentTrace, run_budget: Budget, *, timeout_s: float
    ) -> dict[str, JudgeScore]:
        """The score of each question, each within `timeout_s` seconds; the cost counts against
        `run_budget`.

        Raises: JudgeError when an answer is missing or not a valid score.
        """
        budget = Budget(price=self._price, parent=run_budget)
        checks = [split_check(expectation.check) for expectation in task.expectations]
        # A question that a task repeats is asked once.
        questions = dict.fromkeys(check.value for check in checks if check.name == "llm_judge")
        return {
            question: read_judge_score(
                await self._answer(judge_prompt(question, task, trace), budget, timeout_s),
                self._price,
            )
            for question in questions
        }

    async def close(self) -> None:
        """Close the connections of the model."""
        await self._llm.close()

    async def _answer(self, prompt: str, budget: Budget, timeout_s: float) -> Turn:
        try:
            return await turn_within(
                self._llm, judge_system_prompt(SCALE), prompt, timeout_s, budget
            )
        except RunBudgetExhausted as exhausted:
            raise JudgeError(f"the judge was not asked: {exhausted}") from None
        except LlmError as failure:
            reason = f"the judge did not answer: {failure.reason}"
            raise JudgeError(reason, is_final=failure.final) from None


def judge_prompt(question: str, task: EvalTask, trace: AgentTrace) -> str:
    """The question, the task and the transcript; a long transcript loses its middle."""
    text = cut_middle(transcript(trace), LONGEST_TRANSCRIPT)
    return (
        f"Question: {question}\n\n<<<task\n{task.prompt}\ntask>>>\n\n"
        f"<<<transcript\n{text}\ntranscript>>>"
    )


def transcript(trace: AgentTrace) -> str:
    """The texts, commands and outputs of a conversation as lines, without its first prompt."""
    lines = []
    for message in trace.messages[1:]:
        if message.text():
            lines.append(f"{message.role}: {message.text()}")
        lines += [f"$ {use.input.get('commands', use.input)}" for use in message.tool_uses()]
        lines += [block.content for block in message.content if isinstance(block, ToolResultBlock)]
    return "\n".join(lines)


def read_judge_score(turn: Turn, price: Price | None) -> JudgeScore:
    """The score in the answer of a judge, with its usage. Raises JudgeError."""
    usage = turn.usage
    return replace(
        read_score(turn.message.text(), SCALE),
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        cost_usd=price.of(usage) if price and usage else None,
    )
