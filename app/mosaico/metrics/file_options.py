"""The options of commands on files of results: the metrics, and the limits of those that call a model."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mosaico.core.console.files import read_object
from mosaico.core.console.terminal import WrongUsage, print_status
from mosaico.core.defaults import KEEP_LLM_ANSWERS
from mosaico.traces.files.options import FIRST_LINE_S, LINE_INTERVAL_S

if TYPE_CHECKING:
    from mosaico.metrics.offline_models import LlmUsage, OfflineModels


METRICS_HELP = (
    "Metrics, comma-separated, with options as ROUGE:useStemmer=true, or as a JSON list as in a"
    " benchmark"
)
Better = Annotated[
    list[str] | None,
    typer.Option(
        "--better",
        metavar="NAME=DIRECTION",
        help="Which values of a score are better: higher or lower (default: by its name, where that means"
        " one thing everywhere). Repeatable.",
    ),
]


Ranges = Annotated[
    list[str] | None,
    typer.Option(
        "--range",
        metavar="NAME=LOW..HIGH",
        help="Between which values a score lies, such as quality=0..1: a failed answer without a score has the worst one."
        " Repeatable.",
    ),
]


def parse_ranges(texts: Sequence[str] | None) -> dict[str, str]:
    """The ranges by score of `--range tone=1..5`. Raises: `WrongUsage`."""
    # Only --range needs it.
    from mosaico.core.errors import Invalid
    from mosaico.metrics.score_ranges import parse_range

    ranges = {}
    for text in texts or ():
        name, _, ends = (part.strip() for part in text.rpartition("="))
        try:
            parse_range(ends)
        except Invalid as error:
            raise WrongUsage(
                f"{text!r} does not have the form NAME=LOW..HIGH", hint="write --range tone=1..5"
            ) from error
        if not name:
            raise WrongUsage(f"{text!r} names no score", hint="write --range tone=1..5")
        ranges[name] = ends
    return ranges


def parse_better(texts: Sequence[str] | None) -> dict[str, str]:
    """The directions by score of `--better tone=higher`. Raises: `WrongUsage`."""
    # Only --better needs it.
    from mosaico.metrics.score_directions import BY_OPTION

    directions = {}
    for text in texts or ():
        name, _, direction = (part.strip() for part in text.rpartition("="))
        if not name or direction not in BY_OPTION:
            raise WrongUsage(
                f"{text!r} does not have the form NAME=DIRECTION",
                hint="write --better tone=higher or --better tone=lower",
            )
        directions[name] = direction
    return directions


class ModelLimits(NamedTuple):
    """The options that limit metrics that call a model."""

    max_requests: Annotated[
        int | None,
        typer.Option(
            "--max-requests",
            metavar="N",
            min=1,
            help="Metrics that call a model: send at most N requests.",
        ),
    ] = None
    max_usd: Annotated[
        float | None,
        typer.Option(
            "--max-usd", metavar="USD", help="Metrics that call a model: spend at most USD dollars."
        ),
    ] = None
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            metavar="FILE",
            help='JSON file of dollars per million tokens: {"MODEL": {"input": 1, "output": 5}}, for'
            " servers that do not report a cost.",
        ),
    ] = None
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="FOLDER",
            help=f"LLM cache; each request is sent once in {KEEP_LLM_ANSWERS.days} days (default: a folder of the user).",
        ),
    ] = None


@contextmanager
def open_models(limits: ModelLimits) -> Iterator["OfflineModels"]:
    """The models for metrics of a command. At the end their usage is printed on standard error, also
    after an error.
    """
    # The metrics take long to import, and only a command that runs needs them.
    from mosaico.metrics.offline_models import LlmOptions, OfflineModels

    options = LlmOptions(
        max_requests=limits.max_requests,
        max_usd=limits.max_usd,
        prices=read_object(limits.prices) if limits.prices else {},
        cache=limits.cache,
    )
    models = OfflineModels(options, RequestProgress(print_status, time.monotonic))
    try:
        yield models
    finally:
        for line in models.usage.describe():
            print_status(line)


class RequestProgress:
    """Prints how many requests were answered: nothing in the first 5 s, then a line every 10 s."""

    def __init__(self, print_line: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._print_line = print_line
        self._clock = clock
        self._due_s: float | None = None

    def __call__(self, usage: "LlmUsage") -> None:
        now_s = self._clock()
        if self._due_s is None:
            # Not from the start of the command: reading a large file comes first.
            self._due_s = now_s + FIRST_LINE_S
        if now_s < self._due_s:
            return
        self._due_s = now_s + LINE_INTERVAL_S
        requests = sum(model.requests for model in usage.models.values())
        self._print_line(f"{requests:,} model requests answered")
