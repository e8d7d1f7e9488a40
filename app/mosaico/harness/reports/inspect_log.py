"""A run as a log of Inspect AI, which `inspect view` opens.

Source: inspect_ai 0.3.285, `log/_log.py` and `log/_recorders/eval.py`; format version 2.
"""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Final

from mosaico.harness.reports.view import AttemptStatus, AttemptView, RunReportView
from mosaico.harness.results import ConversationEnding, sum_if_known
from mosaico.harness.transcript import TranscriptMessage, TranscriptStep, TranscriptToolCall

LOG_VERSION: Final = 2
SCORER: Final = "passed"
CORRECT: Final = "C"
INCORRECT: Final = "I"
_VALUES: Final = {AttemptStatus.PASSED: CORRECT, AttemptStatus.FAILED: INCORRECT}
_STOP_REASONS: Final = {
    ConversationEnding.NATURAL: "stop",
    ConversationEnding.TRUNCATED: "max_tokens",
    ConversationEnding.REFUSAL: "content_filter",
    ConversationEnding.CONTENT_FILTER: "content_filter",
    ConversationEnding.CONTEXT_WINDOW: "model_length",
    ConversationEnding.CONTEXT_LENGTH: "model_length",
}

Document = dict[str, Any]


def inspect_archive(view: RunReportView) -> bytes:
    """The log as an `.eval` file: a ZIP archive with a header and one file per attempt."""
    log = inspect_log(view)
    samples: list[Document] = log.pop("samples")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        start = {key: log[key] for key in ("version", "eval", "plan")}
        archive.writestr("_journal/start.json", _text(start))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", _text(sample))
        archive.writestr("summaries.json", _text([_summary(sample) for sample in samples]))
        archive.writestr("header.json", _text(log))
    return buffer.getvalue()


def inspect_json(view: RunReportView) -> str:
    """The log as a `.json` file."""
    return _text(inspect_log(view))


def inspect_log(view: RunReportView) -> Document:
    """The log as one document. Attempts that passed have the score `C`,
    those that failed `I`, and those without a verdict none.
    """
    samples = _with_unique_ids([_sample(view, attempt) for attempt in view.attempts])
    values = [sample["scores"][SCORER]["value"] for sample in samples if sample["scores"]]
    created = view.timestamp.replace("Z", "+00:00")
    model = view.title
    return {
        "version": LOG_VERSION,
        "status": "success" if view.is_complete else "cancelled",
        "eval": {
            "eval_id": view.program,
            "run_id": view.program,
            "created": created,
            "task": view.program,
            "task_id": view.program,
            "task_version": 0,
            "dataset": {
                "name": view.program,
                "samples": len(samples),
                "sample_ids": [sample["id"] for sample in samples],
            },
            "model": model,
            "config": {},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(values),
            "scores": [_scores(values)],
        },
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
        "samples": samples,
    }


def _scores(values: list[str]) -> Document:
    accuracy = values.count(CORRECT) / len(values) if values else 0.0
    metric = {"name": "accuracy", "value": accuracy, "params": {}}
    return {"name": SCORER, "scorer": SCORER, "params": {}, "metrics": {"accuracy": metric}}


def _sample(view: RunReportView, attempt: AttemptView) -> Document:
    steps = attempt.transcript.steps if attempt.transcript is not None else ()
    messages = list(_messages(steps))
    answer = next(
        (each["content"] for each in reversed(messages) if each["role"] == "assistant"), ""
    )
    message = {"role": "assistant", "content": answer, "source": "generate"}
    usage = _usage(steps)
    sample = {
        "id": attempt.title.replace("/", "-"),  # a part of a file name
        "epoch": 1,
        "input": next(
            (each["content"] for each in messages if each["role"] == "user"), attempt.task
        ),
        "target": _target(attempt),
        "messages": messages,
        "output": {
            "model": view.title,
            "choices": [{"message": message, "stop_reason": _stop_reason(attempt)}],
            "usage": usage,
        },
        "scores": _score(attempt, answer),
        "metadata": {"facts": attempt.facts, "points": attempt.points, "ending": attempt.ending},
        "store": {},
        "events": [],
        "model_usage": {} if usage is None else {view.title: usage},
        "total_time": attempt.duration_s,
    }
    if attempt.error:
        sample["error"] = {"message": attempt.error, "traceback": "", "traceback_ansi": ""}
    return sample


def _with_unique_ids(samples: list[Document]) -> list[Document]:
    """The samples, numbered where attempts have the same name: their IDs are names of files."""
    totals = Counter(sample["id"] for sample in samples)
    numbers = count(1)
    return [
        sample
        if totals[sample["id"]] == 1
        else {**sample, "id": f"{sample['id']} ({next(numbers)})"}
        for sample in samples
    ]


def _stop_reason(attempt: AttemptView) -> str:
    """The ending in the words of Inspect, which has none for limits and errors."""
    if attempt.ending is None:
        return "unknown"
    return _STOP_REASONS.get(attempt.ending, "unknown")


def _target(attempt: AttemptView) -> str:
    """What the checks of the attempt expect, a line each."""
    rows = attempt.checks.rows if attempt.checks is not None else ()
    return "\n".join(" ".join(filter(None, row[:2])) for row in rows)


def _score(attempt: AttemptView, answer: str) -> Document:
    value = _VALUES.get(attempt.status)
    if value is None:
        return {}
    return {SCORER: {"value": value, "answer": answer, "explanation": attempt.reason or None}}


def _summary(sample: Mapping[str, Any]) -> Document:
    keys = ("id", "epoch", "input", "target", "scores", "metadata", "model_usage", "total_time")
    error = sample["error"]["message"] if "error" in sample else None
    return {**{key: sample[key] for key in keys}, "error": error, "completed": True}


def _messages(steps: Iterable[TranscriptStep]) -> Iterable[Document]:
    """The messages of a conversation; each call is a part of the answer before it."""
    answer: Document | None = None
    for number, step in enumerate(steps):
        if isinstance(step, TranscriptMessage):
            message: Document = {"role": step.role, "content": step.text}
            if step.role == "assistant":
                answer = {**message, "source": "generate", "tool_calls": []}
                message = answer
            yield message
            continue
        if answer is None:  # the call of a direct task
            answer = {"role": "assistant", "content": "", "source": "generate", "tool_calls": []}
            yield answer
        answer["tool_calls"].append(
            {
                "id": f"call_{number}",
                "function": step.tool,
                "arguments": dict(step.arguments or {}),
                "type": "function",
            }
        )
        yield _tool_message(step, number)


def _result_text(call: TranscriptToolCall) -> str:
    """The output, or the streams of a command; empty without a result."""
    if call.output is not None:
        return call.output
    return "\n".join(filter(None, (call.stdout, call.stderr)))


def _tool_message(step: TranscriptToolCall, number: int) -> Document:
    message: Document = {
        "role": "tool",
        "content": _result_text(step),
        "tool_call_id": f"call_{number}",
        "function": step.tool,
    }
    if step.is_error:
        message["error"] = {"type": "unknown", "message": _result_text(step) or "no result"}
    return message


def _usage(steps: Iterable[TranscriptStep]) -> Document | None:
    """The tokens of all requests; None when one of them did not report its tokens."""
    requests = [
        step.request
        for step in steps
        if isinstance(step, TranscriptMessage) and step.request is not None
    ]
    inputs = sum_if_known(request.input_tokens for request in requests)
    outputs = sum_if_known(request.output_tokens for request in requests)
    if not requests or inputs is None or outputs is None:
        return None
    return {"input_tokens": inputs, "output_tokens": outputs, "total_tokens": inputs + outputs}


def _text(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)
