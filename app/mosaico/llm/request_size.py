"""Estimates of the tokens of a request before it is sent, from the bytes of its texts and from what
earlier requests turned out to take.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mosaico.llm.conversation import ChatMessage, TextBlock, ThinkingBlock, Tool, ToolResultBlock
from mosaico.llm.types import ChatRequest, EmbeddingRequest, RequestBatch

# Of English text a token has four bytes, of code and JSON three to four, of Chinese three: the
# estimate is rather too high than too low.
BYTES_PER_TOKEN: Final = 3
# Roles and delimiters around each message.
TOKENS_PER_MESSAGE: Final = 4


@dataclass(slots=True)
class TokenEstimate:
    """Corrects estimates by the answers: the highest number of tokens per estimated one so far."""

    ratio: float | None = None

    def correct(self, estimated_tokens: int) -> int:
        """The expected tokens; the estimate itself before the first answer."""
        return math.ceil(estimated_tokens * (1.0 if self.ratio is None else self.ratio))

    def learn(self, estimated_tokens: int, actual_tokens: int) -> None:
        """Take the tokens of an answered request into account."""
        if estimated_tokens > 0:
            self.ratio = max(actual_tokens / estimated_tokens, self.ratio or 0.0)


def estimate_tokens(text: str) -> int:
    """The tokens of a text, rather too many than too few; 0 of an empty one."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def estimate_conversation(
    system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
) -> int:
    """The input tokens of a request for a turn."""
    schemas = [f"{tool.name}{tool.description}{json.dumps(tool.schema)}" for tool in tools]
    texts = [system, *schemas, *map(_sent_text, messages)]
    return sum(map(estimate_tokens, texts)) + TOKENS_PER_MESSAGE * (len(messages) + 1)


def estimate_batch(batch: RequestBatch) -> int:
    """The input tokens of a batch of metrics."""
    texts = [
        text
        for request in batch
        for text in (
            [request.text]
            if isinstance(request, EmbeddingRequest)
            else [message.content for message in request.messages]
        )
    ]
    counts_messages = sum(
        len(request.messages) for request in batch if isinstance(request, ChatRequest)
    )
    return sum(map(estimate_tokens, texts)) + TOKENS_PER_MESSAGE * counts_messages


def _sent_text(message: ChatMessage) -> str:
    """What is sent of a message: that of a model as its provider sent it."""
    if message.wire is not None:
        return json.dumps(message.wire.items, ensure_ascii=False)
    return "".join(
        block.text
        if isinstance(block, TextBlock | ThinkingBlock)
        else block.content
        if isinstance(block, ToolResultBlock)
        else f"{block.name}{json.dumps(block.input, ensure_ascii=False)}"
        for block in message.content
    )
