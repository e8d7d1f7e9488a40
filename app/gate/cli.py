"""`mosaico gate`: lets a change of an agent pass, or says why not."""

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.core.console.shell_completion import ids_at
from app.core.console.table import Table, format_cell, print_table
from app.core.console.terminal import CommandGroup, WrongUsage, print_json, print_result

if TYPE_CHECKING:
    from app.core.console.api_client import Api
    from app.gate.rules import GateResult, GateTerms

PATH = "/benchmark-runs"
FILES = frozenset({".jsonl", ".ndjson"})

cli = CommandGroup("gate", help="Hold a run against its baseline, and let it pass or not.")


class GateFormat(StrEnum):
    """How the gate is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Inconclusive(StrEnum):
    """What an outcome that is not certain means."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"


@cli.command("gate")
def gate(
    *,
    run: Annotated[
        str,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Id of the run that wants to pass, or a file of traces (.jsonl).",
            autocompletion=ids_at(PATH),
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="RUN",
            help="What it is held against: the baseline of the run when left out; a file for a file.",
            autocompletion=ids_at(PATH),
        ),
    ] = None,
    max_drop: Annotated[
        list[str] | None,
        typer.Option(
            "--max-drop", metavar="KPI=DROP", help="Fail when it is worse by more than that."
        ),
    ] = None,
    no_worse: Annotated[
        list[str] | None,
        typer.Option(
            "--prove-no-worse-than",
            metavar="KPI=MARGIN",
            help="Pass only when it is certain that it is not worse by that.",
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", help="Of files: ROUGE,BLEU; all when left out.")
    ] = None,
    kpi: Annotated[
        list[str] | None,
        typer.Option("--kpi", metavar="NAME=FORMULA", help="Of files: a KPI of all the traces."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML there.")
    ] = None,
    inconclusive: Annotated[
        Inconclusive, typer.Option("--inconclusive", help="What an uncertain outcome means.")
    ] = Inconclusive.FAIL,
    output: Annotated[
        GateFormat,
        typer.Option(
            "--format", help="How to print the answer; --json is short for --format json."
        ),
    ] = GateFormat.TABLE,
) -> None:
    """Hold a run against its baseline, and let it pass or not.

    The KPIs that --max-drop and --prove-no-worse-than name are what is held; without any those
    that are marked as gates, else all KPIs, else the metrics. A change counts when it is more than
    chance (Holm, 5 %). Exit codes: 0 pass, 1 regression, 2 wrong options or not one case, 3 invalid
    run, 4 inconclusive.
    """
    from app.gate.reports import gate_junit
    from app.gate.rules import EXIT_CODES, GateOutcome, GateTerms

    if junit is not None and junit.resolve() in {
        Path(each).resolve() for each in (run, baseline or run)
    }:
        raise WrongUsage(f"{junit} is what is read", hint="name another file for --junit")
    terms = GateTerms(
        max_drop=_amounts(max_drop),
        non_inferiority_margins=_amounts(no_worse),
        is_chosen_baseline=baseline is not None,
    )
    if _is_file(run):
        result = _of_files(run, baseline, terms, metrics, _pairs(kpi))
    else:
        if metrics or kpi:
            raise WrongUsage(
                "--metrics and --kpi are for files; a run has its own", hint="leave it"
            )
        result = _of_runs(run, baseline, terms)
    _print(result, output)
    if junit is not None:
        from app.core.console.output_files import write_text

        write_text(junit, gate_junit(result))
    if result.outcome is GateOutcome.INCONCLUSIVE and inconclusive is Inconclusive.PASS:
        return
    raise typer.Exit(EXIT_CODES[result.outcome])


def _of_runs(run_id: str, baseline: str | None, terms: "GateTerms") -> "GateResult":
    from app.comparison.cli import PATIENCE_S
    from app.comparison.schemas import Comparison
    from app.core.console.api_client import open_api
    from app.gate.rules import GateOutcome, GateResult, decide

    with open_api(PATIENCE_S) as api:
        ended = _ended(api, run_id)
        if ended["status"] != "COMPLETED":
            return GateResult(
                outcome=GateOutcome.INVALID,
                candidate=run_id,
                baselines=[baseline] if baseline else [],
                reason=f"the run {run_id} is {ended['status']}: {ended['errorMessage'] or 'it says no more'}",
            )
        against = [baseline] if baseline else _baselines(api, ended)
        if not against:
            return GateResult(
                outcome=GateOutcome.INVALID
                if ended["validity"] != "VALID"
                else GateOutcome.INCONCLUSIVE,
                candidate=run_id,
                reason=ended["verdict"]["reason"] or "there is no baseline",
            )
        found = api.get(f"{PATH}/compare", baseline=against, candidate=run_id)
    return decide(Comparison.model_validate(found), terms)


def _ended(api: "Api", run_id: str) -> dict[str, Any]:
    """A run that has ended and has cases. Raises: `WrongUsage`, `NothingToGate`."""
    from app.core.console.api_client import segment
    from app.gate.rules import NothingToGate
    from app.results.rules import RunStatus

    run = api.get(f"{PATH}/{segment(run_id)}")
    if not RunStatus(run["status"]).is_final:
        raise WrongUsage(
            f"the run {run_id} is {run['status']}", hint=f"mosaico runs watch {run_id}"
        )
    if run["status"] == RunStatus.COMPLETED and not run["tracesTotal"]:
        raise NothingToGate(f"the run {run_id} measured no case; a gate never passes on none")
    return run


def _baselines(api: "Api", run: dict[str, Any]) -> list[str]:
    """The runs that a run was held against when it ended, all of them; else the pinned one."""
    from app.core.console.api_client import segment

    known = ((run["verdict"] or {}).get("baseline") or {}).get("runIds")
    if known:
        return list(map(str, known))
    pinned = api.get(f"/benchmarks/{segment(run['benchmarkId'])}/baseline")["pinned"]
    found = [each["runId"] for each in pinned if each["agentId"] == run["agentId"]]
    return [each for each in found if each != run["id"]]


def _of_files(
    run: str, baseline: str | None, terms: "GateTerms", metrics: str | None, kpis: dict[str, str]
) -> "GateResult":
    from app.core.console.terminal import print_warning
    from app.gate.offline_gate import compare_files, measures_of
    from app.gate.rules import decide
    from app.metrics.registry import load_metrics

    if baseline is None or not _is_file(baseline):
        raise WrongUsage("a file is held against another file", hint="add --baseline BEFORE.jsonl")
    load_metrics(
        lambda plugin: print_warning(f"the plugin {plugin.name} was not loaded: {plugin.error}")
    )
    return decide(compare_files(Path(baseline), Path(run), measures_of(metrics, kpis)), terms)


def _is_file(name: str) -> bool:
    return Path(name).suffix in FILES


def _pairs(given: Sequence[str] | None) -> dict[str, str]:
    """`NAME=VALUE`, name by name."""
    pairs = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise WrongUsage(f"{each!r} is no NAME=VALUE", hint="write --max-drop quality=0.05")
        pairs[name.strip()] = value.strip()
    return pairs


def _amounts(given: Sequence[str] | None) -> dict[str, float]:
    return {name: _amount(name, value) for name, value in _pairs(given).items()}


def _amount(name: str, value: str) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount > 0):
        raise WrongUsage(f"{value!r} for {name} is no positive number", hint=f"write {name}=0.05")
    return amount


def _print(result: "GateResult", output: GateFormat) -> None:
    from app.gate.reports import format_change, gate_json, gate_markdown

    if output is GateFormat.JSON:
        print_json(gate_json(result))
        return
    if output is GateFormat.MARKDOWN:
        print_result(gate_markdown(result).rstrip("\n"))
        return
    against = f" against {result.baseline}" if result.baseline else ""
    print_result(format_cell(f"{result.outcome}: {result.candidate}{against}"))
    if result.reason:
        print_result(format_cell(result.reason))
    if result.checks:
        titles = ["kpi", "requirement", "outcome", "baseline", "candidate", "change (95 % CI)"]
        rows = [
            [
                format_cell(line.name),
                line.requirement,
                line.outcome,
                format_cell(line.baseline_value),
                format_cell(line.value),
                format_change(line),
            ]
            for line in result.checks
        ]
        print_table(Table(titles, rows))
        for line in result.checks:
            print_result(format_cell(line.explanation))
