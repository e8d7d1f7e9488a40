"""Where each convention writes the fields of a span: the table that `span_reader` follows.

To add a framework: a row here, and a fixture in `tests/data/otel`. The rows are in the order of precedence: what a library
writes under its own names comes before the conventions that it also follows, and values of any kind come last. Within
a row the first place that is filled counts. Facts by version: docs/otel.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple

from mosaico.traces.messages import REDACTED
from mosaico.traces.otel.framework_documents import (
    answer_in_request,
    completion_texts,
    component_kind,
    crew_usage,
    haystack_agent_usage,
    haystack_replies,
    haystack_usage,
    llama_event,
    llama_usage,
    named_texts,
    pipeline_answer,
    pipeline_question,
)
from mosaico.traces.otel.places import (
    DETAILS_EVENT,
    Place,
    Where,
    answered_in_events,
    answered_messages,
    arguments_of_call,
    asked_in_events,
    asked_messages,
    attribute,
    attributes,
    completion,
    event_attribute,
    event_presence,
    gemini_contents,
    gemini_usage,
    indexed,
    inside,
    new_messages,
    presence,
    prompt_document,
    read_number,
    result_of_call,
    tool_calls,
    total_or_sum,
    unquoted_messages,
    usage_document,
    usage_of_tokens,
)


class SpanKind(StrEnum):
    """The kind of operation that a span records."""

    MODEL = "model"
    EMBEDDING = "embedding"
    TOOL = "tool"
    EVALUATOR = "evaluator"
    OTHER = "other"
    # Nothing says its kind, and it has a model and tokens: a call of the model, or a wrapper with its sums.
    LIKELY_MODEL = "likely model"


MODEL, EMBEDDING, TOOL, EVALUATOR, OTHER, LIKELY_MODEL = SpanKind

OPERATION: Final = "gen_ai.operation.name"
# The place of a kind that only the name of a span tells.
SPAN_NAME: Final = Place("", lambda span: span.name, Where.SPAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """Where one convention writes each field.

    `kinds` are the values of an attribute that say the kind of a span. `usage` are documents with all tokens of a call. `input_tokens` may or may not contain the tokens of caches;
    `EXCLUSIVE_INPUTS` says which. `reasoning_on_top` are output tokens that the output count lacks.
    """

    name: str
    kinds: Mapping[Place, Mapping[str, SpanKind]] = field(default_factory=dict)
    input: tuple[Place, ...] = ()
    output: tuple[Place, ...] = ()
    usage: tuple[Place, ...] = ()
    input_tokens: tuple[Place, ...] = ()
    output_tokens: tuple[Place, ...] = ()
    reasoning_on_top: tuple[Place, ...] = ()
    cache_read: tuple[Place, ...] = ()
    cache_write: tuple[Place, ...] = ()
    total_tokens: tuple[Place, ...] = ()
    cost: tuple[Place, ...] = ()
    model: tuple[Place, ...] = ()
    provider: tuple[Place, ...] = ()
    session: tuple[Place, ...] = ()
    user: tuple[Place, ...] = ()
    tool_name: tuple[Place, ...] = ()
    tool_call_id: tuple[Place, ...] = ()
    tool_arguments: tuple[Place, ...] = ()
    tool_result: tuple[Place, ...] = ()


def _kinds(**values: SpanKind) -> Mapping[str, SpanKind]:
    return values


def _numbers(*names: str) -> tuple[Place, ...]:
    return tuple(attribute(name, read_number) for name in names)


def _metric(name: str) -> Place:
    return attribute("braintrust.metrics", inside(name, of=read_number))


_PROVIDER_METADATA: Final = "ai.response.providerMetadata"

_LLAMA_CALLS: Final = (
    *("LLMChatStartEvent", "LLMChatEndEvent"),
    *("LLMCompletionStartEvent", "LLMCompletionEndEvent"),
)

CONVENTIONS: Final = (
    Convention(
        name="Langfuse SDK",
        kinds={
            attribute("langfuse.observation.type"): _kinds(
                generation=MODEL,
                embedding=EMBEDDING,
                tool=TOOL,
                evaluator=EVALUATOR,
                agent=OTHER,
                chain=OTHER,
                retriever=OTHER,
                guardrail=OTHER,
            ),
            # Of experiments of the SDK.
            SPAN_NAME: {"experiment-item-evaluation": EVALUATOR},
        },
        input=(attribute("langfuse.observation.input", arguments_of_call),),
        output=attributes("langfuse.observation.output"),
        usage=(attribute("langfuse.observation.usage_details", usage_document),),
        cost=(attribute("langfuse.observation.cost_details", total_or_sum),),
        model=attributes("langfuse.observation.model.name"),
        session=attributes("langfuse.session.id"),
        user=attributes("langfuse.user.id"),
        tool_arguments=(attribute("langfuse.observation.input", arguments_of_call),),
        tool_result=attributes("langfuse.observation.output"),
    ),
    Convention(
        name="Genkit",
        kinds={
            attribute("genkit:metadata:subtype"): {
                "model": MODEL,
                "background-model": MODEL,
                "embedder": EMBEDDING,
                "tool": TOOL,
                "tool.v2": TOOL,
                "evaluator": EVALUATOR,
                "flow": OTHER,
                "retriever": OTHER,
            },
        },
        input=attributes("genkit:input"),
        output=attributes("genkit:output"),
        usage=(attribute("genkit:output", inside("usage", of=usage_of_tokens)),),
        model=attributes("genkit:name"),
        session=attributes("genkit:metadata:agent:sessionId"),
        tool_name=attributes("genkit:name"),
        tool_arguments=attributes("genkit:input"),
        tool_result=attributes("genkit:output"),
    ),
    Convention(
        name="Vercel AI SDK",
        kinds={
            attribute("ai.operationId"): {
                **{f"ai.{name}.doGenerate": MODEL for name in ("generateText", "generateObject")},
                **{f"ai.{name}.doStream": MODEL for name in ("streamText", "streamObject")},
                **{f"ai.{name}.doEmbed": EMBEDDING for name in ("embed", "embedMany")},
                **{
                    f"ai.{name}": OTHER for name in ("generateText", "generateObject", "streamText")
                },
                **{
                    f"ai.{name}": OTHER for name in ("streamObject", "embed", "embedMany", "rerank")
                },
                "ai.toolCall": TOOL,
            },
        },
        input=(attribute("ai.prompt.messages"), attribute("ai.prompt", prompt_document)),
        output=(
            *attributes(
                "ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"
            ),
            attribute("ai.response.toolCalls", tool_calls),
            attribute("ai.result.toolCalls", tool_calls),
        ),
        input_tokens=_numbers("ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),
        output_tokens=_numbers("ai.usage.outputTokens", "ai.usage.completionTokens"),
        cache_read=(
            *_numbers("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
            attribute(
                _PROVIDER_METADATA, inside("anthropic", "cacheReadInputTokens", of=read_number)
            ),
            attribute(
                _PROVIDER_METADATA,
                inside("anthropic", "usage", "cache_read_input_tokens", of=read_number),
            ),
        ),
        cache_write=(
            *_numbers("ai.usage.inputTokenDetails.cacheWriteTokens"),
            attribute(
                _PROVIDER_METADATA, inside("anthropic", "cacheCreationInputTokens", of=read_number)
            ),
        ),
        model=attributes("ai.response.model", "ai.model.id"),
        provider=attributes("ai.model.provider"),
        session=attributes("ai.telemetry.metadata.sessionId", "ai.settings.context.sessionId"),
        user=attributes("ai.telemetry.metadata.userId", "ai.settings.context.userId"),
        tool_name=attributes("ai.toolCall.name"),
        tool_call_id=attributes("ai.toolCall.id"),
        tool_arguments=attributes("ai.toolCall.args"),
        tool_result=attributes("ai.toolCall.result"),
    ),
    Convention(
        name="Google ADK",
        kinds={
            SPAN_NAME: {"execute_tool (merged tools)": OTHER},
            presence("gcp.vertex.agent.llm_request"): {"present": MODEL},
        },
        input=(attribute("gcp.vertex.agent.llm_request", gemini_contents),),
        output=(attribute("gcp.vertex.agent.llm_response", inside("content")),),
        usage=(
            attribute("gcp.vertex.agent.llm_response", inside("usage_metadata", of=gemini_usage)),
        ),
        reasoning_on_top=_numbers("gen_ai.usage.experimental.reasoning_tokens"),
        session=attributes("gcp.vertex.agent.session_id"),
        tool_arguments=attributes("gcp.vertex.agent.tool_call_args"),
        tool_result=attributes("gcp.vertex.agent.tool_response"),
    ),
    Convention(
        name="pydantic-ai",
        input=(new_messages("pydantic_ai.all_messages", "pydantic_ai.new_message_index"),),
        output=(
            attribute("final_result"),
            new_messages("pydantic_ai.all_messages", "pydantic_ai.new_message_index"),
        ),
        input_tokens=_numbers("gen_ai.aggregated_usage.input_tokens"),
        output_tokens=_numbers("gen_ai.aggregated_usage.output_tokens"),
        model=attributes("model_name"),
        tool_arguments=attributes("tool_arguments"),
        tool_result=attributes("tool_response"),
    ),
    Convention(
        name="MLflow",
        kinds={
            attribute("mlflow.spanType"): _kinds(
                LLM=MODEL,
                CHAT_MODEL=MODEL,
                EMBEDDING=EMBEDDING,
                TOOL=TOOL,
                EVALUATOR=EVALUATOR,
                AGENT=OTHER,
                CHAIN=OTHER,
                RETRIEVER=OTHER,
                PARSER=OTHER,
                RERANKER=OTHER,
            ),
        },
        input=(attribute("mlflow.spanInputs", arguments_of_call),),
        output=attributes("mlflow.spanOutputs"),
        usage=(
            attribute("mlflow.chat.tokenUsage", usage_document),
            attribute("mlflow.trace.tokenUsage", usage_document),
        ),
        cost=(attribute("mlflow.llm.cost", inside("total_cost", of=read_number)),),
        model=attributes("mlflow.llm.model"),
        tool_arguments=(attribute("mlflow.spanInputs", arguments_of_call),),
        tool_result=attributes("mlflow.spanOutputs"),
    ),
    Convention(
        name="LangSmith",
        kinds={
            # A template of a prompt has the operation `chat`, a retriever `embeddings`.
            attribute("langsmith.span.kind"): _kinds(
                llm=MODEL,
                embedding=EMBEDDING,
                tool=TOOL,
                chain=OTHER,
                prompt=OTHER,
                retriever=OTHER,
                parser=OTHER,
            ),
        },
        usage=(attribute("langsmith.usage_metadata", usage_document),),
        cost=(attribute("langsmith.usage_metadata", inside("total_cost", of=read_number)),),
        # `langsmith.trace.session_id` is a project.
        session=attributes(
            "langsmith.metadata.session_id",
            "langsmith.metadata.thread_id",
            "langsmith.metadata.conversation_id",
        ),
        user=attributes("langsmith.metadata.user_id"),
    ),
    Convention(
        name="Claude Code",
        kinds={
            attribute("span.type"): {
                "claude_code.llm_request": MODEL,
                "claude_code.tool": TOOL,
                "claude_code.tool.execution": OTHER,
                "claude_code.tool.blocked_on_user": OTHER,
                "claude_code.interaction": OTHER,
            },
        },
        input=attributes("user_prompt", "new_context"),
        output=attributes("response.model_output"),
        input_tokens=_numbers("input_tokens"),
        output_tokens=_numbers("output_tokens"),
        cache_read=_numbers("cache_read_tokens"),
        cache_write=_numbers("cache_creation_tokens"),
        tool_name=attributes("tool_name"),
        tool_arguments=attributes("tool_input"),
    ),
    Convention(
        name="Haystack",
        kinds={
            SPAN_NAME: {
                "haystack.agent.step.llm": MODEL,
                "haystack.agent.step.tool": TOOL,
                "haystack.agent.run": OTHER,
                "haystack.agent.step": OTHER,
            },
            attribute("haystack.component.type", component_kind): {
                "Generator": MODEL,
                "Embedder": EMBEDDING,
            },
        },
        input=(
            *attributes("haystack.agent.step.llm.input", "haystack.agent.input"),
            *attributes("haystack.component.input"),
            attribute("haystack.pipeline.input_data", pipeline_question),
        ),
        output=(
            attribute("haystack.agent.step.llm.output", haystack_replies),
            attribute("haystack.agent.output"),
            attribute("haystack.component.output", haystack_replies),
            attribute("haystack.pipeline.output_data", pipeline_answer),
        ),
        usage=(
            attribute("haystack.agent.step.llm.output", haystack_usage),
            attribute("haystack.component.output", haystack_usage),
            haystack_agent_usage(),
        ),
        tool_name=attributes("haystack.tool.name"),
        tool_arguments=attributes("haystack.agent.step.tool.input"),
        tool_result=attributes("haystack.agent.step.tool.output"),
    ),
    Convention(
        name="Braintrust",
        kinds={
            attribute("braintrust.span_attributes", inside("type")): _kinds(
                llm=MODEL,
                tool=TOOL,
                score=EVALUATOR,
                task=OTHER,
                eval=OTHER,
            ),
        },
        input=attributes("braintrust.input_json"),
        output=attributes("braintrust.output_json"),
        input_tokens=(_metric("prompt_tokens"),),
        output_tokens=(_metric("completion_tokens"),),
        cache_read=(_metric("prompt_cached_tokens"),),
        cache_write=(_metric("prompt_cache_creation_tokens"),),
        total_tokens=(_metric("tokens"),),
        model=(attribute("braintrust.metadata", inside("model")),),
        tool_arguments=attributes("braintrust.input_json"),
        tool_result=attributes("braintrust.output_json"),
    ),
    Convention(
        name="CrewAI",
        # A crew has the sums of its calls.
        kinds={
            presence("crewai.crew.usage_metrics"): {"present": OTHER},
            presence("crewai.crew.token_usage"): {"present": OTHER},
        },
        input=attributes("crewai.crew.inputs", "crewai.task.description"),
        output=attributes("crewai.crew.output", "crewai.crew.result"),
        usage=(
            attribute("crewai.crew.usage_metrics", crew_usage),
            attribute("crewai.crew.token_usage", crew_usage),
        ),
    ),
    Convention(
        name="LlamaIndex",
        kinds={
            event_presence(*_LLAMA_CALLS): {"present": MODEL},
        },
        input=(
            llama_event("LLMChatStartEvent", "messages"),
            llama_event("LLMCompletionStartEvent", "prompt"),
            llama_event("QueryStartEvent", "query"),
        ),
        output=(
            llama_event("LLMChatEndEvent", "response"),
            llama_event("LLMCompletionEndEvent", "response.text"),
            llama_event("QueryEndEvent", "response.response"),
        ),
        usage=(llama_usage("LLMChatEndEvent"), llama_usage("LLMCompletionEndEvent")),
    ),
    Convention(
        name="OpenInference",
        kinds={
            attribute("openinference.span.kind"): _kinds(
                LLM=MODEL,
                EMBEDDING=EMBEDDING,
                TOOL=TOOL,
                EVALUATOR=EVALUATOR,
                AGENT=OTHER,
                CHAIN=OTHER,
                RETRIEVER=OTHER,
                RERANKER=OTHER,
                GUARDRAIL=OTHER,
                PROMPT=OTHER,
                DECISION=OTHER,
            ),
        },
        input=(
            indexed("llm.input_messages."),
            indexed("llm.prompts.", completion_texts("prompt")),
        ),
        output=(
            indexed("llm.output_messages."),
            indexed("llm.choices.", completion_texts("completion")),
        ),
        input_tokens=_numbers("llm.token_count.prompt"),
        output_tokens=_numbers("llm.token_count.completion"),
        cache_read=_numbers("llm.token_count.prompt_details.cache_read"),
        cache_write=_numbers("llm.token_count.prompt_details.cache_write"),
        total_tokens=_numbers("llm.token_count.total"),
        cost=_numbers("llm.cost.total"),
        model=attributes("llm.model_name"),
        provider=attributes("llm.provider", "llm.system"),
        session=attributes("session.id"),
        user=attributes("user.id"),
        tool_name=attributes("tool.name"),
        tool_call_id=attributes("tool_call.id", "tool.id"),
    ),
    Convention(
        name="frameworks that name kinds beside the conventions",
        kinds={
            attribute("spring.ai.kind"): _kinds(
                chat_model=MODEL, tool_call=TOOL, chat_client=OTHER, advisor=OTHER
            ),
            # Dify
            attribute("gen_ai.span.kind"): _kinds(
                LLM=MODEL,
                EMBEDDING=EMBEDDING,
                TOOL=TOOL,
                RETRIEVER=OTHER,
                TASK=OTHER,
                AGENT=OTHER,
                CHAIN=OTHER,
            ),
            attribute("lmnr.span.type"): _kinds(
                LLM=MODEL, TOOL=TOOL, DEFAULT=OTHER, EVALUATOR=EVALUATOR
            ),
        },
        session=attributes("spring.ai.chat.client.conversation.id"),
        tool_name=attributes("spring.ai.tool.definition.name"),
        tool_call_id=attributes("spring.ai.tool.call.id"),
        tool_arguments=attributes("spring.ai.tool.call.arguments"),
        tool_result=attributes("spring.ai.tool.call.result", "anthropic.tool_result.content"),
    ),
    Convention(
        name="GenAI conventions",
        kinds={
            attribute(OPERATION): {
                **dict.fromkeys(
                    (
                        "chat",
                        "text_completion",
                        "generate_content",
                        # Other words for the same, of Semantic Kernel, LiteLLM, Azure and Gemini CLI.
                        "chat.completions",
                        "text.completions",
                        "text_completions",
                        "completion",
                        "acompletion",
                        "atext_completion",
                        "generate",
                        "responses",
                        "aresponses",
                        "response",
                        "llm_call",
                        "realtime",
                    ),
                    MODEL,
                ),
                **dict.fromkeys(("embeddings", "embedding", "aembedding"), EMBEDDING),
                **dict.fromkeys(("execute_tool", "tool_call"), TOOL),
                **dict.fromkeys(
                    (
                        "invoke_agent",
                        "create_agent",
                        "invoke_workflow",
                        "plan",
                        "retrieval",
                        "agent_step",
                        "execute_task",
                        "handoff",
                        "framework",
                        "chain",
                        "agent_call",
                        "user_prompt",
                        "system_prompt",
                        "speech",
                        "transcription",
                        "rerank",
                        "goto",
                        "vector_db_retrieve",
                        "image",
                        "audio",
                        "fetch_response",
                        "get_thread_run",
                        "search_memory",
                        "create_memory",
                        "handle_conversation_turn",
                    ),
                    OTHER,
                ),
            },
        },
        input=(
            attribute("gen_ai.input.messages"),
            event_attribute(DETAILS_EVENT, "gen_ai.input.messages"),
            event_attribute("gen_ai.input.messages", "gen_ai.event.content"),  # Azure AI Projects
            asked_messages(),
            event_attribute("gen_ai.content.prompt", "gen_ai.prompt", unquoted_messages),
            indexed("gen_ai.prompt."),
            attribute("gen_ai.prompt", named_texts),
        ),
        output=(
            attribute("gen_ai.output.messages"),
            event_attribute(DETAILS_EVENT, "gen_ai.output.messages"),
            event_attribute("gen_ai.output.messages", "gen_ai.event.content"),
            answered_messages(),
            event_attribute("gen_ai.content.completion", "gen_ai.completion", unquoted_messages),
            indexed("gen_ai.completion."),
            attribute("gen_ai.completion", completion),
        ),
        input_tokens=_numbers(
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "gen_ai.response.prompt_tokens",  # Semantic Kernel, −1 for unknown
        ),
        output_tokens=_numbers(
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "gen_ai.response.completion_tokens",
        ),
        cache_read=_numbers(
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.cached_input_tokens",
        ),
        cache_write=_numbers(
            "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.cache_write_input_tokens",
        ),
        total_tokens=_numbers("gen_ai.usage.total_tokens", "llm.usage.total_tokens"),
        cost=_numbers(
            "operation.cost", "gen_ai.usage.cost", "gen_ai.cost.total_cost", "litellm.cost.total"
        ),
        model=attributes("gen_ai.response.model", "gen_ai.request.model"),
        provider=attributes("gen_ai.provider.name", "gen_ai.system"),
        session=attributes("gen_ai.conversation.id", "gen_ai.thread.id", "anthropic.session.id"),
        user=attributes("gen_ai.user.id", "enduser.id"),
        tool_name=attributes("gen_ai.tool.name"),
        tool_call_id=attributes("gen_ai.tool.call.id"),
        tool_arguments=(
            *attributes("gen_ai.tool.call.arguments", "gen_ai.tool.input"),
            event_attribute("gen_ai.tool.message", "content"),  # Strands
        ),
        tool_result=(
            *attributes("gen_ai.tool.call.result", "gen_ai.tool.output"),
            event_attribute("gen_ai.choice", "message"),
        ),
    ),
    Convention(
        name="traceloop",
        kinds={
            attribute("llm.request.type"): _kinds(
                chat=MODEL, completion=MODEL, embedding=EMBEDDING, rerank=OTHER
            ),
            attribute("traceloop.span.kind"): _kinds(tool=TOOL, agent=OTHER, workflow=OTHER),
        },
        session=attributes(
            *(
                f"traceloop.association.properties.{key}"
                for key in ("session_id", "conversation_id", "thread_id")
            )
        ),
        user=attributes("traceloop.association.properties.user_id", "llm.user"),
        tool_name=attributes("traceloop.entity.name"),
    ),
    Convention(
        name="logfire",
        input=(
            attribute("events", asked_in_events),
            attribute("all_messages_events", asked_in_events),
            attribute("request_data", inside("messages")),
        ),
        output=(
            attribute("events", answered_in_events),
            attribute("all_messages_events", answered_in_events),
            attribute("response_data", inside("message")),
            attribute("response_data", inside("combined_chunk_content")),
            answer_in_request(),
        ),
        usage=(attribute("response_data", inside("usage", of=usage_document)),),
    ),
    # Attributes that can hold any value, such as the arguments of a function.
    Convention(
        name="values of OpenInference, traceloop and others",
        input=(
            attribute("input.value", arguments_of_call),
            attribute("traceloop.entity.input", arguments_of_call),
            *attributes("lmnr.span.input", "lk.user_input", "langfuse.trace.input"),
        ),
        output=(
            attribute("output.value", result_of_call),
            attribute("traceloop.entity.output", result_of_call),
            *attributes("lmnr.span.output", "lk.response.text", "langfuse.trace.output"),
        ),
        tool_arguments=(
            attribute("input.value", arguments_of_call),
            attribute("traceloop.entity.input", arguments_of_call),
        ),
        tool_result=attributes("output.value", "traceloop.entity.output"),
    ),
)


class ExclusiveInput(NamedTuple):
    """A writer whose input tokens lack those of the cache: its scope, and where set the provider, the first version
    that counts them in, and an attribute that its spans have or lack.
    """

    scope: str
    provider: str = ""
    before: str = ""
    has: str = ""
    lacks: str = ""


# The same attributes mean the opposite in other libraries. Facts: sources of the libraries, November 2026.
EXCLUSIVE_INPUTS: Final = (
    ExclusiveInput("openlit", provider="anthropic"),
    ExclusiveInput("opentelemetry.instrumentation.botocore"),
    ExclusiveInput("opentelemetry.instrumentation.bedrock"),
    ExclusiveInput("opentelemetry.instrumentation.llamaindex", provider="anthropic"),
    ExclusiveInput("openinference.instrumentation.anthropic", before="0.1.14"),
    # The AI SDK before version 6.
    ExclusiveInput(
        "ai",
        provider="anthropic",
        has="ai.operationId",
        lacks="ai.usage.inputTokenDetails.noCacheTokens",
    ),
    ExclusiveInput("", has="cache_read_tokens"),  # Claude Code
)

# Spans with these names of tools are runs of tools, if nothing else says their kind.
TOOL_MARKS: Final = attributes("gen_ai.tool.name", "tool.name")
# Operations that repeat the tokens of other calls.
NEVER_BILLED: Final = frozenset({"create_agent", "fetch_response", "get_thread_run", "retrieval"})
# The root of the AI SDK before version 6 has the tokens of its last step alone, under the older names.
LAST_STEP_ONLY: Final = ("ai.operationId", "ai.generateText", "ai.usage.inputTokens")
# What says that a tool failed where the status of the span does not.
FAILED_TOOL: Final = (
    ("gen_ai.tool.status", "error"),
    ("gen_ai.tool.success", False),
    ("success", False),
)
FAILED_SPAN: Final = (("langfuse.observation.level", "ERROR"), ("genkit:state", "error"))
# What stands in place of a text that a switch of the library hides.
HIDDEN_MARKS: Final = frozenset({REDACTED, "[REDACTED]", "<REDACTED>", "<elided>"})


def _places_of(name: str) -> tuple[Place, ...]:
    return tuple(chain.from_iterable(getattr(row, name) for row in CONVENTIONS))


# The places of each field in all conventions, in the order of precedence.
PLACES: Final[Mapping[str, tuple[Place, ...]]] = {
    column.name: _places_of(column.name)
    for column in fields(Convention)
    if column.name not in ("name", "kinds")
}
KINDS: Final = tuple(chain.from_iterable(row.kinds.items() for row in CONVENTIONS))


def attribute_names(*field_names: str) -> list[str]:
    """The names of the attributes of some fields."""
    return [place.name for name in field_names for place in PLACES[name] if not place.is_event]
