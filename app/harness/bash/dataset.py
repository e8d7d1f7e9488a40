"""Datasets: one task in JSON a line; blank lines and comments (`#`, `//`) are passed over."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final

from app.core.console.input_files import open_input
from app.core.errors import AppError, ErrorItem
from app.core.registry import suggest_names
from app.core.strict_json import MalformedJson, parse_json
from app.harness.bash.types import EvalTask, Expectation

TASK_KEYS: Final = (
    "id",
    "category",
    "description",
    "prompt",
    "system",
    "files",
    "expectations",
)
EXPECTATION_KEYS: Final = ("check", "weight")
MAX_LINE: Final = 16 * 1024 * 1024  # bytes
SHOWN: Final = 20


class BadDataset(AppError):
    """A dataset cannot be used; mend the lines that are named."""

    code = "bad-dataset"
    status = 422
    exit_code = 2


class Severity(StrEnum):
    """Whether a finding keeps a dataset from being used."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to mend in a dataset; `line` counts from 1, 0 stands for all of it."""

    line: int
    severity: Severity
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTask:
    """A task and the line that it stands on."""

    line: int
    task: EvalTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The tasks that could be read, in their order, and what is wrong with the rest."""

    placed: tuple[PlacedTask, ...]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def tasks(self) -> tuple[EvalTask, ...]:
        return tuple(each.task for each in self.placed)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]


class _Refused(Exception):
    """A line is no task."""


def load_dataset(path: Path) -> Dataset:
    """A dataset that can be used, with warnings at most.

    Raises: UnreadableInput when the file cannot be read, BadDataset with every line that is wrong.
    """
    dataset = inspect_dataset(path)
    if dataset.errors:
        raise BadDataset(
            f"{path} cannot be used",
            errors=[
                ErrorItem(pointer=f"line {finding.line}" if finding.line else "file", detail=text)
                for finding in dataset.errors[:SHOWN]
                for text in (finding.text,)
            ],
            hint=f"`bashkit-eval lint {path}` shows everything that is to be mended",
        )
    return dataset


def inspect_dataset(path: Path) -> Dataset:
    """The same, but whatever is wrong with the lines is only told. Raises UnreadableInput."""
    with open_input(path) as file:
        return parse_dataset(bounded_lines(file))


def bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file up to the first that is longer than MAX_LINE, of which only that is read."""
    while line := file.readline(MAX_LINE + 1):
        yield line
        if len(line) > MAX_LINE:
            return


def parse_dataset(lines: Iterable[bytes]) -> Dataset:
    """The tasks of these lines; an empty dataset is an error."""
    placed: list[PlacedTask] = []
    findings: list[Finding] = []
    first_seen: dict[str, int] = {}
    for number, raw in enumerate(lines, start=1):
        if len(raw) > MAX_LINE:
            findings.append(_error(number, f"is longer than {MAX_LINE} bytes"))
            continue
        line = raw.strip().removeprefix(b"\xef\xbb\xbf")
        if not line or line.startswith((b"#", b"//")):
            continue
        try:
            task = _task_of_line(line, number, findings)
            _require_new(task.id, number, first_seen)
        except _Refused as refused:
            findings.append(_error(number, str(refused)))
        else:
            placed.append(PlacedTask(line=number, task=task))
    if not placed and not findings:
        findings.append(_error(0, "holds no task; write one JSON object a line"))
    return Dataset(placed=tuple(placed), findings=tuple(findings))


def _require_new(task_id: str, number: int, first_seen: dict[str, int]) -> None:
    before = first_seen.setdefault(task_id, number)
    if before != number:
        raise _Refused(f"the id {task_id!r} stands on line {before} already")


def _task_of_line(line: bytes, number: int, findings: list[Finding]) -> EvalTask:
    try:
        value = parse_json(line)
    except MalformedJson as error:
        raise _Refused(error.detail.replace("The body", "the line").rstrip(".")) from None
    except AppError as error:
        flaws = "; ".join(f"{item.pointer} {item.detail}" for item in error.errors)
        raise _Refused(flaws or error.detail) from None
    if not isinstance(value, Mapping):
        raise _Refused("is no JSON object")
    _tell_unknown(value, TASK_KEYS, number, findings)
    expectations = _list(value, "expectations")
    for each in expectations:
        if isinstance(each, Mapping):
            _tell_unknown(each, EXPECTATION_KEYS, number, findings)
    return EvalTask(
        id=_required(value, "id"),
        category=_required(value, "category"),
        description=_text(value, "description") or "",
        prompt=_required(value, "prompt"),
        system=_text(value, "system"),
        files=_files(value),
        expectations=tuple(map(_expectation, expectations)),
    )


def _expectation(value: Any) -> Expectation:
    if not isinstance(value, Mapping):
        raise _Refused('an expectation is an object such as {"check": "exit_code:0"}')
    weight = value.get("weight")
    if weight is None:
        weight = 1.0
    if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
        raise _Refused(f"weight must be a number from 0 on, not {weight!r:.40}")
    return Expectation(check=_required(value, "check"), weight=float(weight))


def _files(value: Mapping[str, Any]) -> dict[str, str]:
    files = value.get("files")
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise _Refused("files must be an object of texts by path")
    for path, text in files.items():
        if not path.startswith("/"):
            raise _Refused(f"the path {path!r} in files must begin with /")
        if not isinstance(text, str):
            raise _Refused(f"the file {path!r} must be a text")
    return dict(files)


def _required(value: Mapping[str, Any], key: str) -> str:
    text = _text(value, key)
    if text is None or not text.strip():
        raise _Refused(f"{key} is missing")
    return text


def _text(value: Mapping[str, Any], key: str) -> str | None:
    text = value.get(key)
    if text is not None and not isinstance(text, str):
        raise _Refused(f"{key} must be a text")
    return text


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list) or not found:
        raise _Refused(f"{key} must be a list that is not empty")
    return found


def _tell_unknown(
    value: Mapping[str, Any], known: Iterable[str], number: int, findings: list[Finding]
) -> None:
    names = list(known)
    for key in value:
        if key not in names:
            text = f"the key {key!r} is not known and ignored.{suggest_names(key, names)}"
            findings.append(Finding(line=number, severity=Severity.WARNING, text=text))


def _error(line: int, text: str) -> Finding:
    return Finding(line=line, severity=Severity.ERROR, text=text)
