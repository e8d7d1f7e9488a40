"""The rows of frameworks in which agents are written."""

from typing import Final

from mosaico.traces.otel.convention_row import (
    SPAN_NAME,
    Convention,
    SpanKind,
    kinds,
    numbers,
)
from mosaico.traces.otel.encodings import (
    gemini_contents,
    inside,
    messages_alone,
    prompt_document,
    tool_calls,
    usage_document,
    usage_of_tokens,
)
from mosaico.traces.otel.framework_documents import (
    component_kind,
    crew_usage,
    haystack_agent_usage,
    haystack_replies,
    haystack_usage,
    llama_event,
    llama_usage,
    pipeline_answer,
    pipeline_question,
)
from mosaico.traces.otel.places import (
    Place,
    Where,
    attribute,
    attributes,
    event_presence,
    new_messages,
    presence,
    read_number,
)

GENKIT: Final = Convention(
    kinds={
        attribute("genkit:metadata:subtype"): kinds(
            model="model background-model",
            embedding="embedder",
            tool="tool tool.v2",
            evaluator="evaluator",
            other="flow retriever",
        )
    },
    input=attributes("genkit:input"),
    output=attributes("genkit:output"),
    usage=(attribute("genkit:output", inside("usage", of=usage_of_tokens)),),
    model=attributes("genkit:name"),
    session=attributes("genkit:metadata:agent:sessionId"),
    tool_name=attributes("genkit:name"),
    tool_arguments=attributes("genkit:input"),
    tool_result=attributes("genkit:output"),
)


def _provider_metadata(*path: str) -> Place:
    return attribute("ai.response.providerMetadata", inside(*path, of=read_number))


AI_SDK: Final = Convention(
    kinds={
        attribute("ai.operationId"): kinds(
            model="ai.generateText.doGenerate ai.generateObject.doGenerate ai.streamText.doStream ai.streamObject.doStream",
            embedding="ai.embed.doEmbed ai.embedMany.doEmbed",
            tool="ai.toolCall",
            other="ai.generateText ai.generateObject ai.streamText ai.streamObject ai.embed ai.embedMany ai.rerank",
        )
    },
    input=(attribute("ai.prompt.messages"), attribute("ai.prompt", prompt_document)),
    output=(
        *attributes("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"),
        attribute("ai.response.toolCalls", tool_calls),
        attribute("ai.result.toolCalls", tool_calls),
    ),
    input_tokens=numbers("ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),
    output_tokens=numbers("ai.usage.outputTokens", "ai.usage.completionTokens"),
    cache_read=(
        *numbers("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
        _provider_metadata("anthropic", "cacheReadInputTokens"),
        _provider_metadata("anthropic", "usage", "cache_read_input_tokens"),
    ),
    cache_write=(
        *numbers("ai.usage.inputTokenDetails.cacheWriteTokens"),
        _provider_metadata("anthropic", "cacheCreationInputTokens"),
    ),
    model=attributes("ai.response.model", "ai.model.id"),
    provider=attributes("ai.model.provider"),
    session=attributes("ai.telemetry.metadata.sessionId", "ai.settings.context.sessionId"),
    user=attributes("ai.telemetry.metadata.userId", "ai.settings.context.userId"),
    tool_name=attributes("ai.toolCall.name"),
    tool_call_id=attributes("ai.toolCall.id"),
    tool_arguments=attributes("ai.toolCall.args"),
    tool_result=attributes("ai.toolCall.result"),
)

GOOGLE_ADK: Final = Convention(
    kinds={
        SPAN_NAME: {"execute_tool (merged tools)": SpanKind.OTHER},
        presence("gcp.vertex.agent.llm_request"): kinds(model="present"),
    },
    input=(attribute("gcp.vertex.agent.llm_request", gemini_contents),),
    output=(attribute("gcp.vertex.agent.llm_response", inside("content")),),
    usage=(
        attribute("gcp.vertex.agent.llm_response", inside("usage_metadata", of=usage_document)),
    ),
    reasoning_on_top=numbers("gen_ai.usage.experimental.reasoning_tokens"),
    session=attributes("gcp.vertex.agent.session_id"),
    tool_arguments=attributes("gcp.vertex.agent.tool_call_args"),
    tool_result=attributes("gcp.vertex.agent.tool_response"),
)

_NEW_MESSAGES: Final = new_messages("pydantic_ai.all_messages", "pydantic_ai.new_message_index")
PYDANTIC_AI: Final = Convention(
    input=(_NEW_MESSAGES,),
    output=(attribute("final_result"), _NEW_MESSAGES),
    input_tokens=numbers("gen_ai.aggregated_usage.input_tokens"),
    output_tokens=numbers("gen_ai.aggregated_usage.output_tokens"),
    model=attributes("model_name"),
    tool_arguments=attributes("tool_arguments"),
    tool_result=attributes("tool_response"),
)

CLAUDE_CODE: Final = Convention(
    kinds={
        attribute("span.type"): kinds(
            model="claude_code.llm_request",
            tool="claude_code.tool",
            other="claude_code.tool.execution claude_code.tool.blocked_on_user claude_code.interaction",
        )
    },
    input=attributes("user_prompt", "new_context"),
    output=attributes("response.model_output"),
    input_tokens=numbers("input_tokens"),
    output_tokens=numbers("output_tokens"),
    cache_read=numbers("cache_read_tokens"),
    cache_write=numbers("cache_creation_tokens"),
    tool_name=attributes("tool_name"),
    tool_arguments=attributes("tool_input"),
)

HAYSTACK: Final = Convention(
    kinds={
        SPAN_NAME: kinds(
            model="haystack.agent.step.llm",
            tool="haystack.agent.step.tool",
            other="haystack.agent.run haystack.agent.step",
        ),
        attribute("haystack.component.type", component_kind): kinds(
            model="Generator", embedding="Embedder"
        ),
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
)

CREWAI: Final = Convention(
    # A crew has the sums of its calls.
    kinds={
        presence("crewai.crew.usage_metrics"): kinds(other="present"),
        presence("crewai.crew.token_usage"): kinds(other="present"),
    },
    input=attributes("crewai.crew.inputs", "crewai.task.description"),
    output=attributes("crewai.crew.output", "crewai.crew.result"),
    usage=(
        attribute("crewai.crew.usage_metrics", crew_usage),
        attribute("crewai.crew.token_usage", crew_usage),
    ),
)

LLAMA_INDEX: Final = Convention(
    kinds={
        # OpenInference takes the work before the call for a call, too.
        Place("", lambda span: span.name.rpartition(".")[2], Where.SPAN): kinds(
            other="_prepare_chat_with_tools"
        ),
        event_presence(
            *("LLMChatStartEvent", "LLMChatEndEvent"),
            *("LLMCompletionStartEvent", "LLMCompletionEndEvent"),
        ): kinds(model="present"),
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
)

LIVEKIT: Final = Convention(
    kinds={presence("lk.function_tool.name"): kinds(tool="present")},
    input=(
        attribute("lk.chat_ctx", inside("items", of=messages_alone)),
        attribute("lk.user_input"),
    ),
    output=attributes("lk.response.text"),
    tool_name=attributes("lk.function_tool.name"),
    tool_arguments=attributes("lk.function_tool.arguments"),
    tool_result=attributes("lk.function_tool.output"),
)

VOLTAGENT: Final = Convention(
    kinds={attribute("span.type"): kinds(model="llm", tool="tool", other="agent")},
    input=attributes("llm.messages"),
    input_tokens=numbers("usage.prompt_tokens"),
    output_tokens=numbers("usage.completion_tokens"),
    model=attributes("llm.model"),
)

SPRING_AI: Final = Convention(
    kinds={
        attribute("spring.ai.kind"): kinds(
            model="chat_model", tool="tool_call", other="chat_client advisor"
        )
    },
    session=attributes("spring.ai.chat.client.conversation.id"),
    tool_name=attributes("spring.ai.tool.definition.name"),
    tool_call_id=attributes("spring.ai.tool.call.id"),
    tool_arguments=attributes("spring.ai.tool.call.arguments"),
    tool_result=attributes("spring.ai.tool.call.result"),
)
