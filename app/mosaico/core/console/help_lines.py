"""Wraps the help of commands, without a break in the name of an option or a field."""

from typing import Any

# As wide as a hyphen; lines do not break at it.
_BOUND_HYPHEN = "\u2011"


def format_whole_names(command: Any, ctx: Any) -> str:
    """The help of a command, wrapped at spaces only: half a name of an option cannot be copied."""
    formatter = ctx.make_formatter()
    write_text, write_definitions = formatter.write_text, formatter.write_dl
    formatter.write_text = lambda text: write_text(_bind(text))
    formatter.write_dl = lambda rows, *args, **settings: write_definitions(
        [(term, _bind(text)) for term, text in rows], *args, **settings
    )
    command.format_help(ctx, formatter)
    text: str = formatter.getvalue().rstrip("\n")
    return text.replace(_BOUND_HYPHEN, "-")


def _bind(text: str) -> str:
    return text.replace("-", _BOUND_HYPHEN)
