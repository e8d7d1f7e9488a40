"""Spans of libraries that instrument others, and of platforms, by their sources."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.support.otel_frameworks.form import (
    ANSWER,
    ANSWERED,
    ASKED,
    CACHED,
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


def _langsmith() -> Fixture:
    writer = Writer("langsmith")
    session = {"langsmith.metadata.thread_id": "s-1", "langsmith.trace.session_id": "a project"}
    root = writer.add("agent", {"langsmith.span.kind": "chain", **session, "gen_ai.operation.name": "chain"})  # fmt: skip
    writer.add("template", {"langsmith.span.kind": "prompt", "gen_ai.operation.name": "chat", "gen_ai.prompt": json.dumps({"question": QUESTION})}, parent=root)  # fmt: skip
    usage = {"input_tokens": 30, "output_tokens": 9, "total_tokens": 39, "total_cost": 0.25, "input_token_details": {"cache_read": 8}}  # fmt: skip
    writer.add(
        "call",
        {
            "langsmith.span.kind": "llm",
            "gen_ai.operation.name": "chat",
            "gen_ai.prompt": json.dumps({"messages": [[{"role": "user", "content": QUESTION}]]}),
            "gen_ai.completion": json.dumps({"generations": [[{"text": ANSWER, "message": {"role": "assistant", "content": ANSWER}}]]}),
            "gen_ai.usage.input_token_details": "{'cache_read': 8}",
            **USED,
            "langsmith.usage_metadata": json.dumps(usage),
        },
        parent=root,
    )  # fmt: skip
    return fixture_of("LangSmith", "0.15.1", writer, Expected(tokens=(30, 9), cost=0.25, cached="inside", session="s-1"))  # fmt: skip


def _claude_agent(framework: str, version: str, scope: str, root: Mapping[str, Any], child: Mapping[str, Any] | None) -> Fixture:  # fmt: skip
    writer = Writer(scope)
    top = writer.add("agent", root)
    if child is not None:
        writer.add("chat", child, parent=top)
    writer.add("look_up", {**RUN_TOOL, "openinference.span.kind": "TOOL", "tool.name": "look_up", "input.value": CALL_TEXT}, parent=top)  # fmt: skip
    expected = Expected(
        tokens=(30, 9),
        cost=0.25,
        tools=("look_up",),
        session="s-1",
        turns=None if child is None else 1,
    )
    return fixture_of(framework, version, writer, expected)


def _openinference(
    framework: str, version: str, asked: JSON, answered: JSON, messages: JSON | None = None
) -> Fixture:
    """A root with the arguments and the result of a function of a framework, above one call."""
    writer = Writer("openinference.instrumentation")
    root = writer.add("run", {"openinference.span.kind": "AGENT", "input.value": json.dumps(asked), "output.value": json.dumps(answered)})  # fmt: skip
    texts = messages or {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    writer.add("call", {"openinference.span.kind": "LLM", "llm.model_name": "small", **texts, "llm.token_count.prompt": 30, "llm.token_count.completion": 9}, parent=root)  # fmt: skip
    return fixture_of(f"OpenInference, {framework}", version, writer, Expected(tokens=(30, 9)))


def _client_and_server() -> Fixture:
    writer = Writer("opentelemetry.instrumentation.openai_v2")
    call = writer.add("chat small", {**CHAT, **USED, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": ANSWERED})  # fmt: skip
    writer.add("llm_request", {"gen_ai.request.id": "r", "gen_ai.response.model": "small", "gen_ai.usage.prompt_tokens": 30, "gen_ai.usage.completion_tokens": 9}, parent=call, scope="vllm.llm_engine")  # fmt: skip
    return fixture_of("openai-v2 around vLLM", "2.4b0", writer, Expected(tokens=(30, 9)))


def _logfire_1() -> Fixture:
    writer = Writer("logfire.openai")
    request = {"gen_ai.request.model": "small", "gen_ai.operation.name": "chat", "request_data": json.dumps({"messages": [{"role": "user", "content": QUESTION}]})}  # fmt: skip
    root = writer.add("agent", {}, scope="logfire")
    writer.add("Chat Completion", request, parent=root)
    writer.add(
        "streaming response",
        {**request, **USED, "operation.cost": 0.25, "logfire.span_type": "log", "response_data": json.dumps({"combined_chunk_content": ANSWER, "chunk_count": 3})},
        parent=root,
        ms=0,
    )  # fmt: skip
    return fixture_of("logfire, OpenAI", "5.4.0", writer, Expected(tokens=(30, 9), cost=0.25), "format 1, stream")  # fmt: skip


LIBRARIES: Final = (
    _langsmith(),
    _logfire_1(),
    one("OpenLIT", "1.45.0", "openlit.otel.tracing", {**CHAT, **CACHED, **TEXTS, "gen_ai.provider.name": "anthropic", "gen_ai.usage.total_tokens": 39, "gen_ai.usage.cost": 0.25, "gen_ai.tool.name": "look_up"}, Expected(tokens=(50, 9), cached="added", cost=0.25), note="Anthropic"),
    one("botocore, Bedrock", "0.66b2", "opentelemetry.instrumentation.botocore.bedrock-runtime", {**CHAT, **CACHED}, Expected(tokens=(50, 9), cached="added", input=None, output=None, tools=None, tags=("content-not-recorded",)), note="texts in logs"),
    one("traceloop, Bedrock", "0.62.4", "opentelemetry.instrumentation.bedrock", {**CHAT, **CACHED, **TEXTS}, Expected(tokens=(50, 9), cached="added")),
    one("traceloop, Anthropic", "0.40.14", "opentelemetry.instrumentation.anthropic", {"llm.request.type": "chat", "gen_ai.request.model": "small", "gen_ai.system": "Anthropic", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": QUESTION, "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": ANSWER, "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9, "gen_ai.usage.cache_read_input_tokens": 20, "traceloop.association.properties.session_id": "s-1"}, Expected(tokens=(30, 9), cached="inside", session="s-1")),
    one("OpenInference, Anthropic", "0.1.13", "openinference.instrumentation.anthropic", {"openinference.span.kind": "LLM", "input.value": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}), "output.value": json.dumps({"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}), "llm.token_count.prompt": 30, "llm.token_count.completion": 9, "llm.token_count.prompt_details.cache_read": 20}, Expected(tokens=(50, 9), cached="added"), scope_version="0.1.13"),
    one("OpenInference, Anthropic", "0.1.14", "openinference.instrumentation.anthropic", {"openinference.span.kind": "LLM", "input.value": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}), "output.value": json.dumps({"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}), "llm.token_count.prompt": 30, "llm.token_count.completion": 9, "llm.token_count.prompt_details.cache_read": 20}, Expected(tokens=(30, 9), cached="inside"), scope_version="0.1.14"),
    _claude_agent("OpenInference, Claude Agent SDK", "0.1.22", "openinference.instrumentation.claude_agent_sdk", {"openinference.span.kind": "AGENT", "input.value": QUESTION, "output.value": ANSWER, "llm.token_count.prompt": 30, "llm.token_count.completion": 9, "llm.cost.total": 0.25, "session.id": "s-1"}, None),
    _claude_agent("logfire, Claude Agent SDK", "5.4.0", "logfire.claude_agent_sdk", {"gen_ai.operation.name": "invoke_agent", **TEXTS, **USED, "operation.cost": 0.25, "gen_ai.conversation.id": "s-1"}, {**CHAT, **TEXTS, "gen_ai.usage.partial.input_tokens": 1}),
    _client_and_server(),
    one("LiteLLM", "1.110.2", "litellm", {"gen_ai.operation.name": "acompletion", "gen_ai.request.model": "small", "gen_ai.framework": "litellm", **TEXTS, **USED, "gen_ai.cost.total_cost": 0.25}, Expected(tokens=(30, 9), cost=0.25), name="litellm_request"),
    one("Dify", "own spans", "dify", {"gen_ai.span.kind": "LLM", "gen_ai.framework": "dify", "gen_ai.input.messages": ASKED, "gen_ai.output.messages": "[]", "gen_ai.completion": ANSWER, "gen_ai.request.model": "small", **USED}, Expected(tokens=(30, 9))),
    one("Mastra", "0.3.3", "@mastra/otel-exporter", {**CHAT, "gen_ai.prompt": message("user", QUESTION), "gen_ai.completion": json.dumps({"text": ANSWER}), **USED, "gen_ai.usage.cached_input_tokens": 20}, Expected(tokens=(30, 9), cached="inside")),
    one("Braintrust", "0.48.1", "braintrust", {"braintrust.span_attributes": json.dumps({"type": "llm"}), "braintrust.input_json": message("user", QUESTION), "braintrust.output_json": message("assistant", ANSWER), "braintrust.metadata": json.dumps({"model": "small"}), "braintrust.metrics": json.dumps({"prompt_tokens": 30, "completion_tokens": 9, "prompt_cached_tokens": 20, "tokens": 39})}, Expected(tokens=(30, 9), cached="inside")),
    one("Langfuse SDK", "4.18.0", "langfuse-sdk", {"langfuse.observation.type": "generation", "langfuse.observation.input": message("user", QUESTION), "langfuse.observation.output": json.dumps({"role": "assistant", "content": ANSWER}), "langfuse.observation.usage_details": json.dumps({"input": 10, "input_cached_tokens": 20, "output": 6, "output_reasoning_tokens": 3, "total": 39}), "langfuse.observation.cost_details": json.dumps({"input": 0.05, "output": 0.2}), "langfuse.session.id": "s-1"}, Expected(tokens=(30, 9), cached="added", cost=0.25, session="s-1"), note="buckets"),
    one("logfire, OpenAI", "4", "logfire.openai", {**CHAT, **USED, "events": json.dumps([{"event.name": "gen_ai.user.message", "content": QUESTION, "role": "user"}, {"event.name": "gen_ai.assistant.message", "content": ANSWER, "role": "assistant"}])}, Expected(tokens=(30, 9)), note="Responses API"),
    one("traceloop, LangChain", "0.62.4", "opentelemetry.instrumentation.langchain", {"traceloop.span.kind": "workflow", "traceloop.entity.input": json.dumps({"inputs": {"question": QUESTION}, "tags": [], "metadata": {}, "kwargs": {"name": "agent"}}), "traceloop.entity.output": json.dumps({"outputs": ANSWER, "kwargs": {"tags": []}})}, Expected(tools=None, turns=None), name="agent.workflow"),
    one("traceloop, CrewAI", "0.62.4", "opentelemetry.instrumentation.crewai", {"gen_ai.system": "crewai", "crewai.crew.inputs": json.dumps({"question": QUESTION}), "crewai.crew.result": ANSWER, "crewai.crew.token_usage": "total_tokens=39 prompt_tokens=30 cached_prompt_tokens=8 completion_tokens=9 successful_requests=1"}, Expected(tokens=(30, 9), turns=None, tools=None), name="crewai.workflow", note="crew alone"),
    _openinference("LlamaIndex", "4 (by its facts)", {"user_msg": QUESTION, "max_iterations": None}, {"response": llama_message("assistant", {"block_type": "text", "text": ANSWER}), "tool_calls": [], "current_agent_name": "agent"}),
    _openinference("Google ADK", "0.1 (by its facts)", {"user_id": "u", "session_id": "s", "new_message": {"role": "user", "parts": [{"text": QUESTION}]}}, {"author": "agent", "content": {"role": "model", "parts": [{"text": ANSWER}]}, "partial": None}),
    _openinference("completions", "0.1.66", {"question": QUESTION}, {"outputs": ANSWER, "kwargs": {}}, {"llm.prompts.0.prompt.text": QUESTION, "llm.choices.0.completion.text": ANSWER}),
    one("logfire, OpenAI Agents", "5.4.0", "logfire.openai_agents", {"gen_ai.request.model": "small", **USED, "request_data": json.dumps({"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]})}, Expected(tokens=(30, 9)), name="Generation"),
    one("Dify", "own spans", "dify", {"gen_ai.span.kind": "LLM", "gen_ai.request.model": "small", **USED, "gen_ai.input.messages": "[]", "gen_ai.output.messages": "[]", "gen_ai.prompt": json.dumps([{"role": "user", "text": QUESTION}]), "gen_ai.completion": ANSWER}, Expected(tokens=(30, 9)), note="messages"),
    one("Braintrust", "0.48.1", "braintrust", {"braintrust.span_attributes": json.dumps({"type": "llm"}), "braintrust.input_json": message("user", QUESTION), "braintrust.output_json": message("assistant", ANSWER), "braintrust.metrics": json.dumps({"prompt_tokens": 30, "completion_tokens": 9, "prompt_cached_tokens": 20})}, Expected(tokens=(30, 9), cached="inside"), note="without a total"),
    one("MLflow", "3.17.2", "mlflow", {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}), "mlflow.spanOutputs": json.dumps({"role": "assistant", "content": ANSWER}), "mlflow.chat.tokenUsage": json.dumps({"input_tokens": 10, "output_tokens": 9, "total_tokens": 19, "cache_read_input_tokens": 20})}, Expected(tokens=(30, 9), cached="added"), note="more cached than input tokens"),
    # Nothing names an operation.
    one("spans without an operation", "by hand", "my.app", {"gen_ai.response.model": "small", "gen_ai.prompt": QUESTION, "gen_ai.completion": ANSWER, "gen_ai.usage.prompt_tokens": 30, "gen_ai.usage.completion_tokens": 9}, Expected(tokens=(30, 9))),
    one("GenAI conventions", "native arrays", "my.app", {**CHAT, **USED, "gen_ai.input.messages": json.loads(ASKED), "gen_ai.output.messages": json.loads(ANSWERED)}, Expected(tokens=(30, 9))),
    one("GenAI conventions", "two candidates", "my.app", {**CHAT, **USED, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": "stop"} for text in (ANSWER, "It rains.")])}, Expected(tokens=(30, 9))),
    one("GenAI conventions", "two choices", "my.app", {**CHAT, **USED}, Expected(tokens=(30, 9)), events=[("gen_ai.user.message", {"content": QUESTION}), *(("gen_ai.choice", {"index": index, "message": json.dumps({"role": "assistant", "content": text})}) for index, text in enumerate((ANSWER, "It rains.")))]),
    one("GenAI conventions", "messages cut off by a limit", "my.app", {**CHAT, **USED, "gen_ai.input.messages": ASKED[:-20], "gen_ai.output.messages": ANSWERED}, Expected(tokens=(30, 9), input=None, tags=("content-not-understood",))),
    several("LiteLLM", "1.110.2", "litellm", [("my agent", None, {**CHAT, **TEXTS, "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 6}), ("litellm_request", 1, {**CHAT, **USED, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": CALLING}), ("litellm_request", 1, {**CHAT, **TEXTS, "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 6})], Expected(tokens=(70, 15), turns=2, tools=("look_up",)), "copy on the parent"),
    one("LiteLLM", "1.110.2", "litellm", {**CHAT, **USED, "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": QUESTION, "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.function_call.name": "look_up", "gen_ai.completion.0.function_call.arguments": CALL_TEXT}, Expected(tokens=(30, 9), output="", tools=("look_up",)), note="call of a function"),
    one("traceloop, OpenAI", "0.40", "opentelemetry.instrumentation.openai.v1", {"llm.request.type": "chat", "gen_ai.request.model": "small", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": json.dumps([{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]), "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": ANSWER, "gen_ai.usage.prompt_tokens": 30, "gen_ai.usage.completion_tokens": 9}, Expected(tokens=(30, 9)), note="with an image"),
    one("OpenLIT", "before 1.34, lines", "openlit.otel.tracing", {**CHAT, **USED}, Expected(tokens=(30, 9)), events=[("gen_ai.content.prompt", {"gen_ai.prompt": f"system: Be brief.\nuser: {QUESTION}"}), ("gen_ai.content.completion", {"gen_ai.completion": ANSWER})]),
    several("OpenInference, Claude Agent SDK", "0.1.22", "openinference.instrumentation.claude_agent_sdk", [("POST /ask", None, {"http.request.method": "POST"}), ("agent", 1, {"openinference.span.kind": "AGENT", "input.value": QUESTION, "output.value": ANSWER, "llm.token_count.prompt": 30, "llm.token_count.completion": 9, "llm.cost.total": 0.25, "session.id": "s-1"}), ("look_up", 2, {"openinference.span.kind": "TOOL", "tool.name": "look_up", "input.value": CALL_TEXT})], Expected(tokens=(30, 9), cost=0.25, session="s-1", turns=None, tools=("look_up",)), "in a server"),
    several("anthropic SDK", "2.14.0", "com.anthropic.sdk.python", [("anthropic.messages.tool_runner", None, {}), ("anthropic.messages.create", 1, {**CHAT, **USED, "gen_ai.usage.cache_write.input_tokens": 5, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": CALLING, "gen_ai.conversation.id": "s-1"}), ("anthropic.tool_use look_up", 1, {**RUN_TOOL, "gen_ai.tool.call.arguments": CALL_TEXT, "anthropic.tool_result.content": "sunny"}), ("anthropic.messages.create", 1, {**CHAT, "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 6, "gen_ai.output.messages": ANSWERED})], Expected(tokens=(70, 15), cached="inside", tools=("look_up",), session="s-1", turns=2)),
    several("Langfuse SDK", "3.15.0", "langfuse-sdk", [("agent", None, {"langfuse.observation.type": "span", "langfuse.trace.input": json.dumps({"args": [], "kwargs": {"question": QUESTION}}), "langfuse.trace.output": json.dumps(ANSWER)}), ("call", 1, {"langfuse.observation.type": "generation", "langfuse.observation.usage_details": json.dumps({"prompt_token_count": 30, "candidates_token_count": 6, "thoughts_token_count": 3, "total_token_count": 39, "cached_content_token_count": 8}), "langfuse.observation.metadata.langfuse_session_id": "s-1"})], Expected(tokens=(30, 9), cached="inside", session="s-1"), "Gemini, texts of the trace"),
    several("LangSmith", "0.15.1", "langsmith", [("agent", None, {"langsmith.span.kind": "chain", "gen_ai.prompt": json.dumps({"question": QUESTION}), "gen_ai.completion": json.dumps({"output": ANSWER})}), ("look_up", 1, {"langsmith.span.kind": "tool", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up", "gen_ai.prompt": json.dumps({"input": "{'city': 'Rome'}"}), "gen_ai.completion": json.dumps({"output": "sunny"})})], Expected(turns=None, tools=("look_up",)), "tool alone"),
    one("MLflow", "3.17.2", "mlflow", {"mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": json.dumps({"messages": [{"type": "human", "content": QUESTION}]}), "mlflow.spanOutputs": json.dumps({"messages": [{"type": "human", "content": QUESTION}, {"type": "ai", "content": ANSWER}]}), "session.id": '"s-1"', "mlflow.trace.tokenUsage": json.dumps({"input_tokens": 30, "output_tokens": 9, "total_tokens": 39})}, Expected(tokens=(30, 9), turns=None, tools=None, session="s-1"), note="root of LangGraph alone"),
    one("Laminar", "by its mapping", "lmnr", {"lmnr.span.type": "LLM", "gen_ai.request.model": "small", **USED, "lmnr.span.input": message("user", QUESTION), "lmnr.span.output": message("assistant", ANSWER), "lmnr.association.properties.session_id": "s-1"}, Expected(tokens=(30, 9), session="s-1")),
    one("logfire, OpenAI", "4", "logfire.openai", {**CHAT, **USED, "request_data": json.dumps({"input": QUESTION, "stream": True}), "response_data": json.dumps({"combined_chunk_content": ANSWER})}, Expected(tokens=(30, 9)), note="Responses API, stream"),
    one("logfire, OpenAI", "4", "logfire.openai", {"gen_ai.operation.name": "text_completion", "gen_ai.request.model": "small", "request_data": json.dumps({"prompt": QUESTION}), "response_data": json.dumps({"text": ANSWER, "usage": {"prompt_tokens": 30, "completion_tokens": 9}})}, Expected(tokens=(30, 9)), note="completions"),
    one("traceloop, LangGraph", "0.62.4", "opentelemetry.instrumentation.langchain", {"traceloop.span.kind": "workflow", "traceloop.entity.input": json.dumps({"inputs": {"messages": [["user", QUESTION]]}, "kwargs": {}}), "traceloop.entity.output": json.dumps({"outputs": {"messages": [{"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": {"content": ANSWER}}]}, "kwargs": {}})}, Expected(tools=None, turns=None), note="messages as pairs"),
    one("MLflow", "3.17.2", "mlflow", {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps({"model": "small", "contents": QUESTION}), "mlflow.spanOutputs": json.dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}}]}), "mlflow.chat.tokenUsage": json.dumps({"input_tokens": 30, "output_tokens": 9, "total_tokens": 39})}, Expected(tokens=(30, 9)), note="Gemini"),
    one("spans without an operation", "by hand", "my.app", {"gen_ai.request.model": "small", **TEXTS, "gen_ai.usage.input_tokens": '"30"', "gen_ai.usage.output_tokens": '{"intValue": "9"}'}, Expected(tokens=(30, 9)), note="numbers as JSON texts"),
    several("GenAI conventions", "steps of an agent in one list", "my.app", [("invoke_agent weather", None, {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": ASKED, "gen_ai.output.messages": json.dumps([{**json.loads(CALLING)[0], "finish_reason": "tool_call"}, {**json.loads(ANSWERED)[0], "finish_reason": "stop"}]), **USED})], Expected(tokens=(30, 9), turns=None, tools=("look_up",))),
)  # fmt: skip
