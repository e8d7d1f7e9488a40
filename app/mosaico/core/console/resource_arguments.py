"""Arguments and options of commands that name resources or limit a list of them."""

from typing import Annotated, Any

import typer

from mosaico.core.console.service import complete_ids
from mosaico.core.console.short_ids import GENERATED_ID_LISTS, NAMED_LISTS

Limit = Annotated[int, typer.Option("--limit", min=1, help="Maximum number of rows, newest first.")]

Fields = Annotated[
    str | None,
    typer.Option(
        "--fields",
        metavar="NAMES",
        help="Print only these fields of the JSON, comma-separated, such as id,verdict.verdict.",
    ),
]


def id_argument(noun: str, path: str) -> Any:
    """Return the ID argument of a resource, for `Annotated[str, …]`."""
    help_text = f"ID of the {noun}."
    if path in GENERATED_ID_LISTS:
        help_text = f"ID of the {noun}, its beginning, or `latest`."
    elif path in NAMED_LISTS:
        help_text = f"ID or name of the {noun}."
    return typer.Argument(
        metavar=noun.rpartition(" ")[2].upper(),
        help=help_text,
        autocompletion=complete_ids(path),
    )


def note_option(noun: str) -> Any:
    """The option for the reason of an action, for `Annotated[str | None, …]`."""
    return typer.Option("--note", help=f"Reason, stored with the {noun}.")
