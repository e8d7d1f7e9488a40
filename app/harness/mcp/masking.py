"""Masks secrets in the results of an ot-bench run."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from app.core.text import map_json_texts
from app.harness.mcp.types import (
    AttemptEnded,
    AttemptError,
    Content,
    Evaluation,
    Event,
    McpToolCall,
    TaskResult,
    Traced,
)
from app.llm.conversation import Block, ChatMessage, TextBlock, ThinkingBlock, ToolUseBlock

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
    return replace(message, content=tuple(_mask_block(block, mask) for block in message.content))


def _mask_block(block: Block, mask: Mask) -> Block:
    if isinstance(block, TextBlock):
        return replace(block, text=mask(block.text))
    if isinstance(block, ThinkingBlock):
        return replace(block, text=mask(block.text), wire=map_json_texts(block.wire, mask))
    if isinstance(block, ToolUseBlock):
        return replace(
            block, input=map_json_texts(block.input, mask), flaw=block.flaw and mask(block.flaw)
        )
    return replace(block, content=mask(block.content))
