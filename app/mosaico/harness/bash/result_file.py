"""Result files of bashkit-eval, and those that the original evaluation wrote."""

import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from mosaico.harness.bash.run_health import profile
from mosaico.harness.bash.summary import summarize, summarize_trials
from mosaico.harness.bash.types import EvalReport, EvalResult
from mosaico.harness.result_file import (
    document_text,
    is_journal,
    newest_of,
    parse_journal,
    parse_json_document,
    read_result_bytes,
    read_validated,
    write_result,
)

PROGRAM: Final = "bashkit-eval"
HINT: Final = "name a file that `bashkit-eval run --save` wrote"

_REPORT: Final = TypeAdapter(EvalReport)
_RESULTS: Final = TypeAdapter(list[EvalResult])


def read_report(path: Path) -> EvalReport:
    """The run in a file, or in its journal when the run is unfinished.

    The recorded summary is ignored: it is always computed from the results. Raises: UnreadableInput,
    InvalidResultFile.
    """
    path = newest_of(path)
    raw = read_result_bytes(path)
    if is_journal(path):
        return read_validated(
            lambda: _report_of_journal(raw), name=str(path), program=PROGRAM, hint=HINT
        )
    return parse_report(raw, name=str(path))


def parse_report(raw: bytes, *, name: str) -> EvalReport:
    """The run in the content of a file; `name` is the file in error messages."""
    return load_report(parse_json_document(raw, name=name), name=name)


def load_report(document: Any, *, name: str) -> EvalReport:
    """The run in a JSON document. Raises: InvalidResultFile."""
    return read_validated(
        lambda: _REPORT.validate_python(document), name=name, program=PROGRAM, hint=HINT
    )


def json_report(report: EvalReport) -> str:
    """The report as the text of a result file."""
    return document_text(report_document(report))


def report_document(report: EvalReport) -> dict[str, Any]:
    """The report as a JSON document with its summary, trials and profile; `load_report` reads it back."""
    summary = summarize(report)
    run_profile = profile(report, summary)
    trials = summarize_trials(report)
    return asdict(report) | {
        "summary": asdict(summary),
        "trials": asdict(trials) if trials is not None else None,
        "profile": {
            "healthy": run_profile.is_healthy,
            "traits": [asdict(trait) for trait in run_profile.traits],
            "signals": [asdict(signal) for signal in run_profile.signals],
        },
    }


def write_report(report: EvalReport, path: Path) -> None:
    """Write the result file atomically."""
    write_result(path, json_report(report))


def file_stem(report: EvalReport) -> str:
    """The name of its files: `eval-anthropic-claude-x-2026-02-09-054558`."""
    model = re.sub(r"[^\w.-]", "-", f"{report.provider}-{report.model}")
    stamp = report.timestamp.replace("T", "-").replace(":", "").removesuffix("Z")
    return f"eval-{model}-{re.sub(r'[^0-9-]', '', stamp)}"


def merge_results(planned: Iterable[EvalResult], results: Iterable[EvalResult]) -> list[EvalResult]:
    """The planned attempts in their order, each replaced by its latest result."""
    latest = {result.key: result for result in results}
    return [latest.get(result.key, result) for result in planned]


def _report_of_journal(raw: bytes) -> EvalReport:
    head, entries = parse_journal(raw)
    report = _REPORT.validate_python(head)
    merged = merge_results(report.results, _RESULTS.validate_python(entries))
    return replace(report, results=tuple(merged))
