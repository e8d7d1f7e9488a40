"""Result files: ours and those that the original evaluation wrote."""

import re
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from app.core.console.input_files import open_input
from app.core.errors import AppError, ErrorItem
from app.core.strict_json import parse_finite_json
from app.harness.bash.reports.structured import json_report
from app.harness.bash.types import EvalReport

MAX_BYTES: Final = 512 * 1024 * 1024
SHOWN: Final = 10

_REPORT: Final = TypeAdapter(EvalReport)


class BadRecording(AppError):
    """A file is no result of a bash evaluation; name one that `bashkit-eval run --save` wrote."""

    code = "bad-recording"
    status = 422
    exit_code = 2


def read_report(path: Path) -> EvalReport:
    """The run that a file holds; its summary is not read, but computed anew where it is wanted.

    Raises: UnreadableInput when there is no such file, BadRecording with the places that do not fit.
    """
    with open_input(path) as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise BadRecording(f"{path} is larger than {MAX_BYTES} bytes")
    return parse_report(raw, name=str(path))


def parse_report(raw: bytes, *, name: str) -> EvalReport:
    """The same from bytes; `name` is what errors call them."""
    return report_of(parse_document(raw, name=name), name=name)


def parse_document(raw: bytes, *, name: str) -> Any:
    """The JSON of bytes, whatever it is. Raises: BadRecording."""
    try:
        return parse_finite_json(raw)
    except (ValueError, RecursionError) as error:
        raise BadRecording(
            f"{name} is not JSON: {error}",
            hint="name a file that `bashkit-eval run --save` or `ot-bench run --output X.json` wrote",
        ) from None


def report_of(document: Any, *, name: str) -> EvalReport:
    """The run that a parsed file holds. Raises: BadRecording."""
    try:
        return _REPORT.validate_python(document)
    except ValidationError as error:
        raise BadRecording(
            f"{name} is no result of a bash evaluation",
            errors=[
                ErrorItem(pointer="/" + "/".join(map(str, each["loc"])), detail=each["msg"])
                for each in error.errors(include_url=False, include_input=False)[:SHOWN]
            ],
            hint="name a file that `bashkit-eval run --save` wrote",
        ) from None


def file_stem(report: EvalReport) -> str:
    """`eval-anthropic-claude-x-2026-02-09-054558`: what its files are called."""
    made_by = re.sub(r"[^\w.-]", "-", f"{report.provider}-{report.model}")
    stamp = report.timestamp.replace("T", "-").replace(":", "").removesuffix("Z")
    return f"eval-{made_by}-{re.sub(r'[^0-9-]', '', stamp)}"


def write_report(report: EvalReport, path: Path) -> None:
    """Write the report so that the file is whole at any moment, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(
        "w", encoding="utf-8", errors="replace", dir=path.parent, delete=False
    ) as file:
        file.write(json_report(report))
    Path(file.name).replace(path)
