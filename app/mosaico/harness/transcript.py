"""The transcript of a trace: what the model and its tools wrote, step by step.

A transcript is stored with its trace, sent by the API, and printed by the commands: it is one typed
and versioned document for every source that can show what its agent did.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from mosaico.core.text import cut_middle, map_json_texts, replace_unstorable_in_json
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

# A longer text keeps its beginning and its end: both explain a failure, the middle rarely does.
MAX_TEXT_CHARS: Final = 32 * 1024
# All texts of a transcript: 1000 traces of the largest size are one gigabyte.
MAX_TRANSCRIPT_CHARS: Final = 1024 * 1024

_WIRE: Final = ConfigDict(
    alias_generator=to_camel,
    validate_by_name=True,
    serialize_by_alias=True,
    extra="forbid",
    # Most commands and processes read no transcript.
    defer_build=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptRequest:
    """The request that produced a message of the model.

    Tokens are None when the server did not report them; those read from and written to a cache are
    part of the input, and None without any. `latency_ms` is the time from the first
    attempt to the response; `waited_ms` is the part of it between attempts, and `retries` the number
    of attempts after the first.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    latency_ms: float | None = None
    waited_ms: float | None = None
    retries: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptMessage:
    """A message of the system, the user or the model.

    `thinking` is what the model showed of its reasoning. `wire` is the message as its provider sent
    it, with signatures and encrypted thoughts. `request` belongs to the model's messages.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE

    role: Literal["system", "user", "assistant"]
    text: str
    thinking: str | None = None
    wire: tuple[Mapping[str, Any], ...] | None = None
    request: TranscriptRequest | None = None
    kind: Literal["message"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptToolCall:
    """A tool call of the model. `output` is the result as the model received it; None without one.

    `stdout`, `stderr` and `exit_code` are those of a command.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE

    tool: str
    arguments: Mapping[str, Any] | None = None
    output: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None
    is_error: bool = False
    duration_ms: float | None = None
    kind: Literal["toolCall"] = "toolCall"

    @property
    def command(self) -> str | None:
        """The command of a bash call; None for any other tool."""
        arguments = self.arguments or {}
        command = arguments.get("commands", arguments.get("script"))
        return command if isinstance(command, str) else None


TranscriptStep: TypeAlias = TranscriptMessage | TranscriptToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The steps of an attempt in order.

    `omitted_steps` counts the steps that were left out of the middle, because the transcript
    exceeds its size limit; `gap_at` is the number of steps before them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE

    steps: tuple[Annotated[TranscriptStep, Field(discriminator="kind")], ...]
    omitted_steps: int = 0
    gap_at: int = 0
    version: Literal[1] = 1


@cache
def _adapter() -> TypeAdapter[Transcript]:
    # At its first use: most files of results have no transcripts.
    return TypeAdapter(Transcript)


def build_transcript(
    messages: Sequence[ChatMessage],
    tool_calls: Sequence[TranscriptToolCall] = (),
    *,
    system: str | None = None,
    requests: Iterable[TranscriptRequest] = (),
) -> Transcript:
    """The transcript of a conversation; of the tool calls alone when there are no messages.

    `tool_calls` are the recorded calls in the order of the model's calls, whose arguments are shown.
    When their numbers differ, each call is shown as the messages have it. `requests` belong to the messages of the model.
    """
    if not messages:
        return Transcript(steps=tuple(tool_calls))
    calls = list(_calls_in(messages))
    if len(tool_calls) == len(calls):
        pairs = zip(tool_calls, calls, strict=True)
        calls = [replace(recorded, arguments=call.arguments) for recorded, call in pairs]
    next_call = iter(calls)
    next_request = iter(requests)
    steps: list[TranscriptStep] = []
    if system:
        steps.append(TranscriptMessage(role="system", text=system))
    for message in messages:
        # A result is shown with its call.
        if message.role is MessageRole.USER:
            steps.append(TranscriptMessage(role="user", text=message.text()))
        elif message.role is MessageRole.ASSISTANT:
            request = next(next_request, None)
            steps.append(_model_message(message, request))
            steps.extend(next(next_call) for _ in message.tool_uses())
    return Transcript(steps=tuple(steps))


def _model_message(message: ChatMessage, request: TranscriptRequest | None) -> TranscriptMessage:
    thoughts = [block.text for block in message.content if isinstance(block, ThinkingBlock)]
    return TranscriptMessage(
        role="assistant",
        text=message.text(),
        thinking="\n".join(filter(None, thoughts)) or None,
        wire=message.wire.items if message.wire is not None else None,
        request=request,
    )


def document_of(transcript: Transcript) -> dict[str, Any]:
    """The JSON document to store: limited in size, with storable texts."""
    document: dict[str, Any] = replace_unstorable_in_json(_dump(limit_size(transcript)))
    return document


def map_texts(transcript: Transcript, change: Callable[[str], str]) -> Transcript:
    """The transcript with every text and every text in arguments changed; names and keys stay."""
    return replace(transcript, steps=tuple(_map_step(step, change) for step in transcript.steps))


def parse_transcript(document: Any) -> Transcript:
    """The transcript of a stored document. Raises: pydantic.ValidationError."""
    return _adapter().validate_python(document)


def limit_size(transcript: Transcript) -> Transcript:
    """The transcript with cut texts, and above the limit without steps of its middle."""
    steps = [_cut_texts(step) for step in transcript.steps]
    sizes = [_size(step) for step in steps]
    if sum(sizes) <= MAX_TRANSCRIPT_CHARS:
        return replace(transcript, steps=tuple(steps))
    half = MAX_TRANSCRIPT_CHARS // 2
    first_count = sum(size <= half for size in accumulate(sizes))
    last_count = sum(size <= half for size in accumulate(reversed(sizes)))
    kept_steps = (*steps[:first_count], *steps[len(steps) - last_count :])
    omitted = transcript.omitted_steps + len(steps) - len(kept_steps)
    return Transcript(steps=kept_steps, omitted_steps=omitted, gap_at=first_count)


def _size(step: TranscriptStep) -> int:
    if isinstance(step, TranscriptMessage):
        return len(step.text) + len(step.thinking or "") + len(str(step.wire or ""))
    texts = (step.tool, step.output, step.stdout, step.stderr)
    return len(str(step.arguments)) + sum(len(text) for text in texts if text is not None)


def _map_step(step: TranscriptStep, change: Callable[[str], str]) -> TranscriptStep:
    if isinstance(step, TranscriptMessage):
        thinking = step.thinking and change(step.thinking)
        wire = step.wire and tuple(map_json_texts(item, change) for item in step.wire)
        return replace(step, text=change(step.text), thinking=thinking, wire=wire)
    return replace(
        step,
        arguments=map_json_texts(step.arguments, change),
        output=step.output and change(step.output),
        stdout=step.stdout and change(step.stdout),
        stderr=step.stderr and change(step.stderr),
    )


def _cut_texts(step: TranscriptStep) -> TranscriptStep:
    """The step with its texts cut, and the names that the model chose: its tool and its keys."""
    cut_step = _map_step(step, _cut)
    if isinstance(cut_step, TranscriptMessage):
        wire = cut_step.wire and tuple(
            replace_unstorable_in_json(item, _cut) for item in cut_step.wire
        )
        return replace(cut_step, wire=wire)
    arguments = replace_unstorable_in_json(cut_step.arguments, _cut)
    return replace(cut_step, tool=_cut(cut_step.tool), arguments=arguments)


def _cut(text: str) -> str:
    return cut_middle(text, MAX_TEXT_CHARS)


def _calls_in(messages: Sequence[ChatMessage]) -> Iterator[TranscriptToolCall]:
    """The calls as the messages have them, with the results that the model received."""
    answers = {
        block.tool_use_id: block
        for message in messages
        for block in message.content
        if isinstance(block, ToolResultBlock)
    }
    for message in messages:
        for use in message.tool_uses():
            yield _call_in(use, answers.get(use.id))


def _call_in(use: ToolUseBlock, answer: ToolResultBlock | None) -> TranscriptToolCall:
    return TranscriptToolCall(
        tool=use.name,
        arguments=use.input,
        output=None if answer is None else answer.content,
        is_error=answer is None or answer.is_error,
    )


def _dump(transcript: Transcript) -> dict[str, Any]:
    document: dict[str, Any] = _adapter().dump_python(transcript, by_alias=True, exclude_none=True)
    return document
