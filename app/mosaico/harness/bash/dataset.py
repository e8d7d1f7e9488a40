"""Datasets of bash tasks (JSONL): reading, linting, selecting tasks, and scripts that play them.

One JSON object per line; blank lines and comment lines (`#`, `//`) are skipped.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from mosaico.core.console.files import InvalidInput, open_input
from mosaico.core.errors import AppError, BadUsage, ErrorItem, UnusableInput
from mosaico.core.registry import suggest_names
from mosaico.core.strict_json import MalformedJson, is_number, parse_json
from mosaico.core.text import count_noun
from mosaico.harness.bash.check_registry import CHECKS, split_check
from mosaico.harness.bash.sandbox import FILE_LIMITS, Sandbox
from mosaico.harness.bash.types import EvalTask, Expectation
from mosaico.harness.lint import LintSeverity, LocatedFinding
from mosaico.llm.scripted import Script, ScriptedLlm

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
SHOWN: Final = 20  # errors or names in one message


class InvalidDataset(UnusableInput):
    """The dataset has errors; correct the listed lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFinding:
    """A flaw of a dataset; `line` counts from 1, 0 means the whole file."""

    line: int
    severity: LintSeverity
    text: str

    def located(self, path: Path) -> LocatedFinding:
        """The finding with the name of the file, to print it."""
        return LocatedFinding(
            location=f"{path}:{self.line}" if self.line else str(path),
            position={"line": self.line},
            severity=self.severity,
            text=self.text,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetTask:
    """A task and its line number."""

    line: int
    task: EvalTask


@dataclass(frozen=True, slots=True, kw_only=True)
class BashDataset:
    """The valid tasks of a dataset in order, and the findings of its other lines."""

    entries: tuple[DatasetTask, ...]
    findings: tuple[DatasetFinding, ...] = field(default=())

    @property
    def tasks(self) -> tuple[EvalTask, ...]:
        return tuple(entry.task for entry in self.entries)

    @property
    def errors(self) -> list[DatasetFinding]:
        return [finding for finding in self.findings if finding.severity is LintSeverity.ERROR]


class _InvalidLine(Exception):
    """A line is not a valid task."""


def load_dataset(path: Path) -> BashDataset:
    """A dataset without errors, its checks included. Raises: UnreadableInput, InvalidDataset."""
    return require_valid(read_dataset(path), str(path))


def read_dataset(path: Path) -> BashDataset:
    """A dataset with the findings of its lines. Raises: UnreadableInput."""
    with open_input(path) as file:
        return parse_dataset(bounded_lines(file))


def require_valid(dataset: BashDataset, name: str) -> BashDataset:
    """The dataset itself. Raises: InvalidDataset with the lines that have errors."""
    errors = [finding for finding in lint(dataset) if finding.severity is LintSeverity.ERROR]
    if errors:
        raise InvalidDataset(
            f"{name} has {count_noun(len(errors), 'error')}",
            errors=[
                ErrorItem(
                    pointer=f"line {finding.line}" if finding.line else "file",
                    detail=finding.text,
                )
                for finding in errors[:SHOWN]
            ],
            hint=f"`bashkit-eval lint {name}` lists all of them",
        )
    return dataset


def bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; reading ends with the first line that is longer than MAX_LINE.

    Such a line is cut: a file without line feeds, such as /dev/zero, must not fill the memory.
    """
    while line := file.readline(MAX_LINE + 1):
        yield line
        if len(line) > MAX_LINE:
            return


def parse_dataset(lines: Iterable[bytes]) -> BashDataset:
    """The tasks and findings of these lines; an empty dataset is an error."""
    entries: list[DatasetTask] = []
    findings: list[DatasetFinding] = []
    first_lines: dict[str, int] = {}
    for number, raw in enumerate(lines, start=1):
        if len(raw) > MAX_LINE:
            findings.append(_error(number, f"the line is longer than {MAX_LINE} bytes"))
            continue
        # In every line and not only the first: a file may be a concatenation of others.
        line = raw.strip().removeprefix(b"\xef\xbb\xbf")  # a byte order mark
        if not line or line.startswith((b"#", b"//")):
            continue
        try:
            task = _parse_task(line, number, findings)
            _require_new_id(task.id, number, first_lines)
        except _InvalidLine as error:
            findings.append(_error(number, str(error)))
        else:
            entries.append(DatasetTask(line=number, task=task))
    if not entries and not findings:
        findings.append(_error(0, "the dataset has no task; write one JSON object per line"))
    return BashDataset(entries=tuple(entries), findings=tuple(findings))


def select_tasks(
    dataset: BashDataset, categories: Sequence[str], task_ids: Sequence[str]
) -> list[EvalTask]:
    """The tasks of these categories and ids; no category or no id selects all. Raises: BadUsage."""
    _require_known("category", categories, {task.category for task in dataset.tasks})
    _require_known("task", task_ids, {task.id for task in dataset.tasks})
    tasks = [
        task
        for task in dataset.tasks
        if (not categories or task.category in categories) and (not task_ids or task.id in task_ids)
    ]
    if not tasks:
        raise BadUsage(
            "none of the named tasks is in the named categories",
            hint="remove --category or --task",
        )
    return tasks


def lint(dataset: BashDataset) -> list[DatasetFinding]:
    """All findings by line: those of reading the lines, then those of the checks."""
    findings = [
        *dataset.findings,
        *(finding for entry in dataset.entries for finding in _lint_task(entry)),
    ]
    return sorted(findings, key=lambda finding: finding.line)


def open_script(path: Path, tasks: Iterable[EvalTask]) -> ScriptedLlm:
    """The model that plays a script file: `{"id": TASK, "turns": [["COMMANDS"]], "answer": TEXT}`.

    One task per line; each inner list is one turn. Raises: UnreadableInput, InvalidInput.
    """
    with open_input(path) as file:
        return parse_script(bounded_lines(file), tasks, name=str(path))


def parse_script(lines: Iterable[bytes], tasks: Iterable[EvalTask], *, name: str) -> ScriptedLlm:
    """The model that plays these lines; `name` is the file in error messages. Raises: InvalidInput."""
    by_id: dict[str, Script] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            _add_script(by_id, f"{name}:{number}", line)
    # By prompt, because a model sees the prompt of a task and not its ID.
    by_prompt = {task.prompt: by_id[task.id] for task in tasks if task.id in by_id}
    return ScriptedLlm(Path(name).stem, by_prompt)


def _require_known(what: str, names: Iterable[str], available: Collection[str]) -> None:
    for name in names:
        if name not in available:
            suggestion = suggest_names(name, sorted(available))
            listed = ", ".join(sorted(available)[:SHOWN])
            raise BadUsage(
                f"the dataset has no {what} {name!r}.{suggestion}",
                hint=f"known names, at most {SHOWN}: {listed}",
            )


def _require_new_id(task_id: str, number: int, first_lines: dict[str, int]) -> None:
    first = first_lines.setdefault(task_id, number)
    if first != number:
        raise _InvalidLine(f"the id {task_id!r} is already used on line {first}")


def _parse_task(line: bytes, number: int, findings: list[DatasetFinding]) -> EvalTask:
    try:
        document = parse_json(line)
    except MalformedJson as error:
        raise _InvalidLine(error.detail.replace("The body", "the line").rstrip(".")) from None
    # Valid JSON that cannot be stored: the errors name the place in the line.
    except AppError as error:
        details = "; ".join(f"{item.pointer} {item.detail}" for item in error.errors)
        raise _InvalidLine(details or error.detail) from None
    if not isinstance(document, Mapping):
        raise _InvalidLine("the line is not a JSON object")
    _warn_unknown_keys(document, TASK_KEYS, number, findings)
    expectations = document.get("expectations")
    if not isinstance(expectations, list) or not expectations:
        raise _InvalidLine("expectations must be a list with at least one item")
    for expectation in expectations:
        if isinstance(expectation, Mapping):
            _warn_unknown_keys(expectation, EXPECTATION_KEYS, number, findings)
    return EvalTask(
        id=_required_text(document, "id"),
        category=_required_text(document, "category"),
        description=_optional_text(document, "description") or "",
        prompt=_required_text(document, "prompt"),
        system=_optional_text(document, "system"),
        files=_parse_files(document),
        expectations=tuple(map(_parse_expectation, expectations)),
    )


def _parse_expectation(document: Any) -> Expectation:
    if not isinstance(document, Mapping):
        raise _InvalidLine('an expectation must be an object such as {"check": "exit_code:0"}')
    weight = document.get("weight")
    if weight is None:
        weight = 1.0
    if not is_number(weight) or weight < 0:
        raise _InvalidLine(f"weight must be a number of at least 0, not {weight!r:.40}")
    return Expectation(check=_required_text(document, "check"), weight=float(weight))


def _parse_files(document: Mapping[str, Any]) -> dict[str, str]:
    files = document.get("files")
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise _InvalidLine("files must be an object of texts by path")
    for path, text in files.items():
        if not path.startswith("/"):
            raise _InvalidLine(f"the path {path!r} in files must begin with /")
        if not isinstance(text, str):
            raise _InvalidLine(f"the file {path!r} must be a text")
    return dict(files)


def _required_text(document: Mapping[str, Any], key: str) -> str:
    text = _optional_text(document, key)
    if text is None or not text.strip():
        raise _InvalidLine(f"{key} is missing")
    return text


def _optional_text(document: Mapping[str, Any], key: str) -> str | None:
    text = document.get(key)
    if text is not None and not isinstance(text, str):
        raise _InvalidLine(f"{key} must be a text")
    return text


def _warn_unknown_keys(
    document: Mapping[str, Any],
    known_keys: Iterable[str],
    number: int,
    findings: list[DatasetFinding],
) -> None:
    names = list(known_keys)
    for key in document:
        if key not in names:
            text = f"the unknown key {key!r} is ignored.{suggest_names(key, names)}"
            findings.append(DatasetFinding(line=number, severity=LintSeverity.WARNING, text=text))


def _error(line: int, text: str) -> DatasetFinding:
    return DatasetFinding(line=line, severity=LintSeverity.ERROR, text=text)


def _lint_task(entry: DatasetTask) -> Iterable[DatasetFinding]:
    checks: set[str] = set()
    for expectation in entry.task.expectations:
        if expectation.check in checks:
            yield _finding(entry, f"the check {expectation.check!r} is repeated")
        checks.add(expectation.check)
        yield from _lint_check(entry, expectation.check)
    if not any(expectation.weight > 0 for expectation in entry.task.expectations):
        yield _finding(entry, "no expectation has a weight, so the task always scores 100 %")
    yield from _lint_files(entry)


def _lint_files(entry: DatasetTask) -> Iterable[DatasetFinding]:
    files = entry.task.files
    for path in Sandbox(files).lost_files(files) if files else ():
        size = len(files[path].encode("utf-8", "surrogatepass"))
        yield _finding(
            entry,
            f"the sandbox cannot store the file {path!r} of {size:,} bytes unchanged; the limits "
            f"are {FILE_LIMITS}",
            is_fatal=True,
        )


def _lint_check(entry: DatasetTask, text: str) -> Iterable[DatasetFinding]:
    name, value = split_check(text)
    check = CHECKS.find(name)
    if check is None:
        suggestion = suggest_names(name, CHECKS.names())
        yield _finding(entry, f"{text!r}: no check is named {name!r}.{suggestion}", is_fatal=True)
        return
    for warning in check.warnings(value):
        yield _finding(entry, f"{text!r}: {warning.text}", is_fatal=warning.is_fatal)


def _finding(entry: DatasetTask, text: str, *, is_fatal: bool = False) -> DatasetFinding:
    return DatasetFinding(
        line=entry.line,
        severity=LintSeverity.ERROR if is_fatal else LintSeverity.WARNING,
        text=f"{entry.task.id}: {text}",
    )


def _add_script(scripts: dict[str, Script], location: str, line: bytes) -> None:
    try:
        document = parse_json(line)
        scripts[document["id"]] = _parse_turns(document)
    except (AppError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{location}: the line is not a script: {error}",
            hint='write {"id": "a-task", "turns": [["echo one"], ["echo two"]]}',
        ) from None


def _parse_turns(document: Mapping[str, Any]) -> Script:
    turns = document["turns"]
    if not all(isinstance(command, str) for turn in turns for command in turn):
        raise TypeError("turns must be lists of texts")
    return Script(
        turns=tuple(tuple(turn) for turn in turns), answer=str(document.get("answer", "Done."))
    )
