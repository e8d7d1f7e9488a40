"""Checks: what can be asked of a task once it is over. One function each, found by folder.

From another distribution the entry points `mosaico.evaluators` do the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, Protocol

from app.core.registry import LoadedPlugin, Registry
from app.harness.bash.types import Judgement, ScoreResult, ToolCallResult

SHOWN: Final = 300  # characters of what a broken check says


class FileUnreadable(Exception):
    """A path of the sandbox holds nothing that can be read."""


class FileKind(StrEnum):
    """What stands at a path of the sandbox."""

    FILE = "file"
    DIRECTORY = "directory"


class Files(Protocol):
    """The files of a sandbox as the task left them."""

    def kind(self, path: str) -> FileKind | None:
        """What the path leads to; None when there is nothing."""
        ...

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises FileUnreadable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEvidence:
    """All that checks may look at: the calls in their order, the files, what a judge said.

    `judgements` are by the text after `llm_judge:`; there is none when no judge is configured.
    """

    calls: Sequence[ToolCallResult]
    files: Files
    judgements: Mapping[str, Judgement] = field(default_factory=dict)


class CheckResult(NamedTuple):
    """Whether a check passed and why. `weight` replaces that of the dataset when it is given."""

    passed: bool
    detail: str
    weight: float | None = None
    judgement: Judgement | None = None


class CheckWarning(NamedTuple):
    """What makes a check a poor one: a fatal complaint one that never can pass, an unsteady one
    that passes by accident, depending on when it is tried.
    """

    text: str
    fatal: bool = False
    unsteady: bool = False


def _nothing_to_say(_: str) -> Iterable[CheckWarning]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One kind of check.

    `find` decides, given the text after the colon exactly as it was written; `complaints` say what
    makes such a text a poor or impossible one, for whoever writes a dataset. `reads_files` tells
    whether it needs the sandbox and not the calls alone.
    """

    kind: ClassVar[str] = "check"

    summary: str
    find: Callable[[str, CheckEvidence], CheckResult]
    complaints: Callable[[str], Iterable[CheckWarning]] = _nothing_to_say
    reads_files: bool = False


class UnfitCheck(Exception):
    """What was registered is no check; register a `Check`."""


def _check_check(name: str, check: Check) -> None:
    if not isinstance(check, Check):
        raise UnfitCheck(f"the check {name} is to be a Check, not {type(check).__name__}")


CHECKS: Final[Registry[Check]] = Registry(
    "check", group="mosaico.evaluators", names=r"[a-z][a-z0-9_]*", check=_check_check
)


class NamedCheck(NamedTuple):
    """A check as it is written: its name and the text after the first colon."""

    name: str
    value: str


def split_check(text: str) -> NamedCheck:
    name, _, value = text.partition(":")
    return NamedCheck(name, value)


class CheckError(Exception):
    """A check raised something, so that nobody knows whether it is met."""


def run_check(text: str, weight: float, evidence: CheckEvidence) -> ScoreResult:
    """What one check of a dataset says; an unknown one fails and keeps its weight.

    Raises CheckBroke.
    """
    name, value = split_check(text)
    check = CHECKS.find(name)
    try:
        found = (
            check.find(value, evidence)
            if check
            else CheckResult(False, f"unknown check type: {name}")
        )
    except Exception as error:  # noqa: BLE001 - of a plugin: an error of its task, not of the run
        told = f"{type(error).__name__}: {error}"[:SHOWN]
        raise CheckError(f"the check {name} broke: {told}") from None
    return ScoreResult(
        check=text,
        passed=found.passed,
        detail=found.detail,
        weight=weight if found.weight is None else found.weight,
        judgement=found.judgement,
    )


def _say_nothing(_: LoadedPlugin) -> None:
    """Ignore a plugin that cannot be loaded; `mosaico plugins` shows it."""


def load_checks(warn: Callable[[LoadedPlugin], None] = _say_nothing) -> None:
    """Find the checks of this product and those of other distributions, once in a process."""
    CHECKS.load("app.harness.bash.checks", warn)
