"""What stands in the sandbox once the task is over."""

from collections.abc import Iterable
from functools import partial

from app.harness.bash.checking import (
    CHECKS,
    Check,
    CheckEvidence,
    CheckResult,
    CheckWarning,
    FileKind,
    FileUnreadable,
    NamedCheck,
)
from app.harness.patterns import InvalidPattern, compile_pattern


def file_exists(path: str, evidence: CheckEvidence) -> CheckResult:
    there = evidence.files.kind(path) is not None
    return CheckResult(there, "exists" if there else "not found")


def dir_exists(path: str, evidence: CheckEvidence) -> CheckResult:
    there = evidence.files.kind(path) is FileKind.DIRECTORY
    return CheckResult(there, "directory exists" if there else "directory not found")


def file_contains(value: str, evidence: CheckEvidence) -> CheckResult:
    path, wanted = split_path(value)
    try:
        text = _text(path, evidence)
    except FileUnreadable as error:
        return CheckResult(False, f"cannot read {path}: {error}")
    if wanted in text:
        return CheckResult(True, "found in file")
    return CheckResult(False, f"'{wanted}' not found in {path}")


def file_line_regex(value: str, evidence: CheckEvidence) -> CheckResult:
    path, wanted = split_path(value)
    try:
        pattern = compile_pattern(wanted)
        text = _text(path, evidence)
    except InvalidPattern as invalid:
        return CheckResult(False, f"invalid regex: {invalid}")
    except FileUnreadable as error:
        return CheckResult(False, f"cannot read {path}: {error}")
    if any(pattern.search(line) for line in lines_of(text)):
        return CheckResult(True, "matched file line")
    return CheckResult(False, f"pattern '{wanted}' not matched by any line in {path}")


def split_path(value: str) -> NamedCheck:
    """Path and text: a text may hold colons, a path may not."""
    path, _, text = value.partition(":")
    return NamedCheck(path, text)


def lines_of(text: str) -> list[str]:
    """Lines end at a line feed, of which one carriage return is part; no empty one at the end."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _text(path: str, evidence: CheckEvidence) -> str:
    return evidence.files.read(path).decode("utf-8", "replace")


def path_complaints(path: str) -> Iterable[CheckWarning]:
    if not path.startswith("/"):
        yield CheckWarning(f"the path {path!r} does not begin with /")


def content_complaints(value: str, *, is_pattern: bool) -> Iterable[CheckWarning]:
    path, wanted = split_path(value)
    yield from path_complaints(path)
    if not wanted:
        yield CheckWarning("nothing is asked for; write it as /path:text")
    elif is_pattern:
        try:
            compile_pattern(wanted)
        except InvalidPattern as invalid:
            yield CheckWarning(f"invalid pattern: {invalid}", fatal=True)


CHECKS.register(
    "file_exists",
    Check(
        summary="a file or directory stands at this path",
        find=file_exists,
        complaints=path_complaints,
        reads_files=True,
    ),
)
CHECKS.register(
    "dir_exists",
    Check(
        summary="a directory stands at this path",
        find=dir_exists,
        complaints=path_complaints,
        reads_files=True,
    ),
)
CHECKS.register(
    "file_contains",
    Check(
        summary="the file at this path holds this text: /path:text",
        find=file_contains,
        complaints=partial(content_complaints, is_pattern=False),
        reads_files=True,
    ),
)
CHECKS.register(
    "file_line_regex",
    Check(
        summary="a line of the file at this path matches: /path:pattern",
        find=file_line_regex,
        complaints=partial(content_complaints, is_pattern=True),
        reads_files=True,
    ),
)
