"""A benchmark file as it is written: scenarios of tasks, the servers and evaluators they name.

What the defaults of a file leave to a task is settled in `app.harness.mcp.plan_builder`; whoever runs
tasks works with `app.harness.mcp.plan`.
"""

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeGuard
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

UNKNOWN_KEYS: Final = "unknown_keys"
PROMPT_DELIMITER: Final = re.compile(r"^[ \t]*---PROMPT---[ \t\r]*$", re.MULTILINE)

DEFAULT_MODEL: Final = "openai/gpt-5-mini"
DEFAULT_TIMEOUT_S: Final = 120.0
DEFAULT_CONNECT_S: Final = 30.0
DEFAULT_MAX_TURNS: Final = 20

TaskName = Annotated[str, Field(min_length=1, max_length=200)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
ServerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
ServerNames: TypeAlias = ServerName | list[ServerName] | None
ModelName = Annotated[str, Field(min_length=1, max_length=200)]


_HEADER_PATTERN: Final = re.compile(r"[\t -~]*")


def _is_mapping(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


class BenchmarkSection(BaseModel):
    """A mapping of the file; keys that it does not know are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, value: Any) -> Any:
        unknown_keys = (
            [key for key in value if key not in cls.model_fields] if _is_mapping(value) else []
        )
        if unknown_keys:
            known_keys = list(cls.model_fields)
            raise PydanticCustomError(UNKNOWN_KEYS, "", {"keys": unknown_keys, "known": known_keys})
        return value


class TaskLimits(BenchmarkSection):
    """What one task may use besides its time; without a number there is no such limit."""

    turns: Annotated[int, Field(ge=1, le=1000)] | None = None
    tokens: Annotated[int, Field(ge=1)] | None = None
    cost_usd: Annotated[float, Field(gt=0)] | None = None


class TaskTypeDefaults(BenchmarkSection):
    """What all tasks of one type have unless they say otherwise."""

    timeout: Seconds | None = None
    server: ServerNames = None
    tags: list[str] = []


class DirectDefaults(TaskTypeDefaults):
    """What all direct tasks have unless they say otherwise."""

    tool: TaskName | None = None
    arguments: dict[str, JsonValue] = {}


class HarnessDefaults(TaskTypeDefaults):
    """What all tasks of a model have unless they say otherwise."""

    model: ModelName | None = None
    system_prompt: str | None = None
    limits: TaskLimits = TaskLimits()


class BenchmarkDefaults(BenchmarkSection):
    """What tasks have unless they or the defaults of their type say otherwise."""

    timeout: Seconds = DEFAULT_TIMEOUT_S
    model: ModelName = DEFAULT_MODEL
    system_prompt: str | None = None
    limits: TaskLimits = TaskLimits()
    direct: DirectDefaults = DirectDefaults()
    harness: HarnessDefaults = HarnessDefaults()


class EndpointConfig(BenchmarkSection):
    """Where models are asked: an address that speaks OpenAI's or Anthropic's format."""

    provider: Literal["openai", "openai-responses", "anthropic"] = "openai"
    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False)


class StdioServer(BenchmarkSection):
    """A server that is started as a program and spoken to over its standard streams.

    It gets `PATH`, `env`, and of the host what `pass_env` names; nothing else.
    """

    type: Literal["stdio"]
    command: TaskName
    args: list[str] = []
    env: dict[VariableName, str] = Field(default={}, repr=False)
    pass_env: list[VariableName] = []
    timeout: Seconds = DEFAULT_CONNECT_S


def _require_host(url: str) -> str:
    """The address itself; variables are not known yet when a file is only checked."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host and "${" not in url:
        raise PydanticCustomError("address", "write an address as http://127.0.0.1:8931/mcp")
    return url


def _clean_header(value: str) -> str:
    """The value without space around it; the message never tells it, since it may be a secret."""
    if not _HEADER_PATTERN.fullmatch(value):
        raise PydanticCustomError(
            "header", "a header is one line of visible ASCII; look at the value of its variable"
        )
    return value.strip()


HeaderValue = Annotated[str, AfterValidator(_clean_header)]


class HttpServer(BenchmarkSection):
    """A server that is reached over streamable HTTP."""

    type: Literal["http"]
    url: Annotated[str, Field(pattern=r"^(https?://|\$\{)"), AfterValidator(_require_host)]
    headers: dict[HeaderName, HeaderValue] = Field(default={}, repr=False)
    timeout: Seconds = DEFAULT_CONNECT_S


ServerConfig = Annotated[StdioServer | HttpServer, Field(discriminator="type")]


def _task_type(value: Any) -> str:
    return str(value.get("type", "harness")) if _is_mapping(value) else "harness"


def _evaluator_form(value: Any) -> str:
    return "name" if isinstance(value, str) else "inline"


class EvaluatorConfig(BenchmarkSection):
    """How an answer is judged: by what it must contain, by a pattern, by a model, or several.

    `expected` is a text or number that the answer contains, `{regex: …}` for a pattern that is found
    in it, a list of which it contains all, or a mapping that the JSON of the answer has; `checks`
    are those of plugins, by name.
    """

    expected: JsonValue = None
    expect_error: bool = False
    regex: str | None = None
    expect_match: bool = True
    prompt: str | None = None
    model: ModelName | None = None
    scale: Literal[1, 100] = 100
    min_score: Annotated[float, Field(ge=0, le=100)] | None = None
    checks: dict[str, JsonValue] = {}


class TaskType(StrEnum):
    """Whether a model works on the task, or one tool is called without any."""

    HARNESS = "harness"
    DIRECT = "direct"


class TaskBase(BenchmarkSection):
    """What tasks of both types have."""

    name: TaskName
    server: ServerNames = None
    timeout: Seconds | None = None
    tags: list[str] = []
    evaluate: (
        Annotated[
            Annotated[TaskName, Tag("name")] | Annotated[EvaluatorConfig, Tag("inline")],
            Discriminator(_evaluator_form),
        ]
        | None
    ) = None


class HarnessTask(TaskBase):
    """A prompt for a model, with the tools of no, one or several servers.

    A line `---PROMPT---` ends one prompt and begins the next of the same conversation.
    """

    type: Literal["harness"] = "harness"
    prompt: Annotated[str, Field(min_length=1)]
    model: ModelName | None = None
    system_prompt: str | None = None
    limits: TaskLimits = TaskLimits()


class DirectTask(TaskBase):
    """A call of one tool, without a model."""

    type: Literal["direct"]
    tool: TaskName | None = None
    arguments: dict[str, JsonValue] = {}


TaskConfig = Annotated[
    Annotated[HarnessTask, Tag("harness")] | Annotated[DirectTask, Tag("direct")],
    Discriminator(_task_type),
]


class Scenario(BenchmarkSection):
    """Tasks that belong together.

    With `share_servers` its tasks use the same started servers; otherwise each starts its own. With
    `in_order` they run one after the other as they stand there, beside those of other scenarios.
    """

    name: TaskName
    description: str | None = None
    share_servers: bool = False
    in_order: bool = False
    tasks: Annotated[list[TaskConfig], Field(min_length=1)]


class McpBenchmark(BenchmarkSection):
    """A whole benchmark file."""

    description: str | None = None
    llm: EndpointConfig = EndpointConfig()
    defaults: BenchmarkDefaults = BenchmarkDefaults()
    servers: dict[ServerName, ServerConfig] = {}
    evaluators: dict[TaskName, EvaluatorConfig] = {}
    scenarios: Annotated[list[Scenario], Field(min_length=1)]


def split_prompts(text: str) -> tuple[str, ...]:
    """The parts of a prompt between its delimiter lines, stripped; empty parts are dropped."""
    parts = (part.strip() for part in PROMPT_DELIMITER.split(text))
    return tuple(part for part in parts if part)


def benchmark_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a benchmark file before its variables are expanded."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **McpBenchmark.model_json_schema(),
        "title": "ot-bench",
    }
