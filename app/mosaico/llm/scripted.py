"""A model that follows a script: for trials and tests without an API key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mosaico.llm.conversation import (
    Block,
    ChatMessage,
    MessageRole,
    StopReason,
    TextBlock,
    Tool,
    ToolUseBlock,
    Turn,
    Usage,
)
from mosaico.llm.errors import LlmError

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The commands of each turn, and the final answer."""

    turns: tuple[tuple[str, ...], ...]
    answer: str = "Done."


class ScriptedLlm:
    """Follows the script for the first message; tokens are estimated by length."""

    provider = "scripted"

    def __init__(self, model: str, scripts: Mapping[str, Script]) -> None:
        self.model = model
        self._scripts = scripts

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        """The next turn of the script. Raises: LlmError when there is none for the task."""
        script = self._scripts.get(messages[0].text())
        if script is None:
            raise LlmError("the script has no entry for this task")
        turn_number = sum(message.role is MessageRole.ASSISTANT for message in messages)
        commands = script.turns[turn_number] if turn_number < len(script.turns) else ()
        content: list[Block] = [
            ToolUseBlock(
                id=f"call-{turn_number}-{n}", name=tools[0].name, input={"commands": command}
            )
            for n, command in enumerate(commands)
        ]
        if not commands:
            content.append(TextBlock(text=script.answer))
        read = len(system) + sum(len(str(message)) for message in messages)
        return Turn(
            message=ChatMessage(role=MessageRole.ASSISTANT, content=tuple(content)),
            stop=StopReason.TOOL_USE if commands else StopReason.END,
            usage=Usage(
                input_tokens=read // CHARS_PER_TOKEN,
                output_tokens=len(str(content)) // CHARS_PER_TOKEN,
            ),
        )

    async def close(self) -> None:
        """No connection is open."""
