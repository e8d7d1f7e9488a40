"""`mosaico runs execute`: run a user's own agent over a dataset."""

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaico.core.console.service import open_api
from mosaico.core.console.table import print_details
from mosaico.core.console.terminal import (
    EXIT_INTERRUPTED,
    EXIT_UNSUCCESSFUL,
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    print_json,
    print_status,
    print_warning,
)
from mosaico.core.web.page_paths import path_of, run_page_path
from mosaico.harness.commands import run_command
from mosaico.traces.execution.answers import AnswerFormat
from mosaico.traces.files.options import InputOptions, open_reader

if TYPE_CHECKING:
    from mosaico.harness.langfuse_export import LangfuseProject
    from mosaico.harness.langfuse_failures import FailureTargets
    from mosaico.traces.execution.experiment import ExecutionPlan
    from mosaico.traces.execution.record import ExecutionRecorder

execute_runs = CommandGroup("execute", help="Run your own agent over a dataset.")


@execute_runs.command("execute")
def execute_agent(
    *,
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset", help="File of items, name of an upload, or langfuse:NAME for its dataset."
        ),
    ],
    command: Annotated[
        str,
        typer.Option(
            "--command",
            help="Program with arguments, one of them {input}; without {input} it reads stdin.",
        ),
    ],
    answer_format: Annotated[
        AnswerFormat,
        typer.Option(
            "--answer-format",
            help="What the agent prints: its answer, or a JSON object such as"
            ' {"output": "…", "costUsd": 0.01}.',
        ),
    ] = AnswerFormat.TEXT,
    trials: Annotated[
        int, typer.Option("--trials", min=1, max=1000, help="Number of attempts per item.")
    ] = 1,
    concurrency: run_command.Concurrency = 4,
    item_seconds: Annotated[
        float,
        typer.Option("--item-seconds", min=0.001, help="Time limit of an attempt in seconds."),
    ] = 600.0,
    run_seconds: Annotated[
        float | None,
        typer.Option("--run-seconds", min=0.001, help="Time limit of the whole run in seconds."),
    ] = None,
    run_tokens: run_command.RunTokens = None,
    run_usd: run_command.RunUsd = None,
    input_options: InputOptions,
    save: Annotated[
        Path, typer.Option("--save", help="Folder of the result file (default: this folder).")
    ] = Path(),
    resume: run_command.Resume = None,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", help="Upload the result and start a run of this benchmark."),
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Agent of that run.")] = None,
    langfuse: Annotated[
        bool, typer.Option("--langfuse", help="Also write the run to Langfuse as an experiment.")
    ] = False,
    failing_to_queue: Annotated[
        str | None,
        typer.Option(
            "--failing-to-queue",
            metavar="QUEUE",
            help="With --langfuse: add failing attempts to this annotation queue (its ID).",
        ),
    ] = None,
    failing_to_dataset: Annotated[
        str | None,
        typer.Option(
            "--failing-to-dataset",
            metavar="DATASET",
            help="Add failing items to this dataset in Langfuse.",
        ),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Run your own agent over a dataset: a command, once per item. No server is needed.

    Every answer is stored at once; an interrupted run continues with --resume. The result file is
    read by `mosaico compare`, `gate` and `score`. Exit codes: 0 every attempt is finished, 2 invalid
    configuration, 3 an attempt could not be made or was not reached, 130 interrupted.
    """
    from mosaico.harness.limits import BudgetLimits
    from mosaico.traces.execution.command import parse_command
    from mosaico.traces.execution.datasets import load_items
    from mosaico.traces.execution.experiment import ExecutionPlan
    from mosaico.traces.execution.runner import ExecutionLimits

    if (benchmark is None) != (agent is None):
        raise WrongUsage("--benchmark and --agent belong together", hint="give both, or none")
    project = None
    if langfuse or failing_to_queue is not None or failing_to_dataset is not None:
        project = _open_project(failing_to_queue, langfuse=langfuse)
    # The whole environment: it is the user's own program, and needs the keys of its models.
    program = parse_command(command, os.environ, answer_format)
    plan = ExecutionPlan(
        agent=program,
        agent_name=command,
        items=load_items(dataset, open_reader(input_options)),
        dataset_name=dataset,
        trials=trials,
        limits=ExecutionLimits(concurrency=concurrency, item_s=item_seconds, run_s=run_seconds),
        budget=BudgetLimits(tokens=run_tokens, cost_usd=run_usd),
        save=save,
        resume=resume,
    )
    upload_name = _upload_name(benchmark) if benchmark is not None else None
    recorder = _execute(plan)
    summary = _summarize(recorder, plan)
    if project is not None:
        from mosaico.harness.langfuse_failures import FailureTargets

        targets = FailureTargets(failing_to_queue, failing_to_dataset)
        _write_to_langfuse(recorder, plan, project, targets, langfuse=langfuse)
    if upload_name is not None and benchmark is not None and agent is not None:
        summary["runId"] = _start_run(recorder.path, upload_name, benchmark, agent)
    if output is OutputFormat.JSON:
        print_json(summary)
    else:
        print_details(_shown(summary))
        print_status(f"next: `mosaico score {recorder.path}`")
    if recorder.missing():
        raise typer.Exit(EXIT_UNSUCCESSFUL)


def _open_project(queue: str | None, *, langfuse: bool) -> "LangfuseProject":
    """The project to write to, checked before the first attempt.

    Raises: `WrongUsage`, `MissingKey`, `ExportFailed`.
    """
    from mosaico.harness.langfuse_export import langfuse_project
    from mosaico.harness.langfuse_failures import require_queue

    if queue is not None and not langfuse:
        raise WrongUsage(
            "--failing-to-queue needs traces in Langfuse", hint="add --langfuse to write them"
        )
    project = langfuse_project(os.environ)
    if queue is not None:
        require_queue(project, queue)
    return project


def _write_to_langfuse(
    recorder: "ExecutionRecorder",
    plan: "ExecutionPlan",
    project: "LangfuseProject",
    targets: "FailureTargets",
    *,
    langfuse: bool,
) -> None:
    from mosaico.core.clock import utc_now
    from mosaico.runs.failing_items import export_execution, report_failing_items

    langfuse_ids = (
        export_execution(
            recorder.traces,
            project,
            dataset_name=plan.dataset_name,
            agent_name=plan.agent_name,
            now=utc_now(),
        )
        if langfuse
        else {}
    )
    if any(targets):
        report_failing_items(recorder.traces, project, targets, langfuse_ids)


def _execute(plan: "ExecutionPlan") -> "ExecutionRecorder":
    """Run to the end; an interrupted run is stored and ends the command."""
    from mosaico.core.clock import utc_now
    from mosaico.traces.execution.experiment import execute_plan

    try:
        return execute_plan(plan, utc_now(), run_command.run_interruptible)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _summarize(recorder: "ExecutionRecorder", plan: "ExecutionPlan") -> dict[str, Any]:
    from mosaico.traces.execution.experiment import summarize_execution

    summary = dict(summarize_execution(recorder))
    if plan.budget.cost_usd is not None and summary["withoutCost"]:
        print_warning(
            f"{summary['withoutCost']} attempts reported no costUsd, so --run-usd does not count them"
        )
    return summary


def _shown(summary: dict[str, Any]) -> dict[str, Any]:
    outcomes = ", ".join(f"{count} {name}" for name, count in summary["outcomes"].items())
    return {**summary, "outcomes": outcomes or None}


def _upload_name(benchmark: str) -> str:
    """The name under which a benchmark finds an upload. Raises: `WrongUsage`."""
    with open_api() as api:
        document = api.get(f"/benchmarks{path_of(benchmark)}")
    if document["source"] != "local" or document["datasetRef"] is None:
        raise WrongUsage(
            f"the benchmark {benchmark} reads the source {document['source']}, not uploads",
            hint="name a benchmark with the source local and a datasetRef",
        )
    return str(document["datasetRef"])


def _start_run(file: Path, name: str, benchmark: str, agent: str) -> str:
    """Upload a result file and start a run over it; a repetition does nothing twice."""
    from mosaico.traces.execution.datasets import UPLOADS_PATH

    content = file.read_bytes()
    digest = sha256(content).hexdigest()[:32]
    parameters = {"name": name, "runName": file.stem, "replace": "true"}
    with open_api() as api:
        upload = api.upload(UPLOADS_PATH, [content], parameters, once=f"execute-{digest}")
        body = {"benchmarkId": benchmark, "agentId": agent, "runName": file.stem}
        run = api.post("/benchmark-runs", body, once=f"execute-{upload['id']}-{agent}"[:255])
        address = f"{api.pages_url}{run_page_path(run['id'])}"
    print_status(f"run {run['id']} started → {address}; next: `mosaico runs watch {run['id']}`")
    return str(run["id"])
