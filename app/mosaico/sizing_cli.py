"""`mosaico size`: the cores, connections and bytes of an installation, and which part is outgrown first."""

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mosaico.core.console.table import Table, print_table
from mosaico.core.console.terminal import CommandGroup, Format, OutputFormat, print_json

if TYPE_CHECKING:
    from mosaico.sizing import InstallationSize

SMALLEST_SHARE: Final = 0.01
BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")

cli = CommandGroup("size", help="Estimate the size of an installation.")


@cli.command("size")
def size(
    *,
    traces: Annotated[
        int, typer.Option("--traces", min=1, help="Traces per night, of all runs together.")
    ],
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs per night.")],
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics", metavar="NAMES", help="Metrics of each trace, separated by commas."
        ),
    ] = None,
    retention_days: Annotated[
        int, typer.Option("--retention-days", min=1, help="Days for which traces are kept.")
    ] = 30,
    hours: Annotated[
        float, typer.Option("--hours", help="Hours in which all runs of a night must end.")
    ] = 6.0,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Estimate the size of an installation: cores, connections, bytes and Langfuse requests.

    Needs neither a server nor a database. The constants are measured; docs/scaling.md names the command
    of each.
    """
    from mosaico.sizing import METRIC_CPU, SizingLoad, size_installation

    names = tuple(metrics.split(",")) if metrics else tuple(METRIC_CPU)
    installation = size_installation(SizingLoad(traces, runs, names, retention_days, hours))
    if output is OutputFormat.JSON:
        print_json(_document(installation))
    else:
        print_table(Table(["figure", "size"], [list(row) for row in size_rows(installation)]))
        strained = installation.strained
        limits = [
            [limit.part.value, format_share(limit.share), limit.remedy if limit in strained else ""]
            for limit in installation.limits
        ]
        print_table(Table(["part", "used", "replacement"], limits))


def size_rows(installation: "InstallationSize") -> list[tuple[str, str]]:
    """The figures of a size with their units, for people."""
    return [
        ("cores", format_cores(installation.cores)),
        ("cores of metrics", format_cores(installation.metric_cores)),
        ("cores of the database", format_cores(installation.database_cores)),
        ("cores of the collection from Langfuse", format_cores(installation.langfuse_cores)),
        ("cores of uploads instead", format_cores(installation.upload_cores)),
        ("workers", f"{installation.workers:,}"),
        ("connections to Postgres", f"{installation.connections:,}"),
        ("written per night", format_bytes(installation.bytes_per_night)),
        ("written per second of the night", format_bytes(installation.bytes_per_second)),
        ("traces kept", format_bytes(installation.stored_bytes)),
        ("history per year", format_bytes(installation.history_bytes_per_year)),
        ("Langfuse requests", f"{installation.langfuse_requests:,}"),
        ("Langfuse requests per minute", f"{installation.langfuse_requests_per_minute:,.1f}"),
        ("finishing step of a run", f"{installation.finish_s:,.1f} s"),
    ]


def format_cores(cores: float) -> str:
    """A number of cores: no machine has less than one."""
    return "under 1" if cores < 1 else _two_digits(cores)


def format_share(share: float) -> str:
    """A share of a capacity with two digits: 278.1 is "280"."""
    return f"under {SMALLEST_SHARE:g}" if share < SMALLEST_SHARE else _two_digits(share)


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.2g}'):,g}"


def format_bytes(count: float) -> str:
    """A number of bytes in the largest decimal unit below it: 1,140,000 is "1.1 MB"."""
    index = min(int(math.log10(max(count, 1))) // 3, len(BYTE_UNITS) - 1)
    return f"{count / 1000**index:.3g} {BYTE_UNITS[index]}"


def _document(installation: "InstallationSize") -> dict[str, Any]:
    return {
        "cores": installation.cores,
        "metricCores": installation.metric_cores,
        "databaseCores": installation.database_cores,
        "langfuseCores": installation.langfuse_cores,
        "uploadCores": installation.upload_cores,
        "workers": installation.workers,
        "connections": installation.connections,
        "bytesPerNight": installation.bytes_per_night,
        "bytesPerSecond": installation.bytes_per_second,
        "storedBytes": installation.stored_bytes,
        "historyBytesPerYear": installation.history_bytes_per_year,
        "langfuseRequests": installation.langfuse_requests,
        "langfuseRequestsPerMinute": installation.langfuse_requests_per_minute,
        "finishSeconds": installation.finish_s,
        "limits": [
            {"part": limit.part.value, "share": limit.share, "replacement": limit.remedy}
            for limit in installation.limits
        ],
    }
