"""What each provider and model family takes: one table for all clients. `make generate` writes it into docs/models.md.

A model is found by its name without the prefix of a vendor, so that `anthropic/claude-opus-5` of a
gateway is the same model. The name of an unknown model gets the last row of its API.

Sources, as of 28 November 2026: the docstrings of the SDKs of OpenAI 3.57 and Anthropic 2.14, and
the vendors' pages "Migrating to API version 2026-10-21", "Troubleshooting thinking", "Thinking
Mode" (DeepSeek), "Thought Signatures" (Gemini), "Reasoning Tokens" (OpenRouter).
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mosaico.llm.conversation import Provider, ReasoningEffort, ThinkingMode, TurnSettings

_E = ReasoningEffort
ALL_EFFORTS: Final = tuple(ReasoningEffort)
_OPENAI_APIS: Final = (Provider.OPENAI, Provider.OPENAI_RESPONSES)


class Sampling(StrEnum):
    """Whether a model takes `temperature` and `top_p`."""

    YES = "yes"
    # With reasoning such a model refuses them.
    WITHOUT_REASONING = "with effort `none`"
    NO = "no"


class Thinking(StrEnum):
    """The forms of thinking that the Messages API takes for a model."""

    ADAPTIVE = "adaptive"
    DISABLED = "disabled"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """The models with names of this `pattern` and what they take.

    `chat_takes_tools` is false when Chat Completions refuses tools with reasoning, so that they need
    the Responses API. `takes_images` is whether results of tools may hold images. `sent_back` is what the provider requires to get back in the next request.
    """

    name: str
    pattern: str
    providers: tuple[Provider, ...]
    sampling: Sampling = Sampling.YES
    efforts: tuple[ReasoningEffort, ...] = ()
    thinking: tuple[Thinking, ...] = ()
    chat_takes_tools: bool = True
    output_limit: str = "max_tokens"
    has_encrypted_reasoning: bool = False
    takes_images: bool = False
    caching: str = "automatic"
    sent_back: str = "–"


def _openai(
    name: str,
    pattern: str,
    *,
    sampling: Sampling = Sampling.NO,
    efforts: tuple[ReasoningEffort, ...] = (),
    chat_takes_tools: bool = True,
    takes_images: bool = True,
) -> ModelFamily:
    """A family of OpenAI's own models; those that reason have encrypted reasoning items."""
    return ModelFamily(
        name=name,
        pattern=pattern,
        providers=_OPENAI_APIS,
        sampling=sampling,
        efforts=efforts,
        chat_takes_tools=chat_takes_tools,
        takes_images=takes_images,
        output_limit="max_completion_tokens",
        has_encrypted_reasoning=bool(efforts),
        sent_back="reasoning items with `encrypted_content`, `phase`" if efforts else "–",
    )


def _claude(
    name: str,
    pattern: str,
    thinking: tuple[Thinking, ...],
    efforts: tuple[ReasoningEffort, ...],
) -> ModelFamily:
    return ModelFamily(
        name=name,
        pattern=pattern,
        providers=tuple(Provider),
        # Since version 2026-10-21 of the API, which the SDK sends, for all models.
        sampling=Sampling.NO,
        efforts=efforts,
        thinking=thinking,
        takes_images=True,
        caching="`prompt_cache`",
        sent_back="`thinking` and `redacted_thinking` blocks with signatures",
    )


def _chat(
    name: str,
    pattern: str,
    *,
    sampling: Sampling = Sampling.YES,
    efforts: tuple[ReasoningEffort, ...] = ALL_EFFORTS,
    takes_images: bool = False,
    sent_back: str,
) -> ModelFamily:
    """A family of models that others serve with OpenAI's API."""
    return ModelFamily(
        name=name,
        pattern=pattern,
        providers=_OPENAI_APIS,
        sampling=sampling,
        efforts=efforts,
        has_encrypted_reasoning=True,
        takes_images=takes_images,
        sent_back=sent_back,
    )


_CLAUDE_EFFORTS: Final = (_E.LOW, _E.MEDIUM, _E.HIGH, _E.XHIGH, _E.MAX)
_GPT_EFFORTS: Final = (_E.NONE, _E.LOW, _E.MEDIUM, _E.HIGH, _E.XHIGH)
_REASONING_CONTENT: Final = "`reasoning_content` of messages with tool calls"

# The first match counts.
FAMILIES: Final = (
    _claude(
        "Claude up to 4.5",
        r"claude-(3.*|(opus|sonnet)-4([-.]1|)(-20\d+)?|(opus|sonnet|haiku)-4[-.]5.*)",
        (Thinking.DISABLED, Thinking.BUDGET),
        (_E.LOW, _E.MEDIUM, _E.HIGH),
    ),
    _claude(
        "Claude 4.6",
        r"claude-(opus|sonnet)-4[-.]6.*",
        (Thinking.ADAPTIVE, Thinking.DISABLED, Thinking.BUDGET),
        (_E.LOW, _E.MEDIUM, _E.HIGH, _E.MAX),
    ),
    _claude(
        "Claude Fable, Mythos", r"claude-(fable|mythos).*", (Thinking.ADAPTIVE,), _CLAUDE_EFFORTS
    ),
    _claude(
        "Claude 4.7 and later",
        r"claude-.*",
        (Thinking.ADAPTIVE, Thinking.DISABLED),
        _CLAUDE_EFFORTS,
    ),
    _openai("GPT-4o, 4.1", r"(gpt-4(o|\.1|-turbo).*|chatgpt-.*)", sampling=Sampling.YES),
    _openai("GPT-3.5, 4", r"gpt-(3\.5|4).*", sampling=Sampling.YES, takes_images=False),
    _openai(
        "o1, o3, o4-mini",
        r"o[134](-.*)?",
        efforts=(_E.LOW, _E.MEDIUM, _E.HIGH),
        takes_images=False,  # o3-mini and o1-mini do not
    ),
    _openai(
        "GPT-5, 5 mini, 5 nano",
        r"gpt-5(-.*)?",
        efforts=(_E.MINIMAL, _E.LOW, _E.MEDIUM, _E.HIGH),
    ),
    _openai(
        "GPT-5.1",
        r"gpt-5\.1(-.*)?",
        sampling=Sampling.WITHOUT_REASONING,
        efforts=(_E.NONE, _E.LOW, _E.MEDIUM, _E.HIGH),
    ),
    _openai(
        "GPT-5.2, 5.3",
        r"gpt-5\.[23](-.*)?",
        sampling=Sampling.WITHOUT_REASONING,
        efforts=_GPT_EFFORTS,
    ),
    _openai(
        "GPT-5.4, 5.5",
        r"gpt-5\.[45](-.*)?",
        sampling=Sampling.WITHOUT_REASONING,
        efforts=_GPT_EFFORTS,
        chat_takes_tools=False,
    ),
    _openai(
        "GPT-5.6 and later",
        r"gpt-(5\.[6-9]|[6-9]|\d\d).*",
        efforts=(*_GPT_EFFORTS, _E.MAX),
        chat_takes_tools=False,
    ),
    _chat(
        "Gemini",
        r"gemini-.*",
        takes_images=True,
        sent_back="`tool_calls[].extra_content.google.thought_signature`",
    ),
    # Sampling is ignored in silence while a model of DeepSeek thinks, and low is taken as high.
    _chat(
        "DeepSeek V3.2, V4, reasoner",
        r"deepseek-(v3\.2|v4|reasoner).*",
        sampling=Sampling.NO,
        efforts=(_E.HIGH, _E.MAX),
        sent_back=_REASONING_CONTENT,
    ),
    _chat("Kimi, GLM, Qwen", r"(kimi|moonshot|glm|qwen).*", sent_back=_REASONING_CONTENT),
    ModelFamily(
        name="other models, Messages API",
        pattern=r".*",
        providers=(Provider.ANTHROPIC,),
        # The parameters do not exist in the SDK any more.
        sampling=Sampling.NO,
        efforts=_CLAUDE_EFFORTS,
        thinking=tuple(Thinking),
        caching="`prompt_cache`",
        sent_back="`thinking` blocks",
    ),
    _chat(
        "other models, OpenAI's APIs",
        r".*",
        sent_back="`reasoning_details`, `reasoning_content` or `reasoning`, whichever came",
    ),
)


def family_of(provider: Provider, model: str) -> ModelFamily:
    """The family of a model as this API serves it."""
    name = model.lower().rpartition("/")[2].partition(":")[0]
    return next(
        family
        for family in FAMILIES
        if provider in family.providers and re.fullmatch(family.pattern, name)
    )


def api_for(provider: Provider, model: str, settings: TurnSettings) -> Provider:
    """The API to call: Responses instead of Chat Completions for a model of OpenAI that takes tools
    with reasoning only there.

    A name with the prefix of a vendor is that of a gateway, which translates its requests itself.
    """
    is_named_by_openai = "/" not in model
    if (
        provider is Provider.OPENAI
        and is_named_by_openai
        and settings.reasoning_effort is not ReasoningEffort.NONE
        and not family_of(provider, model).chat_takes_tools
    ):
        return Provider.OPENAI_RESPONSES
    return provider


def takes_images(provider: Provider, model: str, settings: TurnSettings) -> bool:
    """Return whether results of tools may hold images for this model; a script sees none."""
    if provider is Provider.SCRIPTED:
        return False
    return family_of(api_for(provider, model, settings), model).takes_images


def output_limit_name(model: str, *, is_own_server: bool) -> str:
    """The field of Chat Completions for the limit of output tokens.

    Models of OpenAI know the new name only, behind a proxy too; compatible servers know the old one.
    """
    if not is_own_server:
        return "max_completion_tokens"
    return family_of(Provider.OPENAI, model).output_limit


def unsupported_reason(provider: Provider, model: str, settings: TurnSettings) -> str | None:
    """Return the reason why a model does not take an option, with the names of both; None when it
    takes all. A script takes any.
    """
    if provider is Provider.SCRIPTED:
        return None
    api = api_for(provider, model, settings)
    family = family_of(api, model)
    checks = (
        _sampling_reason(family, settings),
        _one_of("reasoning effort", settings.reasoning_effort, _efforts(api, family)),
        _thinking_reason(api, family, settings),
        _seed_reason(api, settings),
        _cache_reason(api, settings),
    )
    reason = next((reason for reason in checks if reason is not None), None)
    return reason and f"{model} does not take the option {reason}"


def _efforts(api: Provider, family: ModelFamily) -> tuple[ReasoningEffort, ...]:
    """The efforts of a family; gateways also translate `none` for models with a thinking mode."""
    is_translated = api is not Provider.ANTHROPIC and bool(family.thinking)
    return (ReasoningEffort.NONE, *family.efforts) if is_translated else family.efforts


def _sampling_reason(family: ModelFamily, settings: TurnSettings) -> str | None:
    if settings.temperature is None or family.sampling is Sampling.YES:
        return None
    if family.sampling is Sampling.NO:
        return "temperature (nor top_p); omit it"
    if settings.reasoning_effort is ReasoningEffort.NONE:
        return None
    return "temperature while it reasons; omit it, or set the reasoning effort to none"


def _thinking_reason(api: Provider, family: ModelFamily, settings: TurnSettings) -> str | None:
    budget, limit = settings.thinking_tokens, settings.max_output_tokens
    if settings.thinking is None and budget is None:
        return None
    if api is not Provider.ANTHROPIC:
        option = "thinking" if budget is None else "thinking tokens"
        return f"{option} with the API {api}; set a reasoning effort"
    if settings.thinking is not None and budget is not None:
        return "thinking together with thinking tokens; omit one of them"
    if budget is not None and Thinking.BUDGET not in family.thinking:
        return "thinking tokens; use thinking: adaptive, with a reasoning effort"
    if budget is not None and limit is not None and limit <= budget:
        return "thinking tokens without room for an answer: they must be below max output tokens"
    modes = [mode for mode in ThinkingMode if Thinking(mode.value) in family.thinking]
    reason = _one_of("thinking", settings.thinking, modes)
    has_budget = Thinking.BUDGET in family.thinking
    return f"{reason}, or thinking tokens" if reason and has_budget else reason


def _seed_reason(api: Provider, settings: TurnSettings) -> str | None:
    if settings.seed is None or api is Provider.OPENAI:
        return None
    return f"seed with the API {api}; omit it"


def _cache_reason(api: Provider, settings: TurnSettings) -> str | None:
    if settings.prompt_cache is None or api is Provider.ANTHROPIC:
        return None
    return f"prompt cache with the API {api}, which caches by itself; omit it"


def _one_of(option: str, choice: StrEnum | None, choices: Collection[StrEnum]) -> str | None:
    if choice is None or choice in choices:
        return None
    if not choices:
        return f"{option}; omit it"
    return f"{option} {choice}; it takes {', '.join(choices)}"
