"""The commands of `mosaico` that are those of a domain: where each is, its help line and its heading."""

from enum import StrEnum
from typing import NamedTuple


class Heading(StrEnum):
    """The headings of `mosaico --help`, in their order."""

    FILES = "Results in files, without a server"
    BENCHMARKS = "Agents, benchmarks and runs"
    ALERTS = "Alerts and notifications"
    HARNESSES = "Harnesses"
    SERVICE = "The service"
    ADMINISTRATION = "Administration"


class Entry(NamedTuple):
    """Location (`module:attribute`), help line and heading of a command or group of another module.

    A command in the group of another domain has no heading.
    """

    location: str
    help: str
    heading: Heading | None = None


# A name of two words adds a command to the group of another domain: `runs report` belongs to
# reporting, which is above runs in the import order.
COMMANDS = {
    "init": Entry(
        "mosaico.project_file.init_cli:cli",
        "Write a mosaico.yaml for what this folder and the environment hold.",
        Heading.BENCHMARKS,
    ),
    "compare": Entry(
        "mosaico.reporting.compare_cli:cli",
        "Compare two files of results: verdict, interval and flipped items. No server is needed.",
        Heading.FILES,
    ),
    "watch": Entry(
        "mosaico.reporting.watch_cli:cli",
        "Compare two files of results again when one of them changes.",
        Heading.FILES,
    ),
    "score": Entry(
        "mosaico.reporting.score_cli:cli",
        "Compute metrics of a file of results. No server is needed.",
        Heading.FILES,
    ),
    "gate": Entry(
        "mosaico.gating.cli:cli", "Pass or fail a run against its baseline, for CI.", Heading.FILES
    ),
    "db": Entry(
        "mosaico.postgres.cli:cli",
        "Start, stop, inspect and upgrade the database.",
        Heading.SERVICE,
    ),
    "apply": Entry(
        "mosaico.project_file.cli:apply_cli",
        "Create and change agents, benchmarks, alert rules and schedules as a file describes them.",
        Heading.BENCHMARKS,
    ),
    "export": Entry(
        "mosaico.project_file.cli:export_cli",
        "Write agents, benchmarks, alert rules and schedules of the service as such a file.",
        Heading.BENCHMARKS,
    ),
    "agents": Entry("mosaico.agents.cli:cli", "Manage agents.", Heading.BENCHMARKS),
    "benchmarks": Entry(
        "mosaico.benchmarks.cli:cli", "Manage benchmarks and their KPIs.", Heading.BENCHMARKS
    ),
    "datasets": Entry(
        "mosaico.traces.uploads.cli:cli", "Manage uploaded datasets.", Heading.BENCHMARKS
    ),
    "items": Entry(
        "mosaico.traces.datasets.cli:cli",
        "Manage the items of datasets, and their versions.",
        Heading.BENCHMARKS,
    ),
    "runs": Entry(
        "mosaico.runs.cli.runs:cli", "Start, watch and compare benchmark runs.", Heading.BENCHMARKS
    ),
    "runs execute": Entry(
        "mosaico.runs.cli.execute:execute_runs",
        "Run your own agent over a dataset: a command, once per item. No server is needed.",
    ),
    "runs compare": Entry(
        "mosaico.comparison.cli:compare",
        "Compare a run with others: verdicts, flipped items, and the features common to flipped items.",
    ),
    "runs report": Entry(
        "mosaico.reporting.cli:report",
        "Write a report of a run: its page as one self-contained HTML file, with its worst traces.",
    ),
    "runs traces": Entry(
        "mosaico.runs.cli.traces:list_traces",
        "List the traces of a run, in the order of the source.",
    ),
    "runs trace": Entry(
        "mosaico.runs.cli.traces:show_trace",
        ("Show a trace: metric values, texts, and the steps of the agent if the source has them."),
    ),
    "runs export": Entry(
        "mosaico.runs.cli.export:export",
        "Write the traces of a run as rows: texts, outcome, and a column for each metric.",
    ),
    "history": Entry(
        "mosaico.runs.cli.export:history",
        "Read and export the history of KPIs.",
        Heading.BENCHMARKS,
    ),
    "runs view": Entry(
        "mosaico.reporting.cli:view",
        "Write the traces of a run as an HTML page: transcripts, filters by result and category.",
    ),
    "annotations": Entry(
        "mosaico.annotations.cli:cli",
        "Judge answers; list, export and import what people say.",
        Heading.BENCHMARKS,
    ),
    "schedules": Entry("mosaico.schedules.cli:cli", "Manage schedules.", Heading.BENCHMARKS),
    "cron": Entry(
        "mosaico.schedules.cli:cron_cli", "Preview cron expressions.", Heading.BENCHMARKS
    ),
    "alerts": Entry(
        "mosaico.alerts.cli:cli", "Read alerts; manage alert rules and silences.", Heading.ALERTS
    ),
    "incidents": Entry(
        "mosaico.alerts.incident_cli:cli",
        "Read incidents; acknowledge and assign them; accept new levels.",
        Heading.ALERTS,
    ),
    "notes": Entry(
        "mosaico.notes.cli:cli",
        "Read, write and delete notes about runs, items and incidents.",
        Heading.ALERTS,
    ),
    "notify": Entry(
        "mosaico.notifications.cli:cli",
        "Manage notification endpoints and deliveries.",
        Heading.ALERTS,
    ),
    "inbox": Entry(
        "mosaico.notifications.cli:inbox", "Read the notifications of the service.", Heading.ALERTS
    ),
    "bash-eval": Entry(
        "mosaico.harness.bash.cli:cli",
        "Evaluate how well a model works in a sandboxed bash.",
        Heading.HARNESSES,
    ),
    "ot-bench": Entry(
        "mosaico.harness.mcp.cli.ot_bench:cli",
        "Evaluate models and MCP servers, and measure the cost of their tools.",
        Heading.HARNESSES,
    ),
    "mcp": Entry(
        "mosaico.mcp_server.cli:cli",
        "Serve the results to coding agents, over the Model Context Protocol.",
        Heading.BENCHMARKS,
    ),
    "formula": Entry(
        "mosaico.metrics.formula_cli:cli", "Check and evaluate KPI formulas.", Heading.FILES
    ),
    "demo": Entry(
        "mosaico.overview.cli:cli",
        "Load sample data: two runs of an agent, the second one worse.",
        Heading.SERVICE,
    ),
    "doctor": Entry(
        "mosaico.doctor_cli:cli",
        "Check the installation: database, ports, clock, worker, keys and more.",
        Heading.ADMINISTRATION,
    ),
    "backup": Entry(
        "mosaico.backup_cli:backup_cli",
        "Write the whole database as one file, while the service runs.",
        Heading.SERVICE,
    ),
    "restore": Entry(
        "mosaico.backup_cli:restore_cli",
        "Fill an empty database from a backup.",
        Heading.SERVICE,
    ),
    "purge": Entry(
        "mosaico.purge_cli:cli",
        "Delete the traces of old runs. Their history is kept.",
        Heading.ADMINISTRATION,
    ),
    "secrets": Entry(
        "mosaico.secrets_cli:cli",
        "Manage the master keys that encrypt stored secrets.",
        Heading.ADMINISTRATION,
    ),
    "keys": Entry("mosaico.access.cli:cli", "Manage API keys.", Heading.ADMINISTRATION),
    "people": Entry(
        "mosaico.access.cli:people_cli",
        "Show the people who have logged in, and block them.",
        Heading.ADMINISTRATION,
    ),
    "audit": Entry(
        "mosaico.access.cli:audit",
        "Show the audit log, newest first. Requires an admin key.",
        Heading.ADMINISTRATION,
    ),
}
