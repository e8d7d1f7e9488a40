"""The options of `mosaico gate`: the runs, what is judged, and the result."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from mosaico.comparison.verdict_options import AboutOption, RunSdOption
from mosaico.core.console.service import complete_ids
from mosaico.gating.history_options import HistoryOption
from mosaico.metrics.file_options import METRICS_HELP, Better, Ranges
from mosaico.traces.files.options import BaseMap, RunMap

PATH: Final = "/benchmark-runs"


class GateFormat(StrEnum):
    """Format of the result on standard output."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Inconclusive(StrEnum):
    """The effect of an inconclusive outcome on the exit code."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"


CandidateRun = Annotated[
    str,
    typer.Option(
        "--run",
        metavar="RUN",
        help="Candidate: run ID, or a file of results (docs/import.md lists the formats).",
        autocompletion=complete_ids(PATH),
    ),
]
BaselineRun = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="RUN",
        help="Baseline: run ID, or a file of results (default: the run's own baseline).",
        autocompletion=complete_ids(PATH),
    ),
]


class JudgedOptions(NamedTuple):
    """The options of what is judged, and by which limits."""

    max_drop: Annotated[
        list[str] | None,
        typer.Option(
            "--max-drop",
            metavar="NAME=DROP",
            help="Judge this KPI or metric, and allow it to be worse by at most DROP. Repeatable.",
        ),
    ] = None
    non_inferiority_margin: Annotated[
        list[str] | None,
        typer.Option(
            "--non-inferiority-margin",
            metavar="NAME=MARGIN",
            help="Require a proof (95 % CI) that this KPI or metric is not worse by MARGIN. Repeatable.",
        ),
    ] = None
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help=(
                f"For files: {METRICS_HELP}. The gate judges these metrics (default: the scores in "
                "the files, otherwise the metric that fits the expected answers)."
            ),
        ),
    ] = None
    better: Better = None
    ranges: Ranges = None
    about: AboutOption = None
    history: HistoryOption = None
    run_sd: RunSdOption = None
    kpi: Annotated[
        list[str] | None,
        typer.Option(
            "--kpi",
            metavar="NAME=FORMULA",
            help=(
                "KPI of trace files to judge, as a formula of metrics. Its direction follows from the"
                " formula; another one is named at the end: 'words=OUTPUT_TOKENS higher'. Repeatable."
            ),
        ),
    ] = None


class MapOptions(NamedTuple):
    """The columns of one of the two files."""

    base_map: BaseMap = None
    run_map: RunMap = None


class ResultOptions(NamedTuple):
    """The options of the result: where it is written, and what passes."""

    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write the result as JUnit XML to FILE."),
    ] = None
    inconclusive: Annotated[
        Inconclusive | None,
        typer.Option(
            "--inconclusive",
            help="Whether an inconclusive outcome passes (exit code 0) or fails (4). Default: it"
            " passes, unless --non-inferiority-margin requires a proof.",
            show_default=False,
        ),
    ] = None
    output: Annotated[
        GateFormat,
        typer.Option("--format", help="Output format; --json is short for --format json."),
    ] = GateFormat.TABLE
