"""The format of a benchmark file: scenarios of tasks, servers, evaluators and defaults.

`mosaico.harness.mcp.plan_builder` applies the defaults; the result is defined in `mosaico.harness.mcp.plan`.
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

from mosaico.harness.harness_config import ThinkingTokens
from mosaico.llm.conversation import PromptCache, ReasoningEffort, ThinkingMode, TurnSettings

UNKNOWN_KEYS: Final = "unknown_keys"
PROMPT_DELIMITER: Final = re.compile(r"^[ \t]*---PROMPT---[ \t\r]*$", re.MULTILINE)

DEFAULT_MODEL: Final = "openai/gpt-5.4-mini"
DEFAULT_TIMEOUT_S: Final = 120.0
DEFAULT_CONNECT_S: Final = 30.0
DEFAULT_MAX_TURNS: Final = 20

TaskName = Annotated[str, Field(min_length=1, max_length=200)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
SERVER_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"
VARIABLE_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
HEADER_NAME_PATTERN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
URL_PATTERN: Final = r"^(https?://|\$\{)"

ServerName = Annotated[str, Field(pattern=SERVER_NAME_PATTERN)]
VariableName = Annotated[str, Field(pattern=VARIABLE_PATTERN)]
HeaderName = Annotated[str, Field(pattern=HEADER_NAME_PATTERN)]
ServerNames: TypeAlias = ServerName | list[ServerName] | None
ModelName = Annotated[str, Field(min_length=1, max_length=200)]


URL_HINT: Final = "write a URL such as http://127.0.0.1:8931/mcp"
_HEADER_PATTERN: Final = re.compile(r"[\t -~]*")


def _is_mapping(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


class BenchmarkSection(BaseModel):
    """A mapping of the file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

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


MAX_MODEL_CHARS: Final = 400_000  # of one tool result; about 100,000 tokens


class TaskLimits(BenchmarkSection):
    """The budget of one task besides its timeout; None means no limit.

    `tool_chars` is the longest text of one tool result that the model reads, by default 400,000.
    """

    turns: Annotated[int, Field(ge=1, le=1000)] | None = None
    tool_chars: Annotated[int, Field(ge=100, le=MAX_MODEL_CHARS)] | None = None
    tokens: Annotated[int, Field(ge=1)] | None = None
    cost_usd: Annotated[float, Field(gt=0)] | None = None


class TaskTypeDefaults(BenchmarkSection):
    """Defaults of all tasks of one type."""

    timeout: Seconds | None = None
    server: ServerNames = None
    tags: list[str] = []


class DirectDefaults(TaskTypeDefaults):
    """Defaults of direct tasks."""

    tool: TaskName | None = None
    arguments: dict[str, JsonValue] = {}


class HarnessDefaults(TaskTypeDefaults):
    """Defaults of tasks for a model."""

    model: ModelName | None = None
    system_prompt: str | None = None
    limits: TaskLimits = TaskLimits()


class BenchmarkDefaults(BenchmarkSection):
    """Defaults of all tasks; the defaults of a task type override them."""

    timeout: Seconds = DEFAULT_TIMEOUT_S
    model: ModelName = DEFAULT_MODEL
    system_prompt: str | None = None
    limits: TaskLimits = TaskLimits()
    direct: DirectDefaults = DirectDefaults()
    harness: HarnessDefaults = HarnessDefaults()


class EndpointConfig(BenchmarkSection):
    """The model server: an address with the API of OpenAI or Anthropic, and the settings of
    requests.
    """

    provider: Literal["openai", "openai-responses", "anthropic"] = "openai"
    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    max_output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    reasoning_effort: Annotated[ReasoningEffort, Field(strict=False)] | None = None
    thinking: Annotated[ThinkingMode, Field(strict=False)] | None = None
    thinking_tokens: ThinkingTokens | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    prompt_cache: Annotated[PromptCache, Field(strict=False)] | None = None

    def turn_settings(self) -> TurnSettings:
        return TurnSettings.of(self)


class AcceptedReply(BenchmarkSection):
    """The content with which every request of a server is accepted."""

    accept: dict[str, JsonValue]


class SampledReply(BenchmarkSection):
    """The text that a server gets instead of a model's answer."""

    text: str


class ReadyCheck(BenchmarkSection):
    """A call that is repeated until its result matches: some servers answer before they are ready."""

    tool: TaskName
    arguments: dict[str, JsonValue] = {}
    regex: Annotated[str, Field(min_length=1)]


class ServerBase(BenchmarkSection):
    """The keys of all servers: when they are ready, and the replies to their requests.

    Without a reply the server is told that the client has no such capability. A request to open a
    URL is always declined.
    """

    ready: ReadyCheck | None = None
    elicitation: Literal["decline", "cancel"] | AcceptedReply | None = None
    sampling: Literal["decline"] | SampledReply | None = None


class StdioServer(ServerBase):
    """An MCP server that runs as a program and communicates over its standard streams.

    Its environment holds `PATH`, `env`, and the variables of the host that `pass_env` names.
    """

    type: Literal["stdio"]
    command: TaskName
    args: list[str] = []
    env: dict[VariableName, str] = Field(default={}, repr=False)
    pass_env: list[VariableName] = []
    timeout: Seconds = DEFAULT_CONNECT_S


def _require_host(url: str) -> str:
    """The URL, unless it has no host. A URL with an unexpanded variable cannot be checked yet."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host and "${" not in url:
        raise PydanticCustomError("address", URL_HINT)
    return url


def _clean_header(value: str) -> str:
    """The value without surrounding spaces. The error omits the value: it may be a secret."""
    if not _HEADER_PATTERN.fullmatch(value):
        raise PydanticCustomError(
            "header",
            "a header must be one line of printable ASCII; check the value of its variable",
        )
    return value.strip()


HeaderValue = Annotated[str, AfterValidator(_clean_header)]


class HttpServer(ServerBase):
    """An MCP server at a URL, over streamable HTTP or over the older HTTP+SSE."""

    type: Literal["http", "sse"]
    url: Annotated[str, Field(pattern=URL_PATTERN), AfterValidator(_require_host)]
    headers: dict[HeaderName, HeaderValue] = Field(default={}, repr=False)
    timeout: Seconds = DEFAULT_CONNECT_S


ServerConfig = Annotated[StdioServer | HttpServer, Field(discriminator="type")]


def _task_type(value: Any) -> str:
    return str(value.get("type", "harness")) if _is_mapping(value) else "harness"


def _evaluator_form(value: Any) -> str:
    return "name" if isinstance(value, str) else "inline"


class EvaluatorConfig(BenchmarkSection):
    """The evaluation of an answer: by expected content, by a pattern, by a judge, or by several
    evaluators.

    `expected` is a text or number that the answer must contain, `{regex: …}` for a pattern, a list
    of which all elements must be found, or a mapping that a JSON object in the answer must include.
    `checks` configures other evaluators by name. A judge passes an answer from `min_score` on, by
    default from half of its scale.
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

    @model_validator(mode="before")
    @classmethod
    def _default_min_score(cls, value: Any) -> Any:
        """A judge without `min_score` gets half of its scale; an invalid scale is reported as such."""
        if (
            not _is_mapping(value)
            or value.get("prompt") is None
            or value.get("min_score") is not None
        ):
            return value
        scale = value.get("scale", 100)
        return {**value, "min_score": scale / 2} if type(scale) is int else value


class TaskType(StrEnum):
    """The type of a task: a model works on it, or one tool is called without a model."""

    HARNESS = "harness"
    DIRECT = "direct"


EvaluatorOfTask = Annotated[
    Annotated[TaskName, Tag("name")] | Annotated[EvaluatorConfig, Tag("inline")],
    Discriminator(_evaluator_form),
]


class TaskBase(BenchmarkSection):
    """The keys of both task types."""

    name: TaskName
    server: ServerNames = None
    timeout: Seconds | None = None
    tags: list[str] = []
    evaluate: EvaluatorOfTask | None = None


class Verification(BenchmarkSection):
    """A call of one tool after the conversation; its result is evaluated like an answer.

    Without `evaluate` the call must succeed. The model does not see a `server` that only
    verifications name; without `server` the tool is one of any server of the task.
    """

    tool: TaskName
    server: ServerName | None = None
    arguments: dict[str, JsonValue] = {}
    evaluate: EvaluatorOfTask | None = None


class HarnessTask(TaskBase):
    """A prompt for a model, with the tools of any number of servers.

    A line `---PROMPT---` separates the prompts of one conversation. `verify` checks what the model
    did, when the conversation has ended.
    """

    type: Literal["harness"] = "harness"
    prompt: Annotated[str, Field(min_length=1)]
    model: ModelName | None = None
    system_prompt: str | None = None
    limits: TaskLimits = TaskLimits()
    verify: list[Verification] = []


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
    """A group of tasks.

    With `share_servers` the tasks use the same server processes; otherwise each task starts its own.
    With `in_order` the tasks run one after the other in the order of the file; other scenarios run
    at the same time.
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


def servers_of(task: HarnessTask | DirectTask, defaults: TaskTypeDefaults) -> list[str]:
    """The names of the servers of a task: its own, or the default of its type."""
    names = task.server if "server" in task.model_fields_set else defaults.server
    return [names] if isinstance(names, str) else list(names or [])


def verifications_of(task: HarnessTask | DirectTask) -> list[Verification]:
    """The verifications of a task; a direct task has none: its own result is evaluated."""
    return task.verify if isinstance(task, HarnessTask) else []


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
