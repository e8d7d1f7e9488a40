"""A transcript as text for a terminal and as HTML."""

import json
from collections.abc import Iterable, Iterator

from mosaico.core.console.terminal import escape_lines
from mosaico.core.text import html_text
from mosaico.harness.reports.view import format_cached, format_seconds
from mosaico.harness.transcript import (
    Transcript,
    TranscriptMessage,
    TranscriptRequest,
    TranscriptStep,
    TranscriptToolCall,
)

_INDENT = "    "


def transcript_lines(transcript: Transcript) -> Iterator[str]:
    """The steps for a terminal: a heading per step, its texts indented. Control characters are escaped."""
    for step in _steps_and_gap(transcript):
        if step is None:
            yield omission_text(transcript)
            continue
        yield f"{_heading(step)}"
        for name, text in _named_texts(step):
            lines = escape_lines(text).rstrip("\n").split("\n")
            yield from (f"{_INDENT}{name}{line}" for line in lines)


def transcript_html(transcript: Transcript) -> Iterator[str]:
    """The steps as HTML fragments; every text is escaped."""
    for step in _steps_and_gap(transcript):
        if step is None:
            yield f"<p><i>{omission_text(transcript)}</i></p>"
            continue
        failed = isinstance(step, TranscriptToolCall) and step.is_error
        style = "who FAIL" if failed else "who"
        yield f'<p class="{style}">{html_text(_heading(step))}</p>'
        yield from (f"<pre>{html_text(name + text)}</pre>" for name, text in _named_texts(step))


def omission_text(transcript: Transcript) -> str:
    return f"[{transcript.omitted_steps} steps omitted: the transcript exceeds its size limit]"


def _steps_and_gap(transcript: Transcript) -> Iterator[TranscriptStep | None]:
    """The steps in order, with None in the place of omitted ones."""
    yield from transcript.steps[: transcript.gap_at]
    if transcript.omitted_steps:
        yield None
    yield from transcript.steps[transcript.gap_at :]


def _heading(step: TranscriptStep) -> str:
    if isinstance(step, TranscriptMessage):
        facts = list(_request_facts(step.request)) if step.request else []
        return ", ".join([step.role, *facts])
    facts = [] if step.exit_code is None else [f"exit code {step.exit_code}"]
    if step.is_error and step.exit_code is None:
        facts.append("error" if step.output is not None else "no answer")
    if step.duration_ms is not None:
        facts.append(format_seconds(step.duration_ms))
    return ", ".join([f"tool {step.tool}", *facts])


def _request_facts(request: TranscriptRequest) -> Iterable[str]:
    if request.input_tokens is not None and request.output_tokens is not None:
        cached = format_cached(request.cached_tokens, request.cache_write_tokens)
        yield f"{request.input_tokens} input{cached} and {request.output_tokens} output tokens"
    if request.latency_ms is not None:
        yield format_seconds(request.latency_ms)
    if request.retries:
        yield f"{request.retries} retries, {format_seconds(request.waited_ms or 0)} waiting"


def _named_texts(step: TranscriptStep) -> Iterator[tuple[str, str]]:
    """The texts of a step, each with what is printed before it."""
    if isinstance(step, TranscriptMessage):
        if step.thinking:
            yield "(thinking) ", step.thinking
        if step.text:
            yield "", step.text
        return
    if step.command is not None:
        yield "$ ", step.command
    elif step.arguments is not None:
        yield "", json.dumps(step.arguments, ensure_ascii=False, default=str)
    # The output of a command is its streams, joined; shown apart they say more.
    if step.stdout is None and step.stderr is None:
        if step.output:
            yield "", step.output
        return
    if step.stdout:
        yield "", step.stdout
    if step.stderr:
        yield "stderr: ", step.stderr
