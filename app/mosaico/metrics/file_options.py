"""The options of commands on files of results: the metrics, and the limits of those that call a model."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mosaico.core.console.files import InvalidInput, read_object
from mosaico.core.console.terminal import WrongUsage, print_status
from mosaico.core.defaults import KEEP_LLM_ANSWERS
from mosaico.traces.files.options import FIRST_LINE_S, LINE_INTERVAL_S

if TYPE_CHECKING:
    from mosaico.metrics.formula_direction import KpiFormulaText
    from mosaico.metrics.offline_models import LlmUsage, OfflineModels
    from mosaico.metrics.types import Direction


METRICS_HELP = (
    "Metrics, comma-separated, with options as ROUGE:useStemmer=true, or as a JSON list as in a"
    " benchmark"
)
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Metrics, KPIs and errors as JSON of a benchmark: `metrics`, `measures` and `infraErrors`.",
    ),
]


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


class FileMetrics(NamedTuple):
    """The metrics as a text for `parse_metrics`, None without any, the KPIs by name, and the patterns of errors that
    are not the agent's.
    """

    metrics: str | None
    kpis: "dict[str, KpiFormulaText]"
    infra_errors: tuple[str, ...] = ()


def choose_metrics(metrics: str | None, config: Path | None) -> FileMetrics:
    """The metrics of --metrics, otherwise those of --config with its KPIs.

    Raises: `WrongUsage` for both, `UnreadableInput`, `InvalidInput`.
    """
    if config is None:
        return FileMetrics(metrics, {})
    if metrics is not None:
        raise WrongUsage(
            "--metrics and --config cannot be used together",
            hint="keep one of them; a --config file can list all metrics",
        )
    benchmark = read_object(config)
    listed = benchmark.get("metrics")
    measures = benchmark.get("measures") or []
    if not (listed is None or isinstance(listed, list)) or not isinstance(measures, list):
        raise InvalidInput(f"{config}: `metrics` and `measures` are lists, as in a benchmark")
    infra_errors = benchmark.get("infraErrors") or []
    if not isinstance(infra_errors, list) or not all(isinstance(p, str) for p in infra_errors):
        raise InvalidInput(f"{config}: `infraErrors` is a list of regular expressions")
    kpis = dict(_parse_measure(config, measure) for measure in measures)
    return FileMetrics(json.dumps(listed) if listed else None, kpis, tuple(infra_errors))


def _parse_measure(config: Path, measure: object) -> "tuple[str, KpiFormulaText]":
    # Only --config needs this: the import takes time.
    from mosaico.metrics.formula_direction import KpiFormulaText

    match measure:
        case {"name": str(name), "formula": str(formula), **others}:
            return name, KpiFormulaText(formula, _parse_direction(config, others.get("direction")))
        case _:
            raise InvalidInput(f"{config}: a measure has `name` and `formula`: {measure!r:.80}")


def _parse_direction(config: Path, direction: object) -> "Direction | None":
    # Only --config needs this: the import takes time.
    from mosaico.metrics.types import Direction

    if direction is None:
        return None
    if not isinstance(direction, str) or direction not in {*Direction}:
        names = ", ".join(Direction)
        raise InvalidInput(f"{config}: the direction {direction!r:.80} is not one of {names}")
    return Direction(direction)


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
