"""The manners of every command: the answer on standard output, all else on standard error, and an
exit code that says how it went.

Imported whenever a command starts, so it imports next to nothing itself.
"""

import json
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer
from typer.core import TyperCommand

from app.core.errors import AppError

if TYPE_CHECKING:
    from typer._click.core import Context

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])

ENDED_BADLY = 3
INTERRUPTED = 130


class WrongUsage(AppError):
    """A command was not called as it can be; `--help` after it says how."""

    code = "wrong-usage"
    status = 400
    exit_code = 2


class OutputFormat(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"


Format = Annotated[
    OutputFormat,
    typer.Option(
        "--format",
        envvar="MOSAICO_FORMAT",
        show_choices=True,
        help="How to print the answer; --json is short for --format json.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done and do nothing.")]


class Command(TyperCommand):
    """A command whose `AppError` becomes lines on standard error and an exit code.

    Its parameter `output` (or a true `jsonl`) decides whether these lines are a problem document.
    """

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if any(param.name == "output" for param in self.params):
            end = args.index("--") if "--" in args else len(args)
            head = ["--format=json" if word == "--json" else word for word in args[:end]]
            args = head + args[end:]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: "Context") -> Any:
        try:
            return super().invoke(ctx)
        except AppError as error:
            wants_json = ctx.params.get("output") == OutputFormat.JSON or ctx.params.get("jsonl")
            report(error, OutputFormat.JSON if wants_json else OutputFormat.TABLE)
            raise typer.Exit(error.exit_code) from None


class CommandGroup(typer.Typer):
    """A group of such commands."""

    def __init__(self, name: str, *, help: str, **settings: Any) -> None:  # noqa: A002 - typer's
        super().__init__(
            name=name,
            help=help,
            no_args_is_help=True,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            **settings,
        )

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[CommandFunction], CommandFunction]:
        return super().command(name, **{"cls": Command, **settings})


def print_result(text: str) -> None:
    """Print a line of the answer; standard output gets nothing else."""
    sys.stdout.write(f"{text}\n")


def print_json(document: Any, *, flush: bool = False) -> None:
    """Print one JSON document on one line; NaN and infinities are a mistake of the caller."""
    print_result(as_json(document, sys.stdout))
    if flush:
        sys.stdout.flush()


def print_status(line: str) -> None:
    """Say something to a person; answers go to standard output, this does not."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def print_warning(text: str) -> None:
    print_status(f"warning: {text}")


def report(error: AppError, output: OutputFormat) -> None:
    """Tell an error: as lines, or as the problem document that the API would answer."""
    if output is OutputFormat.JSON:
        print_status(as_json(problem_of(error), sys.stderr))
        return
    print_status(f"error: {printable_lines(error.detail)}")
    for item in error.errors:
        print_status(f"  {printable(item.pointer)}: {printable_lines(item.detail)}")
    for label in ("cause", "hint"):
        if label in error.extra:
            print_status(f"{label}: {printable_lines(str(error.extra[label]))}")


def problem_of(error: AppError) -> dict[str, Any]:
    """The problem document of an error, as RFC 9457 has it."""
    document: dict[str, Any] = {
        "type": f"/problems/{error.error_code}",
        "title": error.error_code.replace("-", " ").capitalize(),
        "status": error.status,
        "detail": error.detail,
    }
    if error.errors:
        document["errors"] = [
            {"pointer": item.pointer, "detail": item.detail, "span": item.span}
            if item.span
            else {"pointer": item.pointer, "detail": item.detail}
            for item in error.errors
        ]
    return document | error.extra


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost; without a terminal `--yes` must have been said."""
    if yes:
        return
    if not (is_interactive(sys.stdin) and is_interactive(sys.stderr)):
        raise WrongUsage("this cannot be undone, and nobody is here to ask", hint="add --yes")
    print_status(f"{question} [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        print_status("nothing was done")
        raise typer.Exit(1)


def is_interactive(stream: TextIO) -> bool:
    """Whether a person looks at this stream."""
    return stream.isatty()


def printable(text: str) -> str:
    """The text on one line; what would move a cursor or split a cell is written as its escape."""
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def as_json(document: Any, stream: TextIO) -> str:
    """JSON in the characters that the stream can carry."""
    carries_all = (stream.encoding or "").lower().replace("-", "").startswith("utf8")
    return json.dumps(document, ensure_ascii=not carries_all, allow_nan=False, default=str)


def set_safe_encoding(streams: Iterable[TextIO]) -> None:
    """Let a terminal with a small alphabet show escapes where it would have raised."""
    for stream in streams:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def tell_unforeseen(kind: type[BaseException], error: BaseException, _: object) -> None:
    """The last resort: one line, and an exit code that no verdict has."""
    print_status(f"error: {kind.__name__}: {error}")
    print_status("hint: this should not happen; `mosaico --debug …` shows where it came from")
    sys.exit(AppError.exit_code)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
