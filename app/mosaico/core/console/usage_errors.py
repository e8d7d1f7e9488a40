"""Usage errors of a command line, in the form of all errors: `error:` and `hint:`, or a problem document."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final, NoReturn

import typer

# typer exports this one of the classes; the error of a group without arguments prints its help.
_USAGE_ERROR: Final[Any] = typer.BadParameter.__mro__[1]
_PRINTS_HELP: Final = "NoArgsIsHelpError"
_FORMAT_OPTION: Final = "--format"


class UsageErrorReporter:
    """Makes a command or group report the errors in its arguments."""

    # Untyped: typer exports no names for the context and the base of both classes.
    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        parents = [parent.command_path] if parent is not None else []
        with self._reporting(args, " ".join([*parents, info_name or ""])):
            return super().make_context(info_name, args, parent, **extra)  # type: ignore[misc]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of a group by the first word."""
        with self._reporting(args, ctx.command_path):
            return super().resolve_command(ctx, args)  # type: ignore[misc]

    def report_usage(self, message: str, hint: str, *, wants_json: bool) -> NoReturn:
        """Print the error, and exit."""
        raise NotImplementedError

    @contextmanager
    def _reporting(self, args: Sequence[str], command_path: str) -> Iterator[None]:
        """Report a usage error of the block."""
        words = list(args)  # parsing consumes them
        try:
            yield
        except _USAGE_ERROR as error:
            if type(error).__name__ == _PRINTS_HELP:
                raise
            message = error.format_message()
            path = error.ctx.command_path if error.ctx is not None else command_path
            text = f"{message[:1].lower()}{message[1:]}"
            self.report_usage(text, f"see `{path} -h`", wants_json=_wants_json(words))


def _wants_json(words: Sequence[str]) -> bool:
    """Return whether the command would print JSON, as far as its words can be read."""
    values = [word.removeprefix("--format=") for word in words if word.startswith("--format=")]
    values += [after for word, after in pairwise(words) if word == _FORMAT_OPTION]
    if "--json" in words or "--jsonl" in words:
        return True
    return (values[-1] if values else os.environ.get("MOSAICO_FORMAT")) == "json"
