"""The options that choose the benchmark of commands on files: `--config`, `--benchmark`, or `mosaico.yaml` in the current folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from mosaico.core.console.terminal import WrongUsage, print_status
from mosaico.core.errors import AppError

if TYPE_CHECKING:
    from mosaico.project_file.file_benchmark import FileBenchmark

FILE_NAME: Final = "mosaico.yaml"


class BenchmarkOptions(NamedTuple):
    """The options that name a benchmark for files of results."""

    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Metrics, KPIs and errors of a benchmark: mosaico.yaml, or JSON of a benchmark with `metrics`,"
            f" `measures` and `infraErrors` (default: {FILE_NAME} in the current folder, if there is one).",
        ),
    ] = None
    benchmark: Annotated[
        str | None,
        typer.Option(
            "--benchmark",
            metavar="NAME",
            help=f"Benchmark of {FILE_NAME} (default: the only one).",
        ),
    ] = None
    no_config: Annotated[
        bool,
        typer.Option("--no-config", help=f"Do not read {FILE_NAME} of the current folder."),
    ] = False


def choose_benchmark(metrics: str | None, options: BenchmarkOptions) -> "FileBenchmark":
    """The benchmark of the file that the options name, otherwise of `mosaico.yaml` in the current folder; `metrics`
    of the command line replace its metrics and KPIs. One line on standard error says what the file sets.

    Raises: `WrongUsage` for options that do not fit together, and the errors of `read_file_benchmark`.
    """
    # Only a command that runs needs the metrics.
    from mosaico.project_file.file_benchmark import FileBenchmark, read_file_benchmark

    path = _find_file(options)
    if path is None:
        return FileBenchmark(metrics=metrics)
    try:
        chosen = read_file_benchmark(path, options.benchmark, os.environ)
    except AppError as error:
        if options.config is None:
            # Nobody named the file.
            remedies = (error.extra.get("hint"), f"--no-config leaves {FILE_NAME} out")
            error.extra["hint"] = "; ".join(filter(None, remedies))
        raise
    if metrics is not None:
        chosen = chosen.with_metrics(metrics, "--metrics")
    if chosen.line:
        print_status(chosen.line)
    return chosen


def find_default_file() -> Path | None:
    """`mosaico.yaml` of the current folder, if there is one."""
    path = Path(FILE_NAME)
    return path if path.is_file() else None


def _find_file(options: BenchmarkOptions) -> Path | None:
    if options.no_config and (options.config or options.benchmark):
        raise WrongUsage("--no-config reads no file", hint="leave --config and --benchmark out")
    if options.config or options.no_config:
        return options.config
    path = find_default_file()
    if path is None and options.benchmark is not None:
        raise WrongUsage(
            f"there is no {FILE_NAME} in the current folder for --benchmark {options.benchmark}",
            hint="name the file with --config FILE, or write one with `mosaico init`",
        )
    return path
