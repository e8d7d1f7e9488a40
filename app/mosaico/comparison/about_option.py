"""The option of commands that names the question that decides."""

from enum import StrEnum
from typing import Annotated

import typer


class AboutChoice(StrEnum):
    """What a verdict is about, as a user writes it."""

    TASKS = "tasks"
    POPULATION = "population"


AboutOption = Annotated[
    AboutChoice | None,
    typer.Option(
        "--about",
        help="The question that decides: whether exactly these tasks changed, or whether other tasks of this kind would"
        " (default: that of the benchmark, otherwise tasks where most have several trials in both runs).",
        show_default=False,
    ),
]
