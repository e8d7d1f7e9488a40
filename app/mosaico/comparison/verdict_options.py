"""The options of commands that compare: the question that decides, and how much whole runs vary."""

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

RunSdOption = Annotated[
    float | None,
    typer.Option(
        "--run-sd",
        metavar="VALUE",
        min=0,
        max=1,
        help="How much whole runs of an unchanged agent vary (standard deviation): points of a share (0.015), and a fraction"
        " of any other value (0.05). In place of what earlier runs tell.",
        show_default=False,
    ),
]
