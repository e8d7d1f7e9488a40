"""The files of the sandbox after the task."""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from mosaico.harness.bash.check_registry import (
    CHECKS,
    Check,
    CheckEvidence,
    CheckResult,
    CheckWarning,
    FileKind,
    UnreadableFile,
)
from mosaico.harness.text_search import InvalidPattern, compile_pattern


class PathAndText(NamedTuple):
    """The value of a check of file contents."""

    path: str
    text: str


def file_exists(path: str, evidence: CheckEvidence) -> CheckResult:
    exists = evidence.files.kind(path) is not None
    return CheckResult(exists, "exists" if exists else "not found")


def dir_exists(path: str, evidence: CheckEvidence) -> CheckResult:
    exists = evidence.files.kind(path) is FileKind.DIRECTORY
    return CheckResult(exists, "directory exists" if exists else "directory not found")


def file_contains(value: str, evidence: CheckEvidence) -> CheckResult:
    path, expected = split_path(value)
    try:
        content = _content(path, evidence)
    except UnreadableFile as error:
        return CheckResult(False, f"cannot read {path}: {error}")
    if expected in content:
        return CheckResult(True, "found in file")
    return CheckResult(False, f"'{expected}' not found in {path}")


def file_line_regex(value: str, evidence: CheckEvidence) -> CheckResult:
    path, expected = split_path(value)
    try:
        pattern = compile_pattern(expected)
        content = _content(path, evidence)
    except InvalidPattern as invalid:
        return CheckResult(False, f"invalid regex: {invalid}")
    except UnreadableFile as error:
        return CheckResult(False, f"cannot read {path}: {error}")
    if any(pattern.search(line) for line in lines_of(content)):
        return CheckResult(True, "matched file line")
    return CheckResult(False, f"pattern '{expected}' not matched by any line in {path}")


def split_path(value: str) -> PathAndText:
    """Split `/path:text` at the first colon: the text may contain colons, the path may not."""
    path, _, text = value.partition(":")
    return PathAndText(path, text)


def lines_of(text: str) -> list[str]:
    """The lines of a text, split like Rust does: at line feeds, one carriage return removed.

    str.splitlines() would also split at form feeds and other separators.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _content(path: str, evidence: CheckEvidence) -> str:
    return evidence.files.read(path).decode("utf-8", "replace")


def path_warnings(path: str) -> Iterable[CheckWarning]:
    if not path.startswith("/"):
        yield CheckWarning(f"the path {path!r} does not begin with /")


def content_warnings(value: str, *, is_pattern: bool) -> Iterable[CheckWarning]:
    path, expected = split_path(value)
    yield from path_warnings(path)
    if not expected:
        form = "pattern" if is_pattern else "text"
        yield CheckWarning(f"the {form} is missing; write /path:{form}", is_fatal=True)
    elif is_pattern:
        try:
            compile_pattern(expected)
        except InvalidPattern as invalid:
            yield CheckWarning(f"invalid pattern: {invalid}", is_fatal=True)


CHECKS.register(
    "file_exists",
    Check(
        summary="a file or directory exists at this path",
        evaluate=file_exists,
        warnings=path_warnings,
    ),
)
CHECKS.register(
    "dir_exists",
    Check(
        summary="a directory exists at this path",
        evaluate=dir_exists,
        warnings=path_warnings,
    ),
)
CHECKS.register(
    "file_contains",
    Check(
        summary="the file contains this text: /path:text",
        evaluate=file_contains,
        warnings=partial(content_warnings, is_pattern=False),
    ),
)
CHECKS.register(
    "file_line_regex",
    Check(
        summary="a line of the file matches: /path:pattern",
        evaluate=file_line_regex,
        warnings=partial(content_warnings, is_pattern=True),
    ),
)
