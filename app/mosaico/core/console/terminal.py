"""Conventions of every command: results on standard output, everything else on standard error, and
an exit code that states the outcome.

Every command imports this module at start-up, so it imports nothing but typer and the error types.
"""

import json
import math
import re
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from mosaico.core.console.help_lines import format_whole_names
from mosaico.core.console.option_groups import expand_option_groups
from mosaico.core.console.usage_errors import UsageErrorReporter
from mosaico.core.errors import AppError, BadUsage
from mosaico.core.text import JOINERS

if TYPE_CHECKING:
    from mosaico.core.registry import LoadedPlugin

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])

# Not 1 or 2, which shells and argument parsers use: a script can tell "the gate failed" from "the
# command failed".
EXIT_UNSUCCESSFUL = 3
# The lines below an error are the `errors` of the document.
_NAMES_ERRORS = re.compile(
    r"; (?:see `errors`|`errors` lists each field to correct"
    r"|correct the (?:fields|places) in `errors` and send it again)\.?$"
)
# How the libraries of options begin their messages.
_VALIDATION_WORDS = re.compile(r"(?:Value error, |Input (?=should))")
EXIT_INTERRUPTED = 130
HELP_OPTIONS = ("-h", "--help")
# A line of help has 80 columns: more choices than these stand in the text, where lines can break.
_MAX_TYPE_WIDTH = 64
_REQUIRED_ARGUMENT = re.compile(r"^\{([^{}]+)\}")
_TYPE_NAMES = {"str": "text", "int": "integer", "float": "number", "Path": "path"}


class WrongUsage(BadUsage):
    """The arguments or options of a command do not fit together; see its `--help`."""


class OutputFormat(StrEnum):
    """Format of a result on standard output."""

    TABLE = "table"
    JSON = "json"


Format = Annotated[
    OutputFormat,
    typer.Option(
        "--format",
        envvar="MOSAICO_FORMAT",
        show_choices=True,
        help="Output format; --json is short for --format json.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what the command would do, and change nothing.")
]


class _ReportedUsage(UsageErrorReporter):
    def report_usage(self, message: str, hint: str, *, wants_json: bool) -> NoReturn:
        error = WrongUsage(message, hint=hint)
        report_error(error, OutputFormat.JSON if wants_json else OutputFormat.TABLE)
        raise typer.Exit(error.exit_code)


class Command(_ReportedUsage, TyperCommand):
    """A command that reports an `AppError` on standard error and exits with its exit code.

    The error is printed as a problem document if the command prints JSON, that is if its parameter
    `output` is `json` or its parameter `jsonl` is true.
    """

    # `ctx` is untyped: typer exports no name for the context class of its base class.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(param.name == "output" for param in self.params):
            # Words after `--` are arguments, even if they look like options.
            end = args.index("--") if "--" in args else len(args)
            # Rewritten here, because two typer options cannot set one parameter.
            options = ["--format=json" if word == "--json" else word for word in args[:end]]
            args = options + args[end:]
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _VALIDATION_WORDS.sub("", error.message, count=1)
            raise

    def get_help(self, ctx: Any) -> str:
        """The help, whose lines do not end within a name such as `run-name`."""
        return format_whole_names(self, ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage, with required arguments as `RUN`: typer writes `{RUN}`, which looks like a choice."""
        return [_REQUIRED_ARGUMENT.sub(r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options and arguments, without the names that Python has for their types."""
        for param in self.get_params(ctx):
            if isinstance(param, TyperArgument):
                _omit_type(param)
            # A flag has no value, and the metavar of an argument is its name.
            if isinstance(param, TyperOption) and not param.is_flag and param.metavar is None:
                _describe_type(param, param.display_type(ctx))
        super().format_options(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The examples of the command end its help."""
        # When help is printed: other commands need no examples.
        from mosaico.core.console.examples import examples_of

        super().format_epilog(ctx, formatter)
        if examples := examples_of(ctx.command_path):
            with formatter.section("Examples"):
                # Not wrapped, so that they can be copied.
                formatter.write("".join(f"  {line}\n" for line in examples))

    def invoke(self, ctx: Any) -> Any:
        try:
            self._require_finite_numbers(ctx)
            return super().invoke(ctx)
        except AppError as error:
            # A script that reads JSON gets its errors as JSON, too.
            wants_json = ctx.params.get("output") == OutputFormat.JSON or ctx.params.get("jsonl")
            if wants_json:
                report_error(error, OutputFormat.JSON)
            else:
                # When a command fails: the others need no words.
                from mosaico.core.console.error_messages import in_words_of_command

                worded_error = in_words_of_command(error, self.params, ctx.params)
                report_error(worded_error, OutputFormat.TABLE)
            raise typer.Exit(error.exit_code) from None

    def _require_finite_numbers(self, ctx: Any) -> None:
        """Refuse NaN and infinities, which no option means and JSON does not have."""
        for param in self.params:
            value = ctx.params.get(param.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise WrongUsage(f"{param.opts[0]} should be a finite number")


class Group(_ReportedUsage, TyperGroup):
    """A group whose help gives the whole first sentence of each command, under headings.

    The heading of a command is its `rich_help_panel`.
    """

    # `ctx` and `formatter` are untyped: typer exports no names for these classes.
    def get_help(self, ctx: Any) -> str:
        """The help, whose lines do not end within a name such as `run-name`."""
        return format_whole_names(self, ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        visible = [command for command in commands if command is not None and not command.hidden]
        if not visible:
            return
        # All names have one width, so that the sentences of all headings begin in one column.
        width = max(len(command.name or "") for command in visible)
        by_heading: dict[str, list[tuple[str, str]]] = {}
        for command in visible:
            heading = getattr(command, "rich_help_panel", None)
            rows = by_heading.setdefault(heading if isinstance(heading, str) else "Commands", [])
            rows.append(((command.name or "").ljust(width), first_sentence(command.help or "")))
        for heading, rows in by_heading.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class DeferredCommand(TyperCommand):
    """A placeholder with a help line for a command or group that is loaded when it is used."""

    def __init__(self, name: str, load: Callable[[], Any], **settings: Any) -> None:
        # Without rich, whose import would slow down every `--help`.
        super().__init__(name, **{**settings, "rich_markup_mode": None})
        self.load = load

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return self.load().make_context(info_name, args, parent, **extra)


class CommandGroup(typer.Typer):
    """A group of `Command`s; its completion commands exist at the root of a program only."""

    def __init__(self, name: str, *, help: str, **settings: Any) -> None:  # noqa: A002 - typer's
        context = {"help_option_names": HELP_OPTIONS, **settings.pop("context_settings", {})}
        super().__init__(
            name=name,
            cls=Group,
            help=help,
            no_args_is_help=True,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            add_completion=False,
            context_settings=context,
            **settings,
        )

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[CommandFunction], CommandFunction]:
        register = super().command(name, **{"cls": Command, **settings})

        def add(function: CommandFunction) -> CommandFunction:
            register(expand_option_groups(function))
            return function

        return add

    def add_deferred(self, name: str, load: Callable[[], Any], *, help_text: str) -> None:
        """Add a command that `load` builds when it is used; `help_text` is shown in the help of the
        group.
        """
        self.command(name, cls=partial(DeferredCommand, load=load), help=help_text)(_placeholder)

    def add_group(self, group: "CommandGroup") -> None:
        """Add a nested group under its own name."""
        self.add_typer(group)


def name_type(label: str) -> str:
    """The type of an option as help shows it, from the name that typer gives it.

    An option that is repeated has the type of one value: `<list[str]>` is `<text>`.
    """
    name = label.strip("<>").removeprefix("list[").removesuffix("]").removesuffix(" range")
    return f"<{_TYPE_NAMES.get(name, name)}>"


def first_sentence(text: str) -> str:
    """The first paragraph of a help text up to the end of its first sentence, on one line."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    sentence, full_stop, _ = paragraph.partition(". ")
    return f"{sentence}." if full_stop else paragraph


def load_command(command: Any) -> Any:
    """The command or group itself where `command` is a placeholder for it."""
    return command.load() if isinstance(command, DeferredCommand) else command


def print_result(text: str) -> None:
    """Print one line of the result to standard output."""
    sys.stdout.write(f"{text}\n")


def print_json(document: Any, *, flush: bool = False) -> None:
    """Print one JSON document on one line. Raises: ValueError for NaN and infinities."""
    print_result(encode_json(document, sys.stdout))
    # For events: a reader of the pipe waits for each line.
    if flush:
        sys.stdout.flush()


def print_status(line: str) -> None:
    """Print one line for people to standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def print_warning(text: str) -> None:
    """Print one warning line to standard error."""
    print_status(f"warning: {text}")


def warn_failed_plugin(plugin: "LoadedPlugin") -> None:
    """Print a warning that a plugin of another distribution failed to load."""
    print_warning(f"plugin {plugin.name} failed to load: {plugin.error}")


def report_error(error: AppError, output: OutputFormat) -> None:
    """Print an error to standard error: as lines, or as the problem document of the API."""
    if output is OutputFormat.JSON:
        print_status(encode_json(to_problem(error), sys.stderr))
        return
    detail = _NAMES_ERRORS.sub("", error.detail) if error.errors else error.detail
    print_status(f"error: {escape_lines(detail)}")
    for item in error.errors:
        print_status(f"  {escape_line(item.pointer)}: {escape_lines(item.detail)}")
    for label in ("cause", "hint"):
        if label in error.extra:
            print_status(f"{label}: {escape_lines(str(error.extra[label]))}")


def to_problem(error: AppError) -> dict[str, Any]:
    """The RFC 9457 problem document of an error."""
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
    """Ask for confirmation before a change that destroys or interrupts something.

    Raises: `WrongUsage` without a terminal to ask on, unless `yes`; `typer.Exit` when declined.
    """
    if yes:
        return
    # In a script, a question would wait for ever or read the data of a pipe as its answer.
    if not (is_interactive(sys.stdin) and is_interactive(sys.stderr)):
        raise WrongUsage(
            "this command requires confirmation, but there is no interactive terminal",
            hint="add --yes",
        )
    print_status(f"{question} [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        print_status("nothing was changed")
        raise typer.Exit(1)


def is_interactive(stream: TextIO) -> bool:
    """Return whether the stream is a terminal."""
    return stream.isatty()


def escape_line(text: str) -> str:
    """The text on one line, with control characters written as escape sequences.

    A control character could move the cursor of a terminal or split a cell of a table.
    """
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def escape_lines(text: str) -> str:
    """The text with its line breaks kept and all other control characters escaped."""
    return "\n".join(map(escape_line, text.split("\n")))


def encode_json(document: Any, stream: TextIO) -> str:
    """Return one line of JSON, in ASCII if the stream cannot encode all of Unicode."""
    is_utf8 = (stream.encoding or "").lower().replace("-", "").startswith("utf8")
    # NaN is not JSON: other programs could not read the line.
    return json.dumps(document, ensure_ascii=not is_utf8, allow_nan=False, default=str)


def _describe_type(option: TyperOption, label: str) -> None:
    """Name the type of an option in its help; many choices are listed in its text."""
    option.metavar = name_type(label)
    if len(option.metavar) > _MAX_TYPE_WIDTH:
        choices = option.metavar.strip("<>").replace("|", ", ")
        option.metavar = "<choice>"
        option.help = f"{option.help} One of {choices}."


def _omit_type(argument: Any) -> None:
    """Describe an argument by its name only, such as FILE or RUN: the name says what it is."""
    argument.display_type_rich = lambda **_: ""


def _escaped(char: str) -> str:
    return char if char in JOINERS else char.encode("unicode_escape").decode("ascii")


def _placeholder() -> None:
    """Never called: a deferred command runs the command that it loads."""
