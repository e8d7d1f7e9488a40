"""Recorded runs of the harnesses as uploads."""

from typing import NamedTuple

from app.harness.bash import recordings as bash_recordings
from app.harness.mcp import recordings as bench_recordings
from app.traces import bash_traces, mcp_traces
from app.traces.collect import storable
from app.traces.ndjson import line_of

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
    lines = [line_of(storable(trace)) for trace in traces]
    return Recorded(name[: bash_traces.LONGEST_ID], lines)
