"""The rows of the conventions that many libraries follow, and of the libraries that instrument others."""

from typing import Final

from mosaico.traces.otel.convention_row import Convention, SpanKind, kinds, numbers
from mosaico.traces.otel.encodings import (
    arguments_of_call,
    completion,
    completion_texts,
    first_candidate,
    inside,
    prompt,
    result_of_call,
    usage_document,
)
from mosaico.traces.otel.message_events import (
    answer_in_request,
    answered_in_events,
    answered_messages,
    asked_in_events,
    asked_messages,
    conversation_in_events,
)
from mosaico.traces.otel.places import (
    Place,
    attribute,
    attributes,
    event_attribute,
    indexed,
    read_number,
)
from mosaico.traces.otel.spans import Span

OPERATION: Final = "gen_ai.operation.name"
DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"

OPENINFERENCE: Final = Convention(
    kinds={
        attribute("openinference.span.kind"): kinds(
            model="LLM",
            embedding="EMBEDDING",
            tool="TOOL",
            evaluator="EVALUATOR",
            other="AGENT CHAIN RETRIEVER RERANKER GUARDRAIL PROMPT DECISION",
        )
    },
    input=(indexed("llm.input_messages."), indexed("llm.prompts.", completion_texts("prompt"))),
    output=(
        indexed("llm.output_messages."),
        indexed("llm.choices.", completion_texts("completion")),
    ),
    input_tokens=numbers("llm.token_count.prompt"),
    output_tokens=numbers("llm.token_count.completion"),
    cache_read=numbers("llm.token_count.prompt_details.cache_read"),
    cache_write=numbers("llm.token_count.prompt_details.cache_write"),
    total_tokens=numbers("llm.token_count.total"),
    cost=numbers("llm.cost.total"),
    model=attributes("llm.model_name"),
    provider=attributes("llm.provider", "llm.system"),
    session=attributes("session.id"),
    user=attributes("user.id"),
    tool_name=attributes("tool.name"),
    tool_call_id=attributes("tool_call.id", "tool.id"),
)


def _agent_of_azure(span: Span) -> str | None:
    """An agent that runs in Azure is one call of the client, which has no spans below it."""
    return "call" if span.attributes.get(OPERATION) == "invoke_agent" else None


GENAI: Final = Convention(
    kinds={
        Place("az.namespace", _agent_of_azure): {"call": SpanKind.LIKELY_MODEL},
        attribute(OPERATION): kinds(
            # Behind the three of the conventions: those of Semantic Kernel, LiteLLM, Azure and Gemini CLI.
            model="chat text_completion generate_content chat.completions text.completions text_completions completion"
            " acompletion atext_completion generate responses aresponses response llm_call realtime",
            embedding="embeddings embedding aembedding",
            tool="execute_tool tool_call",
            other="invoke_agent create_agent invoke_workflow plan retrieval agent_step execute_task handoff framework chain"
            " agent_call user_prompt system_prompt speech transcription rerank goto vector_db_retrieve image audio"
            " fetch_response get_thread_run search_memory create_memory handle_conversation_turn",
        ),
    },
    input=(
        attribute("gen_ai.input.messages"),
        event_attribute(DETAILS_EVENT, "gen_ai.input.messages"),
        event_attribute("gen_ai.input.messages", "gen_ai.event.content"),  # Azure AI Projects
        asked_messages(),
        event_attribute("gen_ai.content.prompt", "gen_ai.prompt", prompt),
        indexed("gen_ai.prompt."),
        attribute("gen_ai.prompt", prompt),
    ),
    output=(
        attribute("gen_ai.output.messages", first_candidate),
        event_attribute(DETAILS_EVENT, "gen_ai.output.messages", first_candidate),
        event_attribute("gen_ai.output.messages", "gen_ai.event.content"),
        answered_messages(),
        event_attribute("gen_ai.content.completion", "gen_ai.completion", completion),
        indexed("gen_ai.completion."),
        attribute("gen_ai.completion", completion),
    ),
    input_tokens=numbers(
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "gen_ai.response.prompt_tokens",  # Semantic Kernel, −1 for unknown
    ),
    output_tokens=numbers(
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "gen_ai.response.completion_tokens",
    ),
    cache_read=numbers(
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.cached_input_tokens",
    ),
    cache_write=numbers(
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
    ),
    total_tokens=numbers("gen_ai.usage.total_tokens", "llm.usage.total_tokens"),
    # OpenLIT writes 0 for a model whose price it does not know.
    cost=(
        *numbers("operation.cost"),
        attribute("gen_ai.usage.cost", lambda value: read_number(value) or None),
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
        attribute("gen_ai.prompt", inside("input")),  # LangSmith
    ),
    tool_result=(
        *attributes(
            "gen_ai.tool.call.result", "gen_ai.tool.output", "anthropic.tool_result.content"
        ),
        event_attribute("gen_ai.choice", "message"),
        attribute("gen_ai.completion", inside("output")),
    ),
)

TRACELOOP: Final = Convention(
    kinds={
        attribute("llm.request.type"): kinds(
            model="chat completion", embedding="embedding", other="rerank"
        ),
        attribute("traceloop.span.kind"): kinds(tool="tool", other="agent workflow task"),
    },
    session=attributes(
        *(
            f"traceloop.association.properties.{key}"
            for key in ("session_id", "conversation_id", "thread_id")
        )
    ),
    user=attributes("traceloop.association.properties.user_id", "llm.user"),
    tool_name=attributes("traceloop.entity.name"),
)

LOGFIRE: Final = Convention(
    input=(
        attribute("events", asked_in_events),
        attribute("all_messages_events", asked_in_events),
        *(attribute("request_data", inside(name)) for name in ("messages", "input", "prompt")),
    ),
    output=(
        attribute("events", answered_in_events),
        attribute("all_messages_events", conversation_in_events),
        *(
            attribute("response_data", inside(name))
            for name in ("message", "combined_chunk_content", "text")
        ),
        answer_in_request(),
    ),
    usage=(attribute("response_data", inside("usage", of=usage_document)),),
)

# Attributes that can hold any value, such as the arguments of a function.
VALUES: Final = Convention(
    input=(
        *(
            attribute(name, arguments_of_call)
            for name in ("input.value", "traceloop.entity.input", "langfuse.trace.input")
        ),
        *attributes("lmnr.span.input", "input"),
    ),
    output=(
        attribute("output.value", result_of_call),
        attribute("traceloop.entity.output", result_of_call),
        *attributes("langfuse.trace.output", "lmnr.span.output", "output"),
    ),
    tool_arguments=(
        attribute("input.value", arguments_of_call),
        attribute("traceloop.entity.input", arguments_of_call),
        attribute("input"),
    ),
    tool_result=attributes("output.value", "traceloop.entity.output", "output"),
)
