"""Settings that the benchmarks of both harnesses share."""

from typing import Annotated, Final

from pydantic import Field

from app.core.schemas import ShortText, WireModel
from app.harness.budget import BudgetLimits
from app.llm.conversation import ReasoningEffort, TurnSettings
from app.llm.prices import Price

# The API takes at least 1024; the answer needs room below the 21,333 tokens of one response.
MIN_THINKING_TOKENS: Final = 1_024
MAX_THINKING_TOKENS: Final = 20_000
ThinkingTokens = Annotated[int, Field(ge=MIN_THINKING_TOKENS, le=MAX_THINKING_TOKENS)]


class ModelPrice(WireModel):
    """US dollars per million input and output tokens."""

    input_usd: Annotated[float, Field(ge=0, le=1e6)]
    output_usd: Annotated[float, Field(ge=0, le=1e6)]

    def price(self) -> Price:
        return Price(input_usd=self.input_usd, output_usd=self.output_usd)


class RunBudget(WireModel):
    """Limits of a whole run."""

    run_tokens: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Token limit of the run, judges included; no attempt starts after it is reached.",
    )
    run_usd: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Cost limit of the run in US dollars; needs prices."
    )

    def run_limits(self) -> BudgetLimits:
        return BudgetLimits(tokens=self.run_tokens, cost_usd=self.run_usd)


class ModelSettings(WireModel):
    """Parameters of the model requests; without a value that of the server applies."""

    max_output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    reasoning_effort: ReasoningEffort | None = Field(
        default=None, description="How long the model may think before it answers."
    )
    thinking_tokens: ThinkingTokens | None = Field(
        default=None, description="Budget of thinking tokens per answer (Anthropic only)."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        default=None, description="Seed of the sampling (OpenAI Chat Completions only)."
    )

    def turn_settings(self) -> TurnSettings:
        return TurnSettings(
            max_output_tokens=self.max_output_tokens,
            temperature=self.temperature,
            reasoning_effort=self.reasoning_effort,
            thinking_tokens=self.thinking_tokens,
            seed=self.seed,
        )


class AgentHarnessSettings(RunBudget):
    """The harness settings of a benchmark that runs an agent over its dataset.

    Only the operator allows commands on the workers, by name (MOSAICO_AGENT_COMMANDS): a benchmark
    never contains a command. The dataset is a file of the harness folder (`questions.csv`),
    `langfuse:NAME` for a dataset in the Langfuse project of the agent, or the name of an upload.
    """

    command: ShortText = Field(description="Name of a command in MOSAICO_AGENT_COMMANDS.")
    trials: Annotated[int, Field(ge=1, le=100)] = 1
    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    item_seconds: Annotated[float, Field(gt=0, le=3600)] = 600.0
