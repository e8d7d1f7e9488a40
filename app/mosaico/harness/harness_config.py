"""The harness settings of a benchmark: bash tasks, an ot-bench file, or an agent of the operator."""

from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from mosaico.core.schemas import HttpUrl, ShortText, WireModel
from mosaico.harness.limits import DEFAULT_TOOL_CHARS, BudgetLimits
from mosaico.llm.conversation import (
    PromptCache,
    Provider,
    ReasoningEffort,
    ThinkingMode,
    TurnSettings,
)
from mosaico.llm.model_families import unsupported_reason
from mosaico.llm.prices import Price

MCP_SUFFIXES: Final = (".yaml", ".yml")
# The API takes at least 1024; the answer needs room below the 21,333 tokens of one response.
MIN_THINKING_TOKENS: Final = 1_024
MAX_THINKING_TOKENS: Final = 20_000
Patterns = Annotated[list[ShortText], Field(max_length=100)]
ThinkingTokens = Annotated[int, Field(ge=MIN_THINKING_TOKENS, le=MAX_THINKING_TOKENS)]


class ModelPrice(WireModel):
    """US dollars per million input and output tokens; without their own price cached input tokens
    cost as much as others.
    """

    input_usd: Annotated[float, Field(ge=0, le=1e6)]
    output_usd: Annotated[float, Field(ge=0, le=1e6)]
    cached_input_usd: Annotated[float, Field(ge=0, le=1e6)] | None = Field(
        default=None, description="US dollars per million input tokens read from a cache."
    )
    cache_write_usd: Annotated[float, Field(ge=0, le=1e6)] | None = Field(
        default=None, description="US dollars per million input tokens written to a cache."
    )

    def price(self) -> Price:
        return Price(
            input_usd=self.input_usd,
            output_usd=self.output_usd,
            cached_input_usd=self.cached_input_usd,
            cache_write_usd=self.cache_write_usd,
        )


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
    thinking: ThinkingMode | None = Field(
        default=None, description="Whether the model thinks (Anthropic only)."
    )
    thinking_tokens: ThinkingTokens | None = Field(
        default=None,
        description="Budget of thinking tokens per answer (models of Anthropic up to 4.6).",
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        default=None, description="Seed of the sampling (OpenAI Chat Completions only)."
    )
    prompt_cache: PromptCache | None = Field(
        default=None,
        description="How long the provider caches the beginning of a conversation (Anthropic only).",
    )

    def turn_settings(self) -> TurnSettings:
        return TurnSettings.of(self)


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


class BashHarnessSettings(RunBudget, ModelSettings):
    """The harness settings of a bash benchmark: the model, its limits, and its judge.

    API keys belong to the operator and are never part of a benchmark; a `baseUrl` is called without
    them.
    """

    provider: Provider
    model: ShortText
    base_url: Annotated[HttpUrl, Field(max_length=1000)] | None = None
    judge_model: ShortText | None = Field(
        default=None, description="Model of the same provider that scores the llm_judge checks."
    )
    categories: Annotated[list[ShortText], Field(max_length=100)] = Field(
        default_factory=list, description="Run only the tasks of these categories; empty: all."
    )
    trials: Annotated[int, Field(ge=1, le=100)] = 1
    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    max_turns: Annotated[int, Field(ge=1, le=100)] = 10
    tool_chars: Annotated[int, Field(ge=100, le=1_000_000)] = Field(
        default=DEFAULT_TOOL_CHARS,
        description="Characters of the output of one bash call that the model reads; a mark replaces the rest.",
    )
    task_seconds: Annotated[float, Field(gt=0, le=3600)] = 600.0
    task_tokens: Annotated[int, Field(ge=1)] | None = None
    price: ModelPrice | None = Field(
        default=None, description="Price of the model; without it costs are unknown."
    )
    judge_price: ModelPrice | None = Field(
        default=None,
        description="Price of the judge (default: `price` when the judge is the same model).",
    )

    @model_validator(mode="after")
    def _require_price(self) -> Self:
        if self.run_usd is None:
            return self
        if self.price is None:
            raise ValueError("runUsd needs a price; set price")
        if self.judge_model is not None and self.price_of_judge() is None:
            raise ValueError("runUsd needs the price of the judge; set judgePrice")
        return self

    def price_of_judge(self) -> ModelPrice | None:
        """The price of the judge; None when it is unknown."""
        own = self.price if self.judge_model == self.model else None
        return self.judge_price or own


class McpHarnessSettings(RunBudget, ModelSettings):
    """The harness settings of an ot-bench benchmark: which tasks run, and how often.

    The benchmark file defines servers, tasks, limits and model servers. Only the operator provides
    files, because they name programs to start.
    """

    model: ShortText | None = Field(
        default=None,
        description="Run every task with this model instead of the models of the file.",
    )
    scenarios: Patterns = Field(
        default_factory=list,
        description="Run only scenarios with one of these names or patterns; empty: all.",
    )
    tasks: Patterns = Field(
        default_factory=list,
        description="Run only tasks with one of these names or patterns; empty: all.",
    )
    tags: Patterns = Field(
        default_factory=list, description="Run only tasks with one of these tags; empty: all."
    )
    trials: Annotated[int, Field(ge=1, le=100)] = 1
    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    strict: bool = Field(
        default=False,
        description="Fail the run when a task cannot run, instead of recording an error for the task.",
    )
    prices: Annotated[dict[ShortText, ModelPrice], Field(max_length=100)] = Field(
        default_factory=dict,
        description="Price per model; the cost of a model without a price is unknown.",
    )


AnyHarnessSettings: TypeAlias = BashHarnessSettings | McpHarnessSettings | AgentHarnessSettings


def parse_harness(document: Any) -> AnyHarnessSettings:
    """Settings with a provider are those of bash tasks, with a command those of an agent.

    Raises: ValidationError.
    """
    if isinstance(document, AnyHarnessSettings):
        return document
    # A union of the models would report the errors of all of them for every mistake.
    keys = document.keys() if isinstance(document, dict) else {"provider"}
    if "command" in keys:
        return AgentHarnessSettings.model_validate(document)
    model = BashHarnessSettings if "provider" in keys else McpHarnessSettings
    return model.model_validate(document)


HarnessConfig: TypeAlias = Annotated[AnyHarnessSettings, BeforeValidator(parse_harness)]


def validate_harness(dataset_ref: str | None, settings: AnyHarnessSettings) -> str | None:
    """Return the reason why the settings do not match the dataset, or have an option that the model
    does not take; None when they do not.

    Not a rule of the settings themselves: stored ones must be readable when models change.
    """
    if isinstance(settings, BashHarnessSettings):
        reason = unsupported_reason(settings.provider, settings.model, settings.turn_settings())
        if reason is not None:
            return reason
    if dataset_ref is None or isinstance(settings, AgentHarnessSettings):
        return None
    is_mcp_file = dataset_ref.endswith(MCP_SUFFIXES)
    if is_mcp_file == isinstance(settings, McpHarnessSettings):
        return None
    if is_mcp_file:
        return (
            f"{dataset_ref} names its own models; remove provider and its options, write {{}} or"
            ' {"model": …, "trials": …}'
        )
    return 'name the model for these tasks as {"provider": …, "model": …}'
