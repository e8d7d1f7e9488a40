"""What stands in the sandbox once the task is over."""

from collections.abc import Iterable
from functools import partial

from app.harness.bash.checking import (
    CHECKS,
    Check,
    Complaint,
    Evidence,
    FileKind,
    FileUnreadable,
    Found,
    Named,
)
from app.harness.patterns import InvalidPattern, compile_pattern


def file_exists(path: str, evidence: Evidence) -> Found:
    there = evidence.files.kind(path) is not None
    return Found(there, "exists" if there else "not found")


def dir_exists(path: str, evidence: Evidence) -> Found:
    there = evidence.files.kind(path) is FileKind.DIRECTORY
    return Found(there, "directory exists" if there else "directory not found")


def file_contains(value: str, evidence: Evidence) -> Found:
    path, wanted = split_path(value)
    try:
        text = _text(path, evidence)
    except FileUnreadable as error:
        return Found(False, f"cannot read {path}: {error}")
    if wanted in text:
        return Found(True, "found in file")
    return Found(False, f"'{wanted}' not found in {path}")


def file_line_regex(value: str, evidence: Evidence) -> Found:
    path, wanted = split_path(value)
    try:
        pattern = compile_pattern(wanted)
        text = _text(path, evidence)
    except InvalidPattern as invalid:
        return Found(False, f"invalid regex: {invalid}")
    except FileUnreadable as error:
        return Found(False, f"cannot read {path}: {error}")
    if any(pattern.search(line) for line in lines_of(text)):
        return Found(True, "matched file line")
    return Found(False, f"pattern '{wanted}' not matched by any line in {path}")


def split_path(value: str) -> Named:
    """Path and text: a text may hold colons, a path may not."""
    path, _, text = value.partition(":")
    return Named(path, text)


def lines_of(text: str) -> list[str]:
    """Lines end at a line feed, of which one carriage return is part; no empty one at the end."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _text(path: str, evidence: Evidence) -> str:
    return evidence.files.read(path).decode("utf-8", "replace")


def path_complaints(path: str) -> Iterable[Complaint]:
    if not path.startswith("/"):
        yield Complaint(f"the path {path!r} does not begin with /")


def content_complaints(value: str, *, is_pattern: bool) -> Iterable[Complaint]:
    path, wanted = split_path(value)
    yield from path_complaints(path)
    if not wanted:
        yield Complaint("nothing is asked for; write it as /path:text")
    elif is_pattern:
        try:
            compile_pattern(wanted)
        except InvalidPattern as invalid:
            yield Complaint(f"invalid pattern: {invalid}", fatal=True)


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
