"""The rows of platforms that record agents: their own SDKs and exports."""

from typing import Final

from mosaico.traces.otel.convention_row import (
    SPAN_NAME,
    Convention,
    SpanKind,
    kinds,
    numbers,
)
from mosaico.traces.otel.encodings import arguments_of_call, inside, total_or_sum, usage_document
from mosaico.traces.otel.places import Place, attribute, attributes, read_number

LANGFUSE: Final = Convention(
    kinds={
        attribute("langfuse.observation.type"): kinds(
            model="generation",
            embedding="embedding",
            tool="tool",
            evaluator="evaluator",
            other="agent chain retriever guardrail",
        ),
        # Of experiments of the SDK.
        SPAN_NAME: {"experiment-item-evaluation": SpanKind.EVALUATOR},
    },
    input=(attribute("langfuse.observation.input", arguments_of_call),),
    output=attributes("langfuse.observation.output"),
    usage=(attribute("langfuse.observation.usage_details", usage_document),),
    cost=(attribute("langfuse.observation.cost_details", total_or_sum),),
    model=attributes("langfuse.observation.model.name"),
    session=attributes(
        "langfuse.session.id",
        "langfuse.trace.metadata.langfuse_session_id",
        "langfuse.observation.metadata.langfuse_session_id",
    ),
    user=attributes(
        "langfuse.user.id",
        "langfuse.trace.metadata.langfuse_user_id",
        "langfuse.observation.metadata.langfuse_user_id",
    ),
    tool_arguments=(attribute("langfuse.observation.input", arguments_of_call),),
    tool_result=attributes("langfuse.observation.output"),
)

MLFLOW: Final = Convention(
    kinds={
        attribute("mlflow.spanType"): kinds(
            model="LLM CHAT_MODEL",
            embedding="EMBEDDING",
            tool="TOOL",
            evaluator="EVALUATOR",
            other="AGENT CHAIN RETRIEVER PARSER RERANKER",
        )
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
)

LANGSMITH: Final = Convention(
    kinds={
        # A template of a prompt has the operation `chat`, a retriever `embeddings`.
        attribute("langsmith.span.kind"): kinds(
            model="llm", embedding="embedding", tool="tool", other="chain prompt retriever parser"
        )
    },
    usage=(attribute("langsmith.usage_metadata", usage_document),),
    cost=(attribute("langsmith.usage_metadata", inside("total_cost", of=read_number)),),
    # `langsmith.trace.session_id` is a project.
    session=attributes(
        *(f"langsmith.metadata.{name}" for name in ("session_id", "thread_id", "conversation_id"))
    ),
    user=attributes("langsmith.metadata.user_id"),
)


def _metric(name: str) -> tuple[Place, ...]:
    return (attribute("braintrust.metrics", inside(name, of=read_number)),)


BRAINTRUST: Final = Convention(
    kinds={
        attribute("braintrust.span_attributes", inside("type")): kinds(
            model="llm", tool="tool", evaluator="score", other="task eval"
        )
    },
    input=attributes("braintrust.input_json"),
    output=attributes("braintrust.output_json"),
    input_tokens=_metric("prompt_tokens"),
    output_tokens=_metric("completion_tokens"),
    cache_read=_metric("prompt_cached_tokens"),
    cache_write=_metric("prompt_cache_creation_tokens"),
    total_tokens=_metric("tokens"),
    model=(attribute("braintrust.metadata", inside("model")),),
    tool_arguments=attributes("braintrust.input_json"),
    tool_result=attributes("braintrust.output_json"),
)

DIFY: Final = Convention(
    kinds={
        attribute("gen_ai.span.kind"): kinds(
            model="LLM", embedding="EMBEDDING", tool="TOOL", other="RETRIEVER TASK AGENT CHAIN"
        )
    },
)

LAMINAR: Final = Convention(
    kinds={
        attribute("lmnr.span.type"): kinds(
            model="LLM", tool="TOOL", evaluator="EVALUATOR", other="DEFAULT"
        )
    },
    session=attributes("lmnr.association.properties.session_id"),
    user=attributes("lmnr.association.properties.user_id"),
)

LITELLM: Final = Convention(cost=numbers("gen_ai.cost.total_cost", "litellm.cost.total"))
