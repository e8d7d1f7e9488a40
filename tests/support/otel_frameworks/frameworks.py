"""Spans of frameworks in which agents are written, by their sources."""

import json
from typing import Any, Final, Literal

from tests.support.otel_frameworks.form import (
    ANSWER,
    ANSWERED,
    ARGUMENTS,
    ASKED,
    CALL_TEXT,
    CALLING,
    CHAT,
    QUESTION,
    RUN_TOOL,
    TEXTS,
    USED,
    Expected,
    Fixture,
    Writer,
    fixture_of,
    llama_message,
    message,
    one,
    several,
)
from tests.support.service import JSON


def _ai_sdk_4() -> Fixture:
    writer = Writer("ai")
    metadata = json.dumps(
        {"anthropic": {"cacheCreationInputTokens": 100, "cacheReadInputTokens": 20}}
    )
    root = writer.add(
        "ai.generateText",
        {
            "ai.operationId": "ai.generateText",
            "ai.prompt": json.dumps({"system": "Be brief.", "prompt": QUESTION}),
            "ai.response.text": ANSWER,
            # Those of the last step.
            "ai.usage.promptTokens": 40,
            "ai.usage.completionTokens": 6,
            "ai.telemetry.metadata.sessionId": "s-1",
        },
    )
    step: dict[str, Any] = {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.model.provider": "anthropic.messages",
        "gen_ai.request.model": "small",
    }
    calls = json.dumps([{"toolCallType": "function", "toolCallId": "c", "toolName": "look_up", "args": CALL_TEXT}])  # fmt: skip
    writer.add(
        "ai.generateText.doGenerate",
        {
            **step,
            "ai.prompt.messages": message("user", [{"type": "text", "text": QUESTION}]),
            "ai.response.toolCalls": calls,
            "ai.response.providerMetadata": metadata,
            "ai.usage.promptTokens": 30,
            "ai.usage.completionTokens": 9,
        },
        parent=root,
    )
    writer.add(
        "ai.toolCall",
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "look_up",
            "ai.toolCall.id": "c",
            "ai.toolCall.args": CALL_TEXT,
        },
        parent=root,
    )
    writer.add(
        "ai.generateText.doGenerate",
        {
            **step,
            "ai.response.text": ANSWER,
            # A stream of an older server says NaN: the name of the conventions counts.
            "ai.usage.promptTokens": float("nan"),
            "gen_ai.usage.input_tokens": 40,
            "ai.usage.completionTokens": 6,
        },
        parent=root,
    )
    # 30 + 100 + 20 + 40
    expected = Expected(
        tokens=(190, 15), cached="added", tools=("look_up",), session="s-1", turns=2
    )
    return fixture_of("Vercel AI SDK", "4.3.19", writer, expected, "Anthropic")


def _adk_1() -> Fixture:
    writer = Writer("gcp.vertex.agent")
    root = writer.add("invocation", {})
    agent = writer.add(
        "agent_run [weather]", {"gen_ai.operation.name": "invoke_agent"}, parent=root
    )
    contents = [{"role": "user", "parts": [{"text": QUESTION}]}]
    call = {"functionCall": {"id": "c", "name": "look_up", "args": ARGUMENTS}}
    for part, tokens, thoughts in ((call, (30, 9), 3), ({"text": ANSWER}, (40, 6), 0)):
        usage = {
            "gen_ai.usage.input_tokens": tokens[0],
            "gen_ai.usage.output_tokens": tokens[1],
            "gen_ai.usage.experimental.reasoning_tokens": thoughts,
        }
        outer = writer.add(
            "call_llm",
            {
                **usage,
                "gen_ai.request.model": "small",
                "gcp.vertex.agent.session_id": "s-1",
                "gcp.vertex.agent.llm_request": json.dumps({"model": "small", "contents": contents}),
                "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [part]}}),
            },
            parent=agent,
        )  # fmt: skip
        writer.add("generate_content small", {**usage, "gen_ai.operation.name": "generate_content"}, parent=outer)  # fmt: skip
    unused = {"gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"}
    writer.add("execute_tool look_up", {**RUN_TOOL, **unused, "gcp.vertex.agent.tool_call_args": CALL_TEXT}, parent=agent)  # fmt: skip
    writer.add("execute_tool (merged tools)", {**RUN_TOOL, **unused, "gen_ai.tool.name": "(merged tools)"}, parent=agent)  # fmt: skip
    # The count of the output lacks the three tokens of thoughts.
    expected = Expected(tokens=(70, 18), tools=("look_up",), session="s-1", turns=2)
    return fixture_of("Google ADK", "1.39.1", writer, expected)


def _claude_code() -> Fixture:
    writer = Writer("com.anthropic.claude_code.tracing")
    root = writer.add("claude_code.interaction", {"span.type": "claude_code.interaction", "user_prompt": QUESTION, "session.id": "s-1"})  # fmt: skip
    writer.add("claude_code.llm_request", {"span.type": "claude_code.llm_request", "model": "small", "response.model_output": ANSWER, "input_tokens": 5, "output_tokens": 9, "cache_read_tokens": 20, "cache_creation_tokens": 5}, parent=root)  # fmt: skip
    tool = writer.add("claude_code.tool", {"span.type": "claude_code.tool", "tool_name": "look_up", "tool_input": CALL_TEXT}, parent=root)  # fmt: skip
    writer.add("claude_code.tool.execution", {"span.type": "claude_code.tool.execution", "success": True}, parent=tool)  # fmt: skip
    return fixture_of("Claude Code", "2 (by its mapping)", writer, Expected(tokens=(30, 9), cached="added", tools=("look_up",), session="s-1"))  # fmt: skip


def _haystack_message(role: str, part: JSON, usage: JSON | None = None) -> JSON:
    meta = {} if usage is None else {"model": "small", "usage": usage}
    return {"role": role, "meta": meta, "name": None, "content": [part]}


_HAYSTACK_ASKED: Final = _haystack_message("user", {"text": QUESTION})

_HAYSTACK_CALLS: Final = _haystack_message("assistant", {"tool_call": {"id": "c", "tool_name": "look_up", "arguments": ARGUMENTS}}, {"prompt_tokens": 30, "completion_tokens": 9})  # fmt: skip

_HAYSTACK_ANSWER: Final = _haystack_message("assistant", {"text": ANSWER}, {"prompt_tokens": 40, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 8}})  # fmt: skip


def _haystack_agent() -> JSON:
    messages = [_HAYSTACK_ASKED, _HAYSTACK_CALLS, _HAYSTACK_ANSWER]
    return {
        "haystack.agent.input": json.dumps({"messages": [_HAYSTACK_ASKED]}),
        "haystack.agent.output": json.dumps({"messages": messages, "last_message": messages[-1]}),
    }


def _haystack() -> Fixture:
    writer = Writer("haystack")
    root = writer.add("haystack.agent.run", _haystack_agent())
    step = writer.add("haystack.agent.step", {}, parent=root)
    for reply in (_HAYSTACK_CALLS, _HAYSTACK_ANSWER):
        call = writer.add("haystack.agent.step.llm", {"haystack.agent.step.llm.input": json.dumps({"messages": [_HAYSTACK_ASKED]}), "haystack.agent.step.llm.output": json.dumps({"replies": [reply]})}, parent=step)  # fmt: skip
        # The generator inside of the step is the same call.
        writer.add("haystack.chat_generator.run", {"haystack.component.type": "OpenAIChatGenerator"}, parent=call)  # fmt: skip
    writer.add("haystack.agent.step.tool", {"haystack.tool.name": "look_up", "haystack.agent.step.tool.input": CALL_TEXT}, parent=step)  # fmt: skip
    return fixture_of("Haystack", "3.4.1", writer, Expected(tokens=(70, 15), cached="inside", tools=("look_up",), turns=2))  # fmt: skip


def _haystack_pipeline(
    kind: str, asked: JSON, answered: JSON, note: str, cached: Literal["inside"] | None = None
) -> Fixture:
    writer = Writer("haystack")
    root = writer.add("haystack.pipeline.run", {"haystack.pipeline.input_data": json.dumps({"llm": asked}), "haystack.pipeline.output_data": json.dumps({"llm": answered})})  # fmt: skip
    writer.add("haystack.component.run", {"haystack.component.type": kind, "haystack.component.name": "llm", "haystack.component.input": json.dumps(asked), "haystack.component.output": json.dumps(answered)}, parent=root)  # fmt: skip
    writer.add("haystack.component.run", {"haystack.component.type": "AnswerBuilder", "haystack.component.input": json.dumps(answered)}, parent=root)  # fmt: skip
    return fixture_of("Haystack", "3.4.1", writer, Expected(tokens=(40, 6), cached=cached), note)


def _crewai() -> Fixture:
    """Its own tracing; without the calls the crew alone has the tokens."""
    writer = Writer("crewai.telemetry")
    usage = {"total_tokens": 39, "prompt_tokens": 30, "cached_prompt_tokens": 8, "completion_tokens": 9, "successful_requests": 1}  # fmt: skip
    root = writer.add("invoke_workflow", {"gen_ai.operation.name": "invoke_workflow", "gen_ai.conversation.id": "s-1", "crewai.crew.inputs": json.dumps({"question": QUESTION}), "crewai.crew.output": ANSWER, "crewai.crew.usage_metrics": json.dumps(usage)})  # fmt: skip
    writer.add("execute_task", {"gen_ai.operation.name": "execute_task", "crewai.task.description": "Answer.", "crewai.task.expected_output": "A sentence."}, parent=root)  # fmt: skip
    expected = Expected(tokens=(30, 9), cached="inside", session="s-1", turns=None, tools=None)  # fmt: skip
    return fixture_of("CrewAI", "1.15.30", writer, expected, "crew alone")


def _llama_index() -> Fixture:
    writer = Writer("llamaindex.opentelemetry.tracer")
    root = writer.add("FunctionAgent.run", {})
    asked = json.dumps([llama_message("user", {"block_type": "text", "text": QUESTION})])
    call = {"block_type": "tool_call", "tool_call_id": "c", "tool_name": "look_up", "tool_kwargs": ARGUMENTS}  # fmt: skip
    for block, tokens in ((call, (30, 9)), ({"block_type": "text", "text": ANSWER}, (40, 6))):
        end: dict[str, Any] = {
            "messages": asked,
            "response.message.role": "assistant",
            "response.message.blocks": json.dumps([block]),
            "response.raw.model": "small",
            "response.raw.usage.prompt_tokens": tokens[0],
            "response.raw.usage.completion_tokens": tokens[1],
        }
        events = [("LLMChatStartEvent", {"messages": asked}), ("LLMChatInProgressEvent", {"messages": asked}), ("LLMChatEndEvent", end)]  # fmt: skip
        writer.add("OpenAI.achat_with_tools", {}, parent=root, events=events)
    return fixture_of("LlamaIndex", "0.7.0", writer, Expected(tokens=(70, 15), tools=("look_up",), turns=2))  # fmt: skip


_SK_MESSAGE: Final = json.dumps({"role": "user", "content": QUESTION})

_SK_CHOICE: Final = json.dumps({"index": 0, "message": {"role": "Assistant", "content": ANSWER, "tool_calls": [{"id": "c", "function": {"name": "look_up", "arguments": ARGUMENTS}}]}})  # fmt: skip

_EVENTS: Final = json.dumps(
    [
        {"event.name": "gen_ai.system.message", "content": "Be brief."},
        {"event.name": "gen_ai.user.message", "content": QUESTION},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": ANSWER}},
    ]
)  # fmt: skip
_DETAILS: Final = "gen_ai.client.inference.operation.details"

FRAMEWORKS: Final = (
    _ai_sdk_4(),
    one("Vercel AI SDK", "6.0.326", "ai", {"ai.operationId": "ai.generateText", "ai.prompt": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}), "ai.response.text": ANSWER, "ai.model.provider": "anthropic.messages", "ai.usage.inputTokens": 30, "ai.usage.outputTokens": 9, "ai.usage.inputTokenDetails.noCacheTokens": 10, "ai.usage.inputTokenDetails.cacheReadTokens": 20}, Expected(tokens=(30, 9), cached="inside", tools=None, turns=None), name="ai.generateText", note="root alone"),
    _adk_1(),
    one("pydantic-ai", "1 (format 1)", "pydantic-ai", {**CHAT, **USED, "events": _EVENTS}, Expected(tokens=(30, 9))),
    # Some versions write numbers as texts.
    one("pydantic-ai", "1.60", "pydantic-ai", {**CHAT, **TEXTS, "gen_ai.usage.input_tokens": "30", "gen_ai.usage.output_tokens": "9", "operation.cost": "0.25"}, Expected(tokens=(30, 9), cost=0.25), note="numbers as texts"),
    one("Semantic Kernel .NET", "1.48", "Microsoft.SemanticKernel.Diagnostics", {"gen_ai.operation.name": "chat.completions", "gen_ai.request.model": "small", "gen_ai.response.prompt_tokens": 30, "gen_ai.response.completion_tokens": 9}, Expected(tokens=(30, 9)), events=[("gen_ai.content.prompt", {"gen_ai.prompt": message("user", QUESTION)}), ("gen_ai.content.completion", {"gen_ai.completion": message("Assistant", ANSWER)})]),
    one("Semantic Kernel .NET", "1.55", "Microsoft.SemanticKernel.Diagnostics", {**CHAT, **USED}, Expected(tokens=(30, 9), tools=("look_up",)), events=[("gen_ai.user.message", {"gen_ai.event.content": _SK_MESSAGE}), ("gen_ai.choice", {"gen_ai.event.content": _SK_CHOICE})]),
    one("Azure AI Projects", "2.10.0", "azure.ai.projects", {"gen_ai.operation.name": "responses", "gen_ai.request.model": "small", "gen_ai.thread.id": "s-1", **USED}, Expected(tokens=(30, 9), session="s-1"), events=[("gen_ai.input.messages", {"gen_ai.event.content": ASKED}), ("gen_ai.output.messages", {"gen_ai.event.content": ANSWERED})]),
    one("Strands Agents", "1.62.0", "strands.telemetry.tracer", {**CHAT, **USED}, Expected(tokens=(30, 9)), events=[(_DETAILS, {"gen_ai.input.messages": ASKED}), (_DETAILS, {"gen_ai.output.messages": ANSWERED})], note="opt-in events"),
    one("Strands Agents", "before 1.54", "strands.telemetry.tracer", {**CHAT, **TEXTS, "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9, "gen_ai.usage.cache_read_input_tokens": 20, "gen_ai.usage.total_tokens": 59}, Expected(tokens=(50, 9), cached="added"), note="Bedrock"),
    _claude_code(),
    _haystack(),
    one("Azure AI Inference", "1.0.0b9", "azure.ai.inference", {**CHAT, **USED, "gen_ai.system": "az.ai.inference"}, Expected(tokens=(30, 9), tools=("look_up",)), events=[("gen_ai.user.message", {"gen_ai.system": "az.ai.inference", "gen_ai.event.content": _SK_MESSAGE}), ("gen_ai.choice", {"gen_ai.system": "az.ai.inference", "gen_ai.event.content": _SK_CHOICE})]),
    one("Semantic Kernel .NET", "first", "Microsoft.SemanticKernel.Diagnostics", {"gen_ai.operation.name": "chat.completions", "gen_ai.request.model": "small", "gen_ai.response.prompt_tokens": -1, "gen_ai.response.completion_tokens": -1}, Expected(), events=[("gen_ai.content.prompt", {"gen_ai.prompt": f'[{{"role:" system, "content:" Be brief.}}, {{"role:" user, "content:" {QUESTION}}}]'}), ("gen_ai.content.completion", {"gen_ai.completion": f'[{{"role:" Assistant, "content:" {ANSWER}}}]'})], note="JSON without quotes"),
    one("Spring AI", "1-2", "org.springframework.ai", {**CHAT, **USED, "spring.ai.kind": "chat_model", "spring.ai.chat.client.conversation.id": "s-1"}, Expected(input=None, output=None, tokens=(30, 9), tools=None, session="s-1", tags=("content-not-recorded",)), note="no texts on spans"),
    _haystack_pipeline("OpenAIChatGenerator", {"messages": [_HAYSTACK_ASKED]}, {"replies": [_HAYSTACK_ANSWER]}, "pipeline of a chat", "inside"),
    _haystack_pipeline("OpenAIGenerator", {"prompt": QUESTION}, {"replies": [ANSWER], "meta": [{"model": "small", "usage": {"prompt_tokens": 40, "completion_tokens": 6}}]}, "pipeline of texts"),
    one("Haystack", "3.4.1", "haystack", _haystack_agent(), Expected(tokens=(70, 15), cached="inside", turns=None, tools=("look_up",)), name="haystack.agent.run", note="agent alone"),
    _crewai(),
    _llama_index(),
    # The tracer of the AI SDK is that of the user, and the prompt of the server is around the agent.
    one("Vercel AI SDK", "5.0.277", "my-app", {"ai.operationId": "ai.generateText.doGenerate", "ai.model.provider": "anthropic.messages", "gen_ai.request.model": "small", "ai.prompt.messages": message("user", [{"type": "text", "text": QUESTION}]), "ai.response.text": ANSWER, "ai.usage.promptTokens": 20, "ai.usage.completionTokens": 9, "ai.response.providerMetadata": json.dumps({"anthropic": {"cacheReadInputTokens": 10}})}, Expected(tokens=(30, 9), cached="added"), note="Anthropic, own tracer"),
    one("Azure AI Agents", "1.1.0", "azure.ai.agents", {"gen_ai.operation.name": "process_thread_run", "gen_ai.request.model": "small", "gen_ai.thread.id": "s-1", **USED}, Expected(tokens=(30, 9), session="s-1"), events=[("gen_ai.user.message", {"gen_ai.event.content": _SK_MESSAGE}), ("gen_ai.assistant.message", {"gen_ai.event.content": json.dumps({"role": "assistant", "content": {"text": {"value": ANSWER}}})})]),
    one("Azure AI Projects", "2.10.0", "azure.ai.projects", {"az.namespace": "Microsoft.CognitiveServices", "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather", "gen_ai.conversation.id": "s-1", **USED, **TEXTS}, Expected(tokens=(30, 9), session="s-1"), note="agent in Azure"),
    several("Semantic Kernel", "1.45.0", "semantic_kernel", [("POST /ask", None, {"http.request.method": "POST"}), ("invoke_agent weather", 1, {"gen_ai.operation.name": "invoke_agent", **TEXTS}), ("chat small", 2, {**CHAT, **USED})], Expected(tokens=(30, 9)), "texts of the agent alone, in a server"),
    one("pydantic-ai", "1 (format 1)", "pydantic-ai", {"gen_ai.operation.name": "invoke_agent", "model_name": "small", "final_result": ANSWER, "all_messages_events": json.dumps([{"event.name": "gen_ai.user.message", "content": QUESTION}, {"event.name": "gen_ai.assistant.message", "role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look_up", "arguments": CALL_TEXT}}]}, {"event.name": "gen_ai.tool.message", "content": "sunny", "id": "c"}, {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": ANSWER}]), **USED}, Expected(tokens=(30, 9), turns=None, tools=("look_up",)), note="agent alone"),
    several("pydantic-ai", "1", "pydantic-ai", [("agent run", None, {"gen_ai.operation.name": "invoke_agent", "model_name": "small", "final_result": ANSWER, "pydantic_ai.all_messages": ASKED, "gen_ai.usage.input_tokens": 70, "gen_ai.usage.output_tokens": 15}), ("chat small", 1, {**CHAT, **USED, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": CALLING}), ("running tool", 1, {"gen_ai.tool.name": "look_up", "gen_ai.tool.call.id": "c", "tool_arguments": CALL_TEXT, "tool_response": "sunny"}), ("chat small", 1, {**CHAT, "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 6, "gen_ai.output.messages": ANSWERED})], Expected(tokens=(70, 15), turns=2, tools=("look_up",)), "sums on the agent"),
    one("Spring AI", "1.0 milestones", "org.springframework.ai", {**CHAT, **USED, "spring.ai.kind": "chat_model"}, Expected(tokens=(30, 9)), events=[("gen_ai.content.prompt", {"gen_ai.prompt": ["Be brief.", QUESTION]}), ("gen_ai.content.completion", {"gen_ai.completion": [ANSWER]})]),
    one("Haystack", "3.4.1, Anthropic", "haystack", {"haystack.component.type": "AnthropicChatGenerator", "haystack.component.input": json.dumps({"messages": [_HAYSTACK_ASKED]}), "haystack.component.output": json.dumps({"replies": [_haystack_message("assistant", {"text": ANSWER}, {"prompt_tokens": 10, "completion_tokens": 9, "cache_read_input_tokens": 15, "cache_creation_input_tokens": 5})]})}, Expected(tokens=(30, 9), cached="added")),
    several("Gemini CLI", "by its mapping", "gemini-cli", [("user_prompt", None, {"gen_ai.operation.name": "user_prompt", "gen_ai.input.messages": QUESTION}), ("llm_call", 1, {"gen_ai.operation.name": "llm_call", "gen_ai.request.model": "small", **USED, "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"text": QUESTION}]}]), "gen_ai.output.messages": json.dumps([{"role": "model", "parts": [{"text": ANSWER}]}])})], Expected(tokens=(30, 9))),
    several("LiveKit", "by its mapping", "livekit-agents", [("agent_session", None, {}), ("llm_request", 1, {"gen_ai.request.model": "small", **USED, "lk.chat_ctx": json.dumps({"items": [{"type": "message", "role": "user", "content": [QUESTION]}, {"type": "agent_handoff"}]}), "lk.response.text": ANSWER}), ("function_tool", 1, {"lk.function_tool.name": "look_up", "lk.function_tool.arguments": CALL_TEXT, "lk.function_tool.output": "sunny"})], Expected(tokens=(30, 9), tools=("look_up",))),
    several("VoltAgent", "by its mapping", "voltagent", [("agent", None, {"span.type": "agent", "input": QUESTION, "output": ANSWER}), ("llm", 1, {"span.type": "llm", "llm.model": "small", "llm.messages": message("user", QUESTION), "output": ANSWER, "usage.prompt_tokens": 30, "usage.completion_tokens": 9}), ("tool", 1, {"span.type": "tool", "tool.name": "look_up", "input": CALL_TEXT, "output": "sunny"})], Expected(tokens=(30, 9), tools=("look_up",))),
    one("Pipecat", "by its mapping", "pipecat", {**CHAT, **USED, "input": message("user", QUESTION), "output": ANSWER}, Expected(tokens=(30, 9))),
)  # fmt: skip
