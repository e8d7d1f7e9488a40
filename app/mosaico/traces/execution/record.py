"""The result file of an executed agent: traces, one per line, and a journal while the run goes on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mosaico.core.console.files import require_folder, write_text
from mosaico.core.console.terminal import print_status
from mosaico.core.errors import Invalid
from mosaico.harness.result_file import (
    IncompatibleRun,
    InvalidResultFile,
    Journal,
    is_journal,
    newest_of,
    parse_journal,
    read_result_bytes,
    result_of,
)
from mosaico.traces.execution.items import ItemAttempt
from mosaico.traces.files.ndjson import format_trace_line, iter_traces, parse_trace, trace_document
from mosaico.traces.types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """The agent and dataset of an execution, and the traces of a continued run; the first line of
    the journal.

    None of `agent` in the record of a complete result file, which does not name it.
    """

    dataset: str | None
    agent: str | None
    traces: tuple[dict[str, Any], ...] = ()


class ExecutionRecorder:
    """Keeps every trace at once in a journal; `finish` writes the result file.

    The journal stays while an attempt is missing or not finished, so that `--resume` makes it.
    """

    def __init__(
        self, path: Path, record: ExecutionRecord, attempts: Sequence[ItemAttempt]
    ) -> None:
        require_folder(path.parent)
        self.path = path
        self.attempts = attempts
        self._traces = _planned_traces(attempts, map(parse_trace, record.traces))
        stored = tuple(trace_document(trace) for trace in self._traces.values())
        self._journal = Journal(path, replace(record, traces=stored))

    @property
    def traces(self) -> list[Trace]:
        """The latest trace of each attempt that was made, in planned order."""
        return [
            self._traces[attempt.trace_id]
            for attempt in self.attempts
            if attempt.trace_id in self._traces
        ]

    def missing(self) -> list[ItemAttempt]:
        """The attempts that are not finished, in planned order."""
        return [
            attempt
            for attempt in self.attempts
            if (trace := self._traces.get(attempt.trace_id)) is None
            or not attempt.is_finished_by(trace)
        ]

    def add(self, trace: Trace) -> None:
        """Store a trace; it replaces an earlier one of the same attempt."""
        self._journal.add(trace_document(trace))
        self._traces[trace.trace_id] = trace

    def finish(self) -> None:
        """Write the result file; without missing attempts the journal is deleted."""
        lines = [format_trace_line(trace).decode() for trace in self.traces]
        write_text(self.path, "".join(lines))
        if self.missing():
            self._journal.close()
        else:
            self._journal.discard()

    def close(self) -> None:
        """Stop writing; a run with a journal is not complete."""
        if self._journal.close():
            print_status(f"the run is not complete; --resume {self.path} runs the missing attempts")


def resume_record(path: Path, record: ExecutionRecord) -> ExecutionRecord:
    """The record with the traces of an earlier run, from its journal or its result file.

    Raises: `UnreadableInput`, `InvalidResultFile`, and `IncompatibleRun` for another agent or dataset.
    """
    earlier = read_record(newest_of(path))
    for name, before, now in (
        ("agent", earlier.agent, record.agent),
        ("dataset", earlier.dataset, record.dataset),
    ):
        if before is not None and before != now:
            raise IncompatibleRun(
                f"{path} is a run of the {name} {before!r}, not of {now!r}",
                hint=f"use the same {name}, or start a new run without --resume",
            )
    return replace(record, traces=earlier.traces)


def read_record(path: Path) -> ExecutionRecord:
    """The record in a journal or a result file. Raises: `UnreadableInput`, `InvalidResultFile`."""
    raw = read_result_bytes(path)
    try:
        if not is_journal(path):
            traces = iter_traces(raw.splitlines())
            return ExecutionRecord(dataset=None, agent=None, traces=_documents(traces))
        head, entries = parse_journal(raw)
        stored = map(parse_trace, [*head["traces"], *entries])
        latest = {trace.trace_id: trace for trace in stored}
        return ExecutionRecord(
            dataset=head["dataset"], agent=head["agent"], traces=_documents(latest.values())
        )
    except (Invalid, ValueError, KeyError, TypeError) as error:
        raise InvalidResultFile(
            f"{path} is not a run of `mosaico runs execute`: {error}",
            hint=f"name its result file, such as {result_of(path).name}",
        ) from None


def _documents(traces: Iterable[Trace]) -> tuple[dict[str, Any], ...]:
    return tuple(map(trace_document, traces))


def _planned_traces(attempts: Iterable[ItemAttempt], traces: Iterable[Trace]) -> dict[str, Trace]:
    """The stored traces of planned attempts whose items have not changed."""
    stored = {trace.trace_id: trace for trace in traces}
    return {
        attempt.trace_id: trace
        for attempt in attempts
        if (trace := stored.get(attempt.trace_id)) is not None
        and (trace.input, trace.expected_output)
        == (attempt.item.input, attempt.item.expected_output)
    }
