"""Imports result files of the harnesses as trace uploads."""

from typing import Final, NamedTuple

from mosaico.harness.result_file import InvalidResultFile, parse_json_document
from mosaico.traces.files.json_objects import count_json_values
from mosaico.traces.files.limited_file import VALUES
from mosaico.traces.files.ndjson import format_trace_line
from mosaico.traces.files.read_options import ReadLimits
from mosaico.traces.storable_traces import make_storable

NAME: Final = "the body"


class ImportedRun(NamedTuple):
    """A recorded run as an upload: its run name, and its traces as lines."""

    run_name: str
    lines: list[bytes]


def read_results(raw: bytes, max_values: int = ReadLimits().values) -> ImportedRun:
    """A JSON result file of ot-bench, of bashkit-eval, or of the original bash evaluation.

    Raises: InvalidResultFile.
    """
    # The models of both formats: 3 MiB and 60 ms that an API process needs only for such a file.
    from mosaico.harness.bash import result_file as bash_result_file
    from mosaico.harness.mcp import result_file as mcp_result_file
    from mosaico.traces.producers import bash_traces, mcp_traces

    if count_json_values(raw) > max_values:
        raise InvalidResultFile(
            f"{NAME} has more than {max_values:,} JSON values; import a part of the results, or set {VALUES} of the"
            " service higher"
        )
    document = parse_json_document(raw, name=NAME)
    if mcp_result_file.is_report(document):
        mcp_report = mcp_result_file.load_report(document, name=NAME)
        name, traces = mcp_traces.stem_of(mcp_report), mcp_traces.traces_of(mcp_report)
    else:
        bash_report = bash_result_file.load_report(document, name=NAME)
        name, traces = bash_result_file.file_stem(bash_report), bash_traces.traces_of(bash_report)
    lines = [format_trace_line(make_storable(trace)) for trace in traces]
    return ImportedRun(name[: bash_traces.LONGEST_ID], lines)
