"""`mosaico runs compare`: the comparison of two runs."""

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from mosaico.comparison.verdict_options import AboutOption, RunSdOption
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.table import JSON, Column, field, format_cell, print_table, tabulate
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    print_json,
    print_result,
    print_status,
)

if TYPE_CHECKING:
    from mosaico.comparison.change_text import ChangeText

PATH = "/benchmark-runs"
# The comparison of two large runs takes a minute, and may wait for one that another client started.
COMPARISON_TIMEOUT_S = 200.0

compare = CommandGroup("compare", help="Compare two runs.")


def print_explanations(items: Sequence[JSON]) -> None:
    """Print the explanation of each verdict: of a run first, then those of its KPIs.

    A KPI whose explanation repeats that of the run is skipped. An explanation with a reason does
    not name its KPI, so the name is added. What annotations made of a KPI comes before.
    """
    run_explanations = set[str]()
    for item in items:
        verdict, name = item["verdict"], item.get("name")
        if correction := item.get("correction"):
            print_result(format_cell(f"{name}: {correction['explanation']}"))
        if not verdict or verdict["explanation"] in run_explanations:
            continue
        explanation = verdict["explanation"]
        if name is None:
            run_explanations.add(explanation)
        is_unnamed = name and verdict.get("reason")
        print_result(format_cell(f"{name}: {explanation}" if is_unnamed else explanation))


def _change_column(title: str, part: Callable[["ChangeText"], str]) -> Column:
    def cell(item: JSON) -> str | None:
        # Only a command that prints changes loads the types of verdicts.
        from mosaico.comparison.change_text import describe_change
        from mosaico.kpis.verdict_types import ValueVerdict

        verdict = ValueVerdict.model_validate(item["verdict"])
        text = describe_change(verdict, verdict.scale)
        return None if text is None else part(text)

    return Column(title, cell)


VERDICT_COLUMNS = (
    Column("verdict", lambda item: item["verdict"].get("verdict")),
    _change_column("baseline", lambda text: text.before),
    _change_column("candidate", lambda text: text.after),
    _change_column("change", lambda text: text.change),
    Column("detectable change", lambda item: item["verdict"].get("minDetectableEffect")),
)
CATEGORY_COMPARISON_COLUMNS = (field("category"), field("name"), *VERDICT_COLUMNS)
FLIPPED_ITEM_COLUMNS = (
    field("itemId", "item"),
    field("baseline"),
    field("candidate"),
    field("cause"),
    field("agents"),
    Column("traces", lambda item: [trace["url"] or trace["traceId"] for trace in item["traces"]]),
)
FEATURE_COLUMNS = (
    field("feature"),
    Column("of the regressed items", lambda item: f"{item['count']} of {item['total']}"),
    Column(
        "of the other items", lambda item: f"{item['baselineCount']} of {item['baselineTotal']}"
    ),
    field("pAdjusted", "adjusted p"),
)


class ComparisonOptions(NamedTuple):
    """What a comparison judges and shows."""

    judged: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            metavar="NAME",
            help="KPI or metric to judge. Repeat it: intervals are adjusted for all that are judged"
            " together (default: the KPIs of the gate, otherwise all KPIs).",
        ),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Metric that decides which items flipped."),
    ] = None
    about: AboutOption = None
    run_sd: RunSdOption = None
    categories_after: Annotated[
        str | None,
        typer.Option(
            "--categories-after", help="Compare the 50 categories after this one by name."
        ),
    ] = None


@compare.command("compare")
def compare_runs(
    *,
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE", help="ID of the baseline run.", autocompletion=complete_ids(PATH)
        ),
    ],
    candidate: Annotated[
        str,
        typer.Argument(
            metavar="CANDIDATE",
            help="ID of the candidate run.",
            autocompletion=complete_ids(PATH),
        ),
    ],
    further_bases: Annotated[
        list[str] | None,
        typer.Option(
            "--base",
            metavar="RUN",
            help="ID of a further baseline run: CANDIDATE is compared with the mean of all. Repeat it.",
            autocompletion=complete_ids(PATH),
        ),
    ] = None,
    options: ComparisonOptions,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Compare a run with others: verdicts, flipped items, and the features common to flipped items."""
    comparison, page_url = _fetch_comparison((base, *(further_bases or ())), candidate, options)
    if output is OutputFormat.JSON:
        print_json(comparison)
        return
    _print_comparison(comparison)
    print_status(f"page: {page_url}")


def _fetch_comparison(
    baselines: Sequence[str], candidate: str, options: ComparisonOptions
) -> tuple[JSON, str]:
    """The comparison of runs by their IDs, which may be short, and the URL of its page."""
    from mosaico.comparison.deciders import parse_about
    from mosaico.core.web.page_paths import comparison_page_path

    with open_api(COMPARISON_TIMEOUT_S) as api:
        *base_ids, candidate_id = (api.full_id(PATH, run_id) for run_id in (*baselines, candidate))
        comparison = api.get(
            f"{PATH}/compare",
            baseline=base_ids,
            candidate=candidate_id,
            judge=options.judged,
            metric=options.metric,
            categoriesAfter=options.categories_after,
            about=parse_about(options.about),
            runSd=None if options.run_sd is None else str(options.run_sd),
        )
        page_path = comparison_page_path(base_ids, candidate_id, options.judged or ())
        return comparison, f"{api.pages_url}{page_path}"


def _print_comparison(comparison: JSON) -> None:
    from mosaico.comparison.attribute_text import explain_drop
    from mosaico.run_store.recorded_attributes import WhatChanged

    print_result(format_cell(comparison["verdict"]["explanation"]))
    for line in explain_drop(WhatChanged.model_validate(comparison["whatChanged"])):
        print_result(f"changed: {format_cell(line)}")
    _print_section(None, comparison["kpis"], (field("name", "kpi"), *VERDICT_COLUMNS))
    _print_section(
        None, [*comparison["metrics"], *comparison["usage"]], (field("metric"), *VERDICT_COLUMNS)
    )
    print_explanations([*comparison["kpis"], *comparison["usage"]])
    _print_items(comparison)
    _print_section("By category:", _category_rows(comparison), CATEGORY_COMPARISON_COLUMNS)
    if comparison["lastCategory"] is not None:
        last = shlex.quote(format_cell(comparison["lastCategory"]))
        print_status(
            f"{comparison['categoriesLeftOut']} further categories: --categories-after {last}"
        )


def _category_rows(comparison: JSON) -> list[JSON]:
    """One row for each KPI and metric of each category."""
    return [
        {"category": category["category"], "name": row.get("name") or row["metric"], **row}
        for category in comparison["categories"]
        for row in (*category["kpis"], *category["metrics"])
    ]


def _print_items(comparison: JSON) -> None:
    flips, constant = comparison["flippedItems"], comparison["constantItems"]
    if flips:
        regressions, improvements = flips["regressions"], flips["improvements"]
        title = f"{flips['metric']}: {regressions} items regressed, {improvements} improved."
        _print_section(title, flips["items"], FLIPPED_ITEM_COLUMNS)
    title = "Features that are more frequent among the regressed items than among the others:"
    _print_section(title, comparison["enrichedFeatures"], FEATURE_COLUMNS)
    if constant and (constant["alwaysPass"] or constant["alwaysFail"]):
        print_result("")
        print_result(
            f"Items with the same outcome in all {constant['runs']} runs show no difference "
            f"between runs: {constant['alwaysPass']} always pass, {constant['alwaysFail']} "
            "always fail."
        )


def _print_section(
    title: str | None, items: Sequence[dict[str, Any]], columns: Sequence[Column]
) -> None:
    if not items:
        return
    print_result("")
    if title:
        print_result(format_cell(title))
    print_table(tabulate(items, columns))
