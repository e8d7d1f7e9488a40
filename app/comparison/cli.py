"""`mosaico runs compare` and `mosaico runs plot`: two runs side by side, in words and pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from app.core.console.shell_completion import ids_at
from app.core.console.table import JSON, Column, field, format_cell, print_table, tabulate
from app.core.console.terminal import Format, OutputFormat, print_json, print_result, print_status

PATH = "/benchmark-runs"
# Two large runs are computed in a minute, after the comparison that somebody else asked for.
PATIENCE_S = 200.0


def print_explanations(items: Sequence[JSON]) -> None:
    """What is said of a run, and of its KPIs unless that says it; a reason does not name its KPI."""
    whole = set[str]()
    for item in items:
        verdict, name = item["verdict"], item.get("name")
        if not verdict or verdict["explanation"] in whole:
            continue
        said = verdict["explanation"]
        if name is None:
            whole.add(said)
        print_result(format_cell(f"{name}: {said}" if name and verdict.get("reason") else said))


def _said(name: str) -> Column:
    return Column(name, lambda item: item["verdict"].get(name))


def _interval(item: JSON) -> str | None:
    low, high = item["verdict"].get("low"), item["verdict"].get("high")
    return None if low is None or high is None else f"{format_cell(low)} to {format_cell(high)}"


FIGURES = (
    _said("verdict"),
    _said("baselineValue"),
    _said("value"),
    _said("effect"),
    Column("95 %", _interval),
    Column("p", lambda item: item["verdict"].get("pAdjusted")),
    _said("minDetectableEffect"),
)
FLIP_COLUMNS = (
    field("itemId", "item"),
    field("baseline"),
    field("candidate"),
    field("cause"),
    field("agents", "also for"),
    Column("traces", lambda item: [each["url"] or each["traceId"] for each in item["traces"]]),
)
SHARED_COLUMNS = (
    field("feature"),
    Column("of those that fell", lambda item: f"{item['count']} of {item['total']}"),
    Column("of the others", lambda item: f"{item['baselineCount']} of {item['baselineTotal']}"),
    field("pAdjusted", "p"),
)


def compare_runs(
    *,
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE", help="Id of the run to compare with.", autocompletion=ids_at(PATH)
        ),
    ],
    candidate: Annotated[
        str,
        typer.Argument(
            metavar="CANDIDATE", help="Id of the run that is judged.", autocompletion=ids_at(PATH)
        ),
    ],
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Tell the items whose value of this one turned round."),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Hold one run against another: verdicts, the items that turned round, what these share."""
    from app.core.console.api_client import open_api

    asked = {"baseline": base, "candidate": candidate} | ({"metric": metric} if metric else {})
    with open_api(PATIENCE_S) as api:
        found = api.get(f"{PATH}/compare", **asked)
    if output is OutputFormat.JSON:
        print_json(found)
        return
    print_result(format_cell(found["verdict"]["explanation"]))
    _part(None, found["kpis"], (field("name", "kpi"), *FIGURES))
    _part(None, [*found["metrics"], *found["usage"]], (field("metric"), *FIGURES))
    print_explanations([*found["kpis"], *found["usage"]])
    _items(found)


def plot_run(
    *,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Id of a run.", autocompletion=ids_at(PATH))
    ],
    file: Annotated[
        Path, typer.Argument(metavar="FILE.svg", help="Where to write it; - is stdout.")
    ] = Path("-"),
    kpi: Annotated[
        str | None, typer.Option("--kpi", help="Id or name of the KPI to show over time.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="RUN",
            help="Show what changed since this run.",
            autocompletion=ids_at(PATH),
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="With --against: show its change item by item."),
    ] = None,
) -> None:
    """Draw a run as SVG: a KPI up to it with verdicts, what changed, or every item."""
    from app.core.console.api_client import open_api, segment
    from app.core.console.output_files import write_text

    asked = {"kpi": kpi, "against": against, "metric": metric}
    with open_api(PATIENCE_S) as api:
        picture = api.get_text(f"{PATH}/{segment(run)}/plot", **asked)
    if file == Path("-"):
        print_result(picture.rstrip("\n"))
        return
    write_text(file, picture)
    print_status(f"run {format_cell(run)} is drawn in {file}")


def _items(found: JSON) -> None:
    flips, weight = found["flippedItems"], found["constantItems"]
    if flips:
        title = f"{flips['metric']}: {flips['regressions']} items regressed, {flips['improvements']} improved."
        _part(title, flips["items"], FLIP_COLUMNS)
    _part(
        "What those that fell have more often than the others:",
        found["enrichedFeatures"],
        SHARED_COLUMNS,
    )
    if weight and (weight["alwaysPass"] or weight["alwaysFail"]):
        print_result("")
        print_result(
            f"In all {weight['runs']} runs {weight['alwaysPass']} items pass and"
            f" {weight['alwaysFail']} fail: they tell nothing apart."
        )


def _part(title: str | None, items: Sequence[dict[str, Any]], columns: Sequence[Column]) -> None:
    if not items:
        return
    print_result("")
    if title:
        print_result(format_cell(title))
    print_table(tabulate(items, columns))
