"""The option of commands that states how much whole runs vary."""

from typing import Annotated

import typer

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
