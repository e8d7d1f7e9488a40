"""Result files of both harnesses: atomic writes, validated reads, unique names, and the journal.

The journal keeps a run that is still in progress: its first line is the report as it began, each
further line is one result or one other fact. A crash costs at most the line being written.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count, islice
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

from pydantic import ValidationError

from mosaico.core.console.files import open_input, require_folder, write_text
from mosaico.core.console.terminal import print_status
from mosaico.core.errors import AppError, ErrorItem, UnusableInput
from mosaico.harness.validation_messages import describe_errors

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_BYTES: Final = 512 * 1024 * 1024
SHOWN: Final = 10  # errors of one file
JOURNAL_SUFFIX: Final = ".partial.jsonl"

Report = TypeVar("Report")


class InvalidResultFile(UnusableInput):
    """The file is not a result; name a file that `bashkit-eval run --save` or `ot-bench run` wrote."""


class IncompatibleRun(AppError):
    """A run resumes only with its agent or model, items and settings; use the same ones or start a new run."""

    status = 409
    exit_code = 2


def read_result_bytes(path: Path) -> bytes:
    """The content of a file. Raises: UnreadableInput, InvalidResultFile when it is too large."""
    with open_input(path) as file:
        # One byte more than allowed shows that the file is larger, without reading all of it.
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InvalidResultFile(f"{path} is larger than {MAX_BYTES} bytes")
    return raw


def parse_json_document(raw: bytes | str, *, name: str) -> Any:
    """The JSON document in `raw`; `name` is the file in error messages. Raises: InvalidResultFile."""
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidResultFile(
            f"{name} is not valid JSON: {error}",
            hint="name a file that `bashkit-eval run --save` or `ot-bench run --output X.json` wrote",
        ) from None


def read_validated(read: Callable[[], Report], *, name: str, program: str, hint: str) -> Report:
    """The report that `read` returns; its validation errors become InvalidResultFile."""
    try:
        return read()
    except ValidationError as error:
        raise InvalidResultFile(
            f"{name} is not a result of {program}",
            errors=[
                ErrorItem(pointer="/" + "/".join(map(str, flaw.path)), detail=flaw.text)
                for flaw in islice(describe_errors(error.errors(include_input=False)), SHOWN)
            ],
            hint=hint,
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidResultFile(
            f"{name} is not a result of {program}: {error}", hint=hint
        ) from None


def document_text(document: Mapping[str, Any]) -> str:
    """The JSON document of a report as the text of a result file."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def write_result(path: Path, text: str) -> None:
    """Write a result file atomically, in a folder that is created if necessary."""
    require_folder(path.parent)
    write_text(path, text)


def journal_of(path: Path) -> Path:
    """The journal of a result file."""
    return path if is_journal(path) else path.with_name(path.name + JOURNAL_SUFFIX)


def result_of(path: Path) -> Path:
    """The result file of a journal; any other path is returned unchanged."""
    return path.with_name(path.name.removesuffix(JOURNAL_SUFFIX))


def is_journal(path: Path) -> bool:
    return path.name.endswith(JOURNAL_SUFFIX)


def newest_of(path: Path) -> Path:
    """The journal of a result file when it exists, else the file: the journal is always newer."""
    journal = journal_of(path)
    return journal if journal.exists() else path


def claim_result_file(
    folder: Path, stem: str, suffix: str, *, siblings: Sequence[str] = ()
) -> Path:
    """Reserve a file name that no other run uses: `STEM.json`, then `STEM-2.json` and so on.

    The empty journal is the reservation, so that two runs of the same second get two names. A name
    is also taken when a file with one of the `siblings` suffixes exists. Raises: UnwritableOutput.
    """
    require_folder(folder)
    for path in _numbered(folder, stem, suffix):
        if any(lexists(path.with_suffix(sibling)) for sibling in (suffix, *siblings)):
            continue
        try:
            journal_of(path).touch(exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise AssertionError("the numbers are infinite")


def _numbered(folder: Path, stem: str, suffix: str) -> Iterator[Path]:
    # Not with_suffix(): the stem may contain a dot, as in gpt-5.2.
    yield folder / f"{stem}{suffix}"
    for number in count(2):
        yield folder / f"{stem}-{number}{suffix}"


class Journal:
    """Appends each result to a file at once, until the result file is written."""

    def __init__(self, path: Path, report: "DataclassInstance") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = journal_of(path)
        # The first line replaces an older journal atomically: a crash here must not lose that one.
        draft = self._path.with_name(f".{self._path.name}")
        draft.write_text(_line(asdict(report)), encoding="utf-8", errors="replace")
        draft.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8", errors="replace")

    def add(self, entry: dict[str, Any]) -> None:
        """Append one entry."""
        self._file.write(_line(entry))
        # Each result may have cost minutes and dollars.
        self._file.flush()

    def discard(self) -> None:
        """Delete the journal; the result file is complete."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> bool:
        """Stop writing; true when the journal still exists, so that the run can be resumed."""
        self._file.close()
        return self._path.exists()


class RunJournal(Journal):
    """The journal of a run of a harness; it says where the result or the journal is."""

    def discard(self) -> None:
        super().discard()
        print_status(f"the result is in {result_of(self._path)}")

    def close(self) -> bool:
        is_unfinished = super().close()
        if is_unfinished:
            print_status(f"the run failed; continue it with --resume {result_of(self._path)}")
        return is_unfinished


class JournalContent(NamedTuple):
    """The report as the run began, and the entries since then."""

    report: dict[str, Any]
    entries: list[dict[str, Any]]


def parse_journal(raw: bytes) -> JournalContent:
    """The content of a journal without a last line that a crash cut off. Raises: ValueError."""
    first, *lines = raw.split(b"\n")
    # What follows the last line break is empty, or a line that was cut off.
    return JournalContent(json.loads(first), [json.loads(line) for line in lines[:-1]])


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n"


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not valid JSON")
