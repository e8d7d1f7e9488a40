"""The options that name the metrics of commands on files of results."""

import json
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from app.core.console.input_files import InvalidInput, read_object
from app.core.console.terminal import WrongUsage

METRICS_HELP = (
    "Metrics, comma-separated, with options as ROUGE:useStemmer=true, or as a JSON list as in a"
    " benchmark"
)
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Metrics and KPIs as JSON of a benchmark: `metrics` and `measures`.",
    ),
]


class FileMetrics(NamedTuple):
    """The metrics as a text for `parse_metrics`, None without any, and the formulas of KPIs by name."""

    metrics: str | None
    kpis: dict[str, str]


def choose_metrics(metrics: str | None, config: Path | None) -> FileMetrics:
    """The metrics of --metrics, otherwise those of --config with its KPIs.

    Raises: `WrongUsage` for both, `UnreadableInput`, `InvalidInput`.
    """
    if config is None:
        return FileMetrics(metrics, {})
    if metrics is not None:
        raise WrongUsage(
            "--metrics and --config exclude each other", hint="keep one; a file can name them all"
        )
    benchmark = read_object(config)
    listed = benchmark.get("metrics")
    measures = benchmark.get("measures") or []
    if not (listed is None or isinstance(listed, list)) or not isinstance(measures, list):
        raise InvalidInput(f"{config}: `metrics` and `measures` are lists, as in a benchmark")
    kpis = {}
    for measure in measures:
        match measure:
            case {"name": str(name), "formula": str(formula)}:
                kpis[name] = formula
            case _:
                raise InvalidInput(f"{config}: a measure has `name` and `formula`: {measure!r:.80}")
    return FileMetrics(json.dumps(listed) if listed else None, kpis)
