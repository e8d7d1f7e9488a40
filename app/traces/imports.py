"""Recorded runs of the harnesses as uploads."""

from typing import NamedTuple

from app.harness.bash import recordings as bash_recordings
from app.harness.mcp import recordings as bench_recordings
from app.traces import bash_traces, mcp_traces
from app.traces.collect import make_storable
from app.traces.ndjson import format_trace_line

NAME = "the body"


class Recorded(NamedTuple):
    """A recorded run as an upload: what it is called, and its traces as lines."""

    run_name: str
    lines: list[bytes]


def read_results(raw: bytes) -> Recorded:
    """A result file as JSON: of ot-bench, of a bash evaluation, or of the original of the latter.

    Raises: BadRecording, BadResult.
    """
    document = bash_recordings.parse_document(raw, name=NAME)
    if bench_recordings.is_report(document):
        bench = bench_recordings.report_of(document, NAME)
        name, traces = mcp_traces.stem_of(bench), mcp_traces.traces_of(bench)
    else:
        bash = bash_recordings.report_of(document, name=NAME)
        name, traces = bash_recordings.file_stem(bash), bash_traces.traces_of(bash)
    lines = [format_trace_line(make_storable(trace)) for trace in traces]
    return Recorded(name[: bash_traces.LONGEST_ID], lines)
