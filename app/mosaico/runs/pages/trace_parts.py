"""Parts of a trace that its page and the page of an item share: values, usage, tool calls, and what differs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from mosaico.core.text import format_number
from mosaico.core.web.sparklines import time_bar
from mosaico.harness.transcript import (
    Transcript,
    TranscriptMessage,
    TranscriptStep,
    TranscriptToolCall,
)
from mosaico.run_store.models import TraceResult
from mosaico.runs.pages.answer_marks import MarkedAnswer, mark_answer
from mosaico.runs.pages.trace_texts import arguments_of, cut_text, tool_texts
from mosaico.runs.schemas import ToolCallView
from mosaico.traces.models import CollectedTrace

MAX_CALLS: Final = 50


class ReferenceTexts(NamedTuple):
    """The expected answers of a trace; `rule` says what several of them mean."""

    rule: str
    texts: list[str]


class ShownCall(NamedTuple):
    """A tool call: `ok` is None where its outcome is not known, `took` its time, and `bar` its place in the time of all."""

    name: str
    ok: bool | None
    took: str
    bar: Markup
    arguments: str | None
    results: list[tuple[str, str]]


class TraceDifference(NamedTuple):
    """What two traces have differently; None where a trace has none."""

    name: str
    before: str | None
    now: str | None


def list_references(trace: CollectedTrace | None) -> ReferenceTexts:
    """All expected answers of a trace; without any, no texts."""
    if trace is None:
        return ReferenceTexts("", [])
    if trace.expected_any:
        return ReferenceTexts(
            "one of them is enough", [cut_text(t) or "" for t in trace.expected_any]
        )
    if trace.expected_all:
        return ReferenceTexts(
            "an answer must fit all of them", [cut_text(t) or "" for t in trace.expected_all]
        )
    return ReferenceTexts(
        "", [cut_text(trace.expected_output) or ""] if trace.expected_output else []
    )


def mark_output(trace: CollectedTrace, *, is_right: bool | None) -> MarkedAnswer:
    """The answer of a trace beside its expected answers."""
    texts = list_references(trace).texts
    return mark_answer(cut_text(trace.output) or "", texts, is_right=is_right)


def list_values(columns: Sequence[str], result: TraceResult | None) -> list[dict[str, Any]]:
    """The values of a trace with the reason of a missing one, or that of the judge."""
    if result is None:
        return []
    notes = result.notes or {}
    return [
        {
            "metric": column,
            "value": write_number(value),
            "why": ", ".join(
                f"{key}: {text}" for key, text in notes.get(column, {}).items() if text
            ),
        }
        for column, value in zip(columns, result.values, strict=True)
    ]


def write_number(value: float | None) -> str | None:
    return None if value is None else format_number(value)


def list_usage(trace: CollectedTrace) -> list[tuple[str, str]]:
    """Tokens, cost, latency and turns, as far as the source reports them."""
    numbers = (
        ("Latency", trace.latency_ms, " ms"),
        ("Input tokens", trace.input_tokens, ""),
        ("Output tokens", trace.output_tokens, ""),
        ("Cost", trace.cost_usd, " USD"),
        ("Turns", trace.turns, ""),
    )
    return [
        (name, f"{format_number(value)}{unit}")
        for name, value, unit in numbers
        if value is not None
    ]


def list_calls(trace: CollectedTrace, transcript: Transcript | None) -> list[ShownCall]:
    """The tool calls of a trace with their results, which only a transcript has; at most 50."""
    steps = [
        step for step in (transcript.steps if transcript else ()) if isinstance(step, TranscriptToolCall)
    ]  # fmt: skip
    reported = [ToolCallView.model_validate(call) for call in trace.tool_calls or ()]
    calls = steps or [_step_of(call) for call in reported]
    bars = time_bars([call.duration_ms for call in calls])
    return [
        ShownCall(
            name=call.tool,
            ok=_outcome(call, reported[index] if index < len(reported) and not steps else None),
            took="" if call.duration_ms is None else f"{format_number(call.duration_ms)} ms",
            bar=bars[index],
            arguments=arguments_of(call),
            results=tool_texts(call),
        )
        for index, call in enumerate(calls[:MAX_CALLS])
    ]


def conversation_of(trace: CollectedTrace, transcript: Transcript | None) -> list[TranscriptStep]:
    """The steps of the agent; without a transcript the question, the tool calls, and the answer of the trace."""
    if transcript is not None:
        return list(transcript.steps)
    calls = [_step_of(ToolCallView.model_validate(call)) for call in trace.tool_calls or ()]
    question = [TranscriptMessage(role="user", text=trace.input)] if trace.input else []
    answer = [TranscriptMessage(role="assistant", text=trace.output)] if trace.output else []
    return [*question, *calls, *answer]


def time_bars(durations: Sequence[float | None]) -> list[Markup]:
    """A bar for each duration, one after the other on one scale; empty where no time is known."""
    total = sum(duration or 0.0 for duration in durations)
    bars, start = [], 0.0
    for duration in durations:
        bars.append(
            Markup(time_bar(start, duration, total))  # noqa: S704 - our own SVG
            if duration and total
            else Markup()
        )
        start += duration or 0.0
    return bars


def list_attributes(trace: CollectedTrace) -> dict[str, str]:
    """The attributes of a trace by name: those of the source, its tags, tools, and the size of its prompt."""
    attributes = {name: str(value) for name, value in (trace.attributes or {}).items()}
    if trace.tags:
        attributes["tags"] = ", ".join(trace.tags)
    if trace.tool_calls:
        attributes["tool calls"] = ", ".join(_count_calls(trace.tool_calls))
    if trace.input_tokens is not None:
        attributes["input tokens"] = f"{trace.input_tokens:,}"
    if trace.outcome != "scored":
        attributes["outcome"] = trace.outcome.replace("_", " ")
    return attributes


def compare_attributes(
    before: CollectedTrace, now: CollectedTrace
) -> tuple[list[TraceDifference], list[str]]:
    """What two traces of an item have differently, and the names of what is the same."""
    sides = [list_attributes(trace) for trace in (before, now)]
    for side, trace in zip(sides, (before, now), strict=True):
        side["question"] = trace.input or ""
        side["expected answer"] = " / ".join(list_references(trace).texts)
    names = sorted({*sides[0], *sides[1]})
    changed = [name for name in names if sides[0].get(name) != sides[1].get(name)]
    changes = [TraceDifference(name, sides[0].get(name), sides[1].get(name)) for name in changed]
    return changes, [name for name in names if name not in changed]


def _step_of(call: ToolCallView) -> TranscriptToolCall:
    return TranscriptToolCall(
        tool=call.name,
        arguments=call.arguments,
        is_error=call.ok is False,
        duration_ms=call.latency_ms,
    )


def _outcome(call: TranscriptToolCall, reported: ToolCallView | None) -> bool | None:
    """Return whether a call worked: a transcript knows it, the source may not."""
    return not call.is_error if reported is None else reported.ok


def _count_calls(calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The tools in the order of their first calls, each with its number of calls, and whether they failed."""
    counts = Counter(str(call["name"]) for call in calls)
    failed = Counter(str(call["name"]) for call in calls if call.get("ok") is False)
    for name, count in counts.items():
        times = f" ×{count}" if count > 1 else ""
        outcome = (
            "" if not failed[name] else " failed" if failed[name] == count else " partly failed"
        )
        yield f"{name}{times}{outcome}"
