"""The tool that gates two files of results, in this process and without the service."""

from pathlib import Path
from typing import Final

from mosaico.mcp_server.answer_parts import changed_value, cut_list
from mosaico.mcp_server.answers import FileGate
from mosaico.mcp_server.arguments import GateFilesArguments
from mosaico.mcp_server.envelope import TEXT_CHARS, enclose
from mosaico.mcp_server.lookup import ToolRefusal
from mosaico.project_file.benchmark_options import FILE_NAME
from mosaico.sdk.offline import gate

_MAX_CHECKS: Final = 20


def gate_files(folder: Path, arguments: GateFilesArguments) -> FileGate:
    """The verdict of `mosaico gate --run CANDIDATE --baseline BASELINE` in the folder: its `mosaico.yaml` judges.

    Raises: `ToolRefusal` for a file outside of the folder, and as `gate`.
    """
    config = _path_below(folder, FILE_NAME)
    report = gate(
        _path_below(folder, arguments.candidate),
        baseline=_path_below(folder, arguments.baseline),
        config=config if config.is_file() else None,
        benchmark=arguments.benchmark,
        metrics=arguments.metrics,
        max_drop=arguments.max_drop,
        non_inferiority_margins=arguments.non_inferiority_margins,
    )
    notices: list[str] = []
    checks = cut_list(report.checks, _MAX_CHECKS, notices, "checks: `mosaico gate` prints them")
    return FileGate(
        summary=f"{report.outcome}: the candidate {'passes' if report.passed else 'does not pass'}"
        f" (exit code {report.exit_code}).",
        outcome=str(report.outcome),
        passed=report.passed,
        exit_code=report.exit_code,
        checks=[changed_value(check.name, check.verdict) for check in checks],
        sentences=[enclose(line, TEXT_CHARS) for line in report.sentences[:_MAX_CHECKS]],
        remarks=[enclose(line, TEXT_CHARS) for line in report.remarks[:_MAX_CHECKS]],
        notices=notices,
    )


def _path_below(folder: Path, name: str) -> Path:
    """The file; a link that leads out of the folder is outside of it."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ToolRefusal(
            f"{enclose(name)} is not below {folder}, the folder in which this server was started; it reads no other file"
        )
    return path
