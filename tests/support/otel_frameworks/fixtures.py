"""Spans of many frameworks, each with the result that was worked out by hand.

`RECORDED` were exported by the named versions, with a model server on this machine, and shortened. The others follow the
sources of the named versions. In all of them an agent is asked for the weather in Rome.
"""

import json
from pathlib import Path
from typing import Any, Final

from tests.support.otel_frameworks.form import (
    ANSWER,
    CALL_TEXT,
    Expected,
    Fixture,
)
from tests.support.otel_frameworks.frameworks import FRAMEWORKS
from tests.support.otel_frameworks.libraries import LIBRARIES

FOLDER: Final = Path(__file__).parent / "recorded"


def _recorded(
    framework: str, version: str, file: str, expected: Expected, note: str = ""
) -> Fixture:
    spans = json.loads((FOLDER / f"{file}.json").read_text())
    return Fixture(
        framework=framework,
        version=version,
        spans=spans,
        expected=expected,
        origin="recorded",
        note=note,
    )


# The model server answers with 30 and 9 tokens, then with 40 and 6; 8 tokens of each input come from the cache.

_BOTH: Final[dict[str, Any]] = {"tokens": (70, 15), "turns": 2, "tools": ("look_up",)}

RECORDED: Final = (
    _recorded("pydantic-ai", "2.68.0", "pydantic_ai_2.68.0", Expected(**_BOTH, cached="inside", session="01a22359-2dd9-77fb-936c-07eaaa442692")),
    _recorded("logfire, OpenAI", "5.4.0", "logfire_openai_5.4.0", Expected(**_BOTH, cached="inside")),
    _recorded("OpenInference, OpenAI", "0.1.66", "openinference_openai_0.1.66", Expected(**_BOTH, cached="inside")),
    _recorded("OpenInference, LangChain", "0.1.80", "openinference_langchain_0.1.80", Expected(**_BOTH, cached="inside", session="s-1")),
    # The agent of smolagents ran two steps, and asked a third time for its answer.
    _recorded("OpenInference, smolagents", "0.1.43", "openinference_smolagents_0.1.43", Expected(tokens=(90, 27), turns=3, tools=("look_up", "look_up"))),
    _recorded("traceloop, OpenAI", "0.62.4", "traceloop_openai_0.62.4", Expected(**_BOTH, cached="inside")),
    _recorded("Strands Agents", "1.62.0", "strands_1.62.0", Expected(**_BOTH, output=f"{ANSWER}\n", cached="inside")),
    _recorded("Langfuse SDK", "5.0.4", "langfuse_5.0.4", Expected(**_BOTH, cached="inside")),
    _recorded("MLflow", "3.17.2", "mlflow_3.17.2", Expected(**_BOTH, cached="inside"), "openai.autolog"),
    _recorded("OpenLIT", "1.45.0", "openlit_1.45.0_openai", Expected(**_BOTH, cached="inside"), "OpenAI"),
    # The model server of Anthropic counts the 8 cached tokens apart: 22 and 32.
    _recorded("OpenLIT", "1.45.0", "openlit_1.45.0_anthropic", Expected(**_BOTH, cached="added"), "Anthropic"),
    _recorded("OpenInference, LlamaIndex", "4.6.1", "openinference_llama_index_4.6.1", Expected(**_BOTH, cached="inside")),
    # The question is in logs alone.
    _recorded("Semantic Kernel", "1.45.0", "semantic_kernel_1.45.0", Expected(**{**_BOTH, "tools": ("Weather-look_up",)}, input=None)),
    _recorded("Google ADK", "2.13.0", "google_adk_2.13.0", Expected(**_BOTH, cached="inside", session="s-1"), "SPAN_ONLY"),
    _recorded("Google ADK", "2.13.0", "google_adk_2.13.0_schema_1", Expected(**_BOTH, cached="inside", session="s-1"), "schema 1"),
    _recorded("Genkit", "1.42.0", "genkit_1.42.0", Expected(**_BOTH, cached="inside")),
    # The inputs of a crew are its variables.
    _recorded("CrewAI", "1.15.30", "crewai_1.15.30", Expected(**_BOTH, input=CALL_TEXT, cached="inside", session="s-1")),
    _recorded("Vercel AI SDK", "5.0.277", "ai_sdk_5.0.277_generate", Expected(**_BOTH, cached="inside", session="s-1"), "generateText"),
    _recorded("Vercel AI SDK", "5.0.277", "ai_sdk_5.0.277_stream", Expected(**_BOTH, cached="inside", session="s-1"), "streamText"),
    _recorded("Vercel AI SDK", "6.0.326", "ai_sdk_6.0.326_generate", Expected(**_BOTH, cached="inside", session="s-1"), "generateText"),
    _recorded("Vercel AI SDK", "6.0.326", "ai_sdk_6.0.326_stream", Expected(**_BOTH, cached="inside", session="s-1"), "streamText"),
    _recorded("Vercel AI SDK", "7.0.173", "ai_sdk_7.0.173_generate", Expected(**_BOTH, cached="inside")),
)  # fmt: skip

FIXTURES: Final = (*RECORDED, *FRAMEWORKS, *LIBRARIES)
