"""The secrets file, the expansion of `${NAME}` and `${NAME:-default}` in benchmark files, and the masks of secrets in results."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from mosaico.core.errors import UnusableInput
from mosaico.core.text import map_json_texts
from mosaico.harness.mcp.types import (
    AttemptEnded,
    AttemptError,
    Content,
    Evaluation,
    Event,
    McpToolCall,
    TaskResult,
    Traced,
)
from mosaico.harness.mcp.yaml_parser import MAX_BYTES, InvalidYaml, parse_yaml
from mosaico.llm.conversation import Block, ChatMessage, TextBlock, ThinkingBlock, ToolUseBlock

SECRETS_FILE: Final = "bench-secrets.yaml"

_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{[^}]*\}?")


class UndefinedVariable(Exception):
    """A variable has no value and no default."""


class MalformedVariable(Exception):
    """A `${` does not begin a variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The values of a secrets file; `searched_paths` are the paths that were tried."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    searched_paths: tuple[Path, ...] = ()

    def location(self) -> str:
        return " or ".join(map(str, self.searched_paths)) or SECRETS_FILE


def find_secrets(path: Path | None) -> Secrets:
    """The values of the file at `path`, of the project's file, or of the file in the user's config folder.

    The default files may be missing. Raises: UnusableInput, also when `path` does not exist.
    """
    if path is not None:
        if not path.exists():
            raise UnusableInput(
                f"{path} does not exist", hint="name an existing file with --secrets"
            )
        return read_secrets(path)
    default_paths = default_secrets_paths()
    existing_path = next((path for path in default_paths if path.exists()), None)
    return (
        Secrets(searched_paths=default_paths)
        if existing_path is None
        else read_secrets(existing_path)
    )


def default_secrets_paths() -> tuple[Path, ...]:
    """The default paths of the secrets file: in the project, then in the user's config folder."""
    # Only a run without --secrets needs it.
    import platformdirs

    return (
        Path("config") / SECRETS_FILE,
        Path(platformdirs.user_config_dir("mosaico")) / SECRETS_FILE,
    )


def read_secrets(path: Path) -> Secrets:
    """The values of a file. Errors never quote its content. Raises UnusableInput."""
    try:
        with path.open("rb") as file:
            document = parse_yaml(file.read(MAX_BYTES + 1), texts_only=True)
    except OSError as error:
        raise UnusableInput(
            f"{path} cannot be read: {error.strerror}", hint="give this user read permission"
        ) from None
    except InvalidYaml as bad:
        raise UnusableInput(
            f"{path}:{bad.position.line}:{bad.position.column}: not a `NAME: value` pair",
            hint="write one `NAME: value` per line, and quote values with special characters",
        ) from None
    values = {} if document.value in (None, "") else document.value
    if not isinstance(values, dict) or not all(isinstance(text, str) for text in values.values()):
        raise UnusableInput(f"{path} must contain only `NAME: value` pairs")
    return Secrets(values=values, searched_paths=(path,))


def expand_variables(text: str, find_value: Callable[[str], str | None]) -> str:
    """The text with its variables expanded once; `$${` is an escaped `${`.

    Raises: UndefinedVariable, MalformedVariable.
    """

    def value_of(match: "re.Match[str]") -> str:
        name, has_default, default = match.group(1, 2, 3)
        if match.group() == "$${":
            return "${"
        if name is None:
            raise MalformedVariable(
                f"{match.group()!r:.60} is not a variable; write ${{NAME}}, or $${{ for a "
                "literal ${"
            )
        value = find_value(name)
        if value is not None:
            return value
        if has_default:
            return str(default)
        raise UndefinedVariable(f"the variable {name} has no value")

    return _VARIABLE.sub(value_of, text)


Mask: TypeAlias = Callable[[str], str]


def mask_event(event: Event, mask: Mask) -> Event:
    """The event with its texts masked: those of an attempt, or the traced line."""
    if isinstance(event, AttemptEnded):
        return replace(event, result=mask_result(event.result, mask))
    return replace(event, line=mask(event.line)) if isinstance(event, Traced) else event


def mask_result(result: TaskResult, mask: Mask) -> TaskResult:
    """The attempt with every text masked that its model, tools, evaluators or error wrote."""
    return replace(
        result,
        error=result.error and _mask_error(result.error, mask),
        response=result.response and mask(result.response),
        evaluations=tuple(_mask_evaluation(evaluation, mask) for evaluation in result.evaluations),
        tool_calls=tuple(_mask_call(call, mask) for call in result.tool_calls),
        messages=tuple(_mask_message(message, mask) for message in result.messages),
    )


def _mask_error(error: AttemptError, mask: Mask) -> AttemptError:
    return replace(error, detail=mask(error.detail))


def _mask_evaluation(evaluation: Evaluation, mask: Mask) -> Evaluation:
    return replace(
        evaluation,
        reason=mask(evaluation.reason),
        expected=evaluation.expected and mask(evaluation.expected),
        actual=evaluation.actual and mask(evaluation.actual),
    )


def _mask_call(call: McpToolCall, mask: Mask) -> McpToolCall:
    return replace(
        call,
        arguments=map_json_texts(call.arguments, mask),
        text=mask(call.text),
        content=tuple(_mask_content(content, mask) for content in call.content),
    )


def _mask_content(content: Content, mask: Mask) -> Content:
    return replace(content, text=content.text and mask(content.text))


def _mask_message(message: ChatMessage, mask: Mask) -> ChatMessage:
    wire = message.wire
    if wire is not None:
        items = tuple(map_json_texts(item, mask) for item in wire.items)
        wire = replace(wire, items=items)
    content = tuple(_mask_block(block, mask) for block in message.content)
    return replace(message, content=content, wire=wire)


def _mask_block(block: Block, mask: Mask) -> Block:
    if isinstance(block, TextBlock | ThinkingBlock):
        return replace(block, text=mask(block.text))
    if isinstance(block, ToolUseBlock):
        return replace(
            block, input=map_json_texts(block.input, mask), flaw=block.flaw and mask(block.flaw)
        )
    return replace(block, content=mask(block.content))
