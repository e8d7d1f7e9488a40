"""Forms of benchmarks and their KPIs; the form of a KPI shows what its formula means while it is typed."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN
from mosaico.agents.queries import list_agent_names
from mosaico.benchmarks import kpi_service, queries, service
from mosaico.benchmarks.formula_check import check_formula_text
from mosaico.benchmarks.models import Benchmark
from mosaico.benchmarks.schemas import (
    BenchmarkCreate,
    BenchmarkPatch,
    KpiCreate,
    KpiPatch,
    KpiView,
)
from mosaico.benchmarks.views import benchmark_view
from mosaico.core.dependents import Consent
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.cascade import delete_with_dependents
from mosaico.core.web.forms.fields import Choices, InputKind
from mosaico.core.web.forms.form_page import (
    FormPage,
    require_revision,
    show_form,
    submit_form,
)
from mosaico.core.web.forms.rendering import FieldInput, SchemaForm
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, see_other
from mosaico.core.web.routes import Router
from mosaico.metrics.types import Direction
from mosaico.traces.registry import TRACE_SOURCES

router = Router()

NAV = "/benchmarks"
STEPS = (Crumb("Benchmarks", NAV),)


def _read_metric(line: str) -> Any:
    """A metric of a line: its name, or JSON with its options. Raises: `ValueError`."""
    try:
        return json.loads(line) if line.startswith("{") else line
    except ValueError:
        raise ValueError(f"has a line that is not valid JSON: {line[:80]}") from None


def _write_metric(metric: Any) -> str:
    if isinstance(metric, str):
        return metric
    return json.dumps(metric) if metric.get("options") else str(metric["key"])


FORM = SchemaForm(
    create=BenchmarkCreate,
    patch=BenchmarkPatch,
    main=("name", "source", "datasetRef", "metrics", "evaluates", "taskDef", "revisionNote"),
    # KPIs have forms of their own.
    hidden=frozenset({"measures"}),
    name_in="metadata",
    inputs={
        "name": FieldInput(help="Name shown in reports and messages. Leave empty to show the ID."),
        "datasetRef": FieldInput("Dataset", "Name of the dataset in the trace source, for example of an upload."),
        "metrics": FieldInput(
            help="One per line: the name of a metric, or JSON with options: "
            '{"key": "NAME", "options": {"…": 1}}. The page Providers lists them.',
            kind=InputKind.LINES, read_line=_read_metric, write_line=_write_metric,
        ),
        "evaluates": FieldInput("Agents", "Agents that the benchmark evaluates. Select none to allow any agent."),
        "taskDef": FieldInput("Task", "Task of the agent, shown to readers of the results."),
        "clusterField": FieldInput(
            help="Items that share a tag of this prefix, or a value of this attribute, are not independent."
        ),
        "revisionNote": FieldInput("Note of the revision", "Reason for the change, shown with the revision."),
        "metadata": FieldInput("More about the benchmark", "JSON object that the service stores and does not use."),
        "triggers": FieldInput("Events that start a run"),
        "triggers.newRun": FieldInput("New run in the source", "Leave empty if no event starts a run."),
        "triggers.newRun.pattern": FieldInput("Name of the run", "Pattern of run names; * matches every run."),
        "triggers.langfuse": FieldInput("Events of Langfuse", "Events that start a run; see Triggers in the documentation."),
        "harness": FieldInput(
            help="For the source harness: a model for bash tasks, the part of an ot-bench file to run (all of it:"
            " fill in the trials only), or the command of an agent."
        ),
        "production": FieldInput("Traces of production"),
        "production.window.from": FieldInput("From"),
        "production.window.to": FieldInput("To"),
        "production.filters.metadata": FieldInput(help="One per line, as name=value."),
        "keepTextDays": FieldInput("Keep texts for days"),
        "redact": FieldInput("Redacted before it is stored"),
        "redact.patterns": FieldInput("Patterns", "One per line (RE2). What they match is replaced by ⟦redacted⟧."),
        "redact.paths": FieldInput(
            "Attributes and fields", "One per line, such as user or customer.email, found at any depth."
        ),
        "writeBack": FieldInput("Scores written back"),
        "judgeCalibration": FieldInput(help=(
            "A run is invalid if the scores of the judge for these answers differ from the gold "
            "scores."
        )),
        "judgeCalibration.metric.key": FieldInput("Metric"),
        "judgeCalibration.metric.options": FieldInput(help="One per line, as name=value."),
    },
    models={
        "BashHarnessSettings": "bash tasks", "McpHarnessSettings": "an ot-bench file",
        "AgentHarnessSettings": "a command", "RemoteExperimentTrigger": "remote experiments",
        "PromptVersionTrigger": "prompt versions", "MonitorAlertTrigger": "alerts of a monitor",
    },
)  # fmt: skip
DIRECTIONS: Choices = (
    ("", "as the formula says"),
    (Direction.HIGHER_IS_BETTER, "higher is better"),
    (Direction.LOWER_IS_BETTER, "lower is better"),
    (Direction.NEITHER, "neither"),
)
KPI_FORM = SchemaForm(
    create=KpiCreate,
    patch=KpiPatch,
    main=("name", "formula", "direction", "unit", "thresholdMin", "thresholdMax", "gate", "revisionNote"),
    inputs={
        "revisionNote": FieldInput("Note of the revision", "Reason for the change, shown with the revision."),
        "formula": FieldInput(help="Formula, such as AVERAGE(ROUGE, BLEU) or LATENCY_MS.p95."),
        "unit": FieldInput(help="Unit, such as USD or ms. Leave empty for a share or a score."),
        "thresholdMin": FieldInput("Lower threshold", "A value below this threshold is outside the thresholds."),
        "thresholdMax": FieldInput("Upper threshold", "A value above this threshold is outside the thresholds."),
        "gate": FieldInput("Gate: judged together with the other KPIs of the gate"),
        "corrected": FieldInput("Corrected by annotations: the value that people would give"),
    },
)  # fmt: skip

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
KpiId = Annotated[str, Path(alias="kpiId")]


@router.get("/new/benchmark", dependencies=ADMIN)
def show_new_benchmark(
    request: Request, res: Res, dataset: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """The form of a new benchmark, for an uploaded dataset if one is named."""
    return show_form(request, _new_page(res, dataset))


@router.post("/benchmarks", dependencies=ADMIN)
def create_benchmark(request: Request, form: SentForm, res: Res) -> Response:
    """Create a benchmark and show it: its KPIs come next."""

    def save(body: BenchmarkCreate) -> str:
        with res.db.begin() as session:
            benchmark = service.create_benchmark(session, body, res.clock())
            request.state.created = address = path_of("benchmarks", benchmark.id)
        return address

    return submit_form(request, form, lambda: _new_page(res), save)


@router.get("/benchmarks/{benchmarkId}/edit", dependencies=ADMIN)
def show_benchmark_form(request: Request, benchmark_id: BenchmarkId, res: Res) -> Response:
    """The form of a benchmark."""
    return show_form(request, _edit_page(benchmark_id, res))


@router.post("/benchmarks/{benchmarkId}", dependencies=ADMIN)
def change_benchmark(
    request: Request, benchmark_id: BenchmarkId, form: SentForm, res: Res
) -> Response:
    """Change a benchmark and show it."""

    def save(body: BenchmarkPatch) -> str:
        with res.db.begin() as session:
            benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
            require_revision(form, benchmark.revision)
            service.change_benchmark(session, benchmark_id, body, res.clock())
        return path_of("benchmarks", benchmark_id)

    return submit_form(request, form, lambda: _edit_page(benchmark_id, res), save)


@router.post("/benchmarks/{benchmarkId}/archive", dependencies=ADMIN)
def archive_benchmark(benchmark_id: BenchmarkId, form: SentForm, res: Res) -> Response:
    """Hide a benchmark from lists, or show it again."""
    with res.db.begin() as session:
        patch = BenchmarkPatch.model_validate({"archived": form.text("archived") == "true"})
        service.change_benchmark(session, benchmark_id, patch, res.clock())
    return see_other(path_of("benchmarks", benchmark_id))


@router.post("/benchmarks/{benchmarkId}/delete", dependencies=ADMIN)
def delete_benchmark(
    request: Request, benchmark_id: BenchmarkId, form: SentForm, res: Res
) -> Response:
    """Delete a benchmark without runs; asks before its schedules, alert rules and webhook secrets go too."""

    def delete(consent: Consent) -> str:
        with res.db.begin() as session:
            service.delete_benchmark(session, benchmark_id, res.clock(), consent)
        return NAV

    return delete_with_dependents(request, form, delete, back=path_of("benchmarks", benchmark_id))


@router.get("/benchmarks/{benchmarkId}/new-kpi", dependencies=ADMIN)
def show_new_kpi(request: Request, benchmark_id: BenchmarkId, res: Res) -> Response:
    """The form of a new KPI."""
    return show_form(request, _kpi_page(benchmark_id, None, res))


@router.post("/benchmarks/{benchmarkId}/kpis", dependencies=ADMIN)
def create_kpi(request: Request, benchmark_id: BenchmarkId, form: SentForm, res: Res) -> Response:
    """Create a KPI and show its benchmark."""

    def save(body: KpiCreate) -> str:
        with res.db.begin() as session:
            kpi = kpi_service.create_kpi(session, benchmark_id, body, res.clock())
            request.state.created = path_of("benchmarks", benchmark_id, "kpis", kpi.id)
        return path_of("benchmarks", benchmark_id)

    return submit_form(request, form, lambda: _kpi_page(benchmark_id, None, res), save)


@router.get("/benchmarks/{benchmarkId}/kpis/{kpiId}/edit", dependencies=ADMIN)
def show_kpi_form(request: Request, benchmark_id: BenchmarkId, kpi_id: KpiId, res: Res) -> Response:
    """The form of a KPI."""
    return show_form(request, _kpi_page(benchmark_id, kpi_id, res))


@router.post("/benchmarks/{benchmarkId}/kpis/{kpiId}", dependencies=ADMIN)
def change_kpi(
    request: Request, benchmark_id: BenchmarkId, kpi_id: KpiId, form: SentForm, res: Res
) -> Response:
    """Change a KPI, as a new revision, and show its benchmark."""

    def save(body: KpiPatch) -> str:
        with res.db.begin() as session:
            require_revision(form, queries.lock_kpi(session, benchmark_id, kpi_id).revision)
            kpi_service.change_kpi(session, benchmark_id, kpi_id, body, res.clock())
        return path_of("benchmarks", benchmark_id)

    return submit_form(request, form, lambda: _kpi_page(benchmark_id, kpi_id, res), save)


@router.post("/benchmarks/{benchmarkId}/kpis/{kpiId}/delete", dependencies=ADMIN)
def delete_kpi(
    request: Request, benchmark_id: BenchmarkId, kpi_id: KpiId, form: SentForm, res: Res
) -> Response:
    """Remove a KPI from later runs; asks before the alert rules that watch it go too."""
    address = path_of("benchmarks", benchmark_id)

    def delete(consent: Consent) -> str:
        with res.db.begin() as session:
            kpi_service.delete_kpi(session, benchmark_id, kpi_id, res.clock(), consent)
        return address

    return delete_with_dependents(request, form, delete, back=address)


def _new_page(res: Resources, dataset: str = "") -> FormPage:
    with res.db.read() as session:
        choices = _choices(session)
    return FormPage(
        form=FORM, title="New benchmark", nav=NAV, steps=STEPS, action=NAV, back=NAV,
        submit="Create", choices=choices,
        values={"name": dataset, "datasetRef": dataset, "source": "local"} if dataset else {},
    )  # fmt: skip


def _edit_page(benchmark_id: str, res: Resources) -> FormPage:
    with res.db.read() as session:
        benchmark = queries.get_benchmark(session, benchmark_id)
        values = benchmark_view(session, benchmark).model_dump(mode="json")
        choices = _choices(session, values["evaluates"])
    step = _step_of(benchmark)
    return FormPage(
        form=FORM, title=f"Edit {step.text}", nav=NAV, steps=(*STEPS, step), action=step.url,
        back=step.url, values=values, choices=choices, revision=benchmark.revision,
    )  # fmt: skip


def _kpi_page(benchmark_id: str, kpi_id: str | None, res: Resources) -> FormPage:
    with res.db.read() as session:
        benchmark = queries.get_benchmark(session, benchmark_id)
        kpi = queries.get_kpi(session, benchmark_id, kpi_id) if kpi_id is not None else None
        values = KpiView.model_validate(kpi).model_dump(mode="json") if kpi else {}
        if kpi is not None and kpi_service.follows_formula(kpi):
            # Follows an edited formula, too.
            values["direction"] = None
        refs = [metric.ref for metric in benchmark.metrics]
        metrics = [ref.key for ref in refs]
    step = _step_of(benchmark)
    kpis = f"{step.url}/kpis"

    def preview(typed: Mapping[str, Any]) -> dict[str, Any]:
        return {"check": check_formula_text(str(typed.get("formula") or ""), metrics, refs)}

    return FormPage(
        form=KPI_FORM, title=f"Edit {kpi.name}" if kpi else "New KPI", nav=NAV,
        steps=(*STEPS, step), action=kpis + path_of(kpi.id) if kpi else kpis, back=step.url,
        submit=f"Save as revision {kpi.revision + 1}" if kpi else "Create", values=values,
        choices={"direction": DIRECTIONS}, revision=kpi.revision if kpi else None,
        template="kpi_form.html", preview=preview, preview_at="formula",
    )  # fmt: skip


def _choices(session: Session, evaluated_ids: Sequence[str] = ()) -> dict[str, Choices]:
    agents = list_agent_names(session)
    # Those that are archived or not among the newest: a form without them would remove them.
    unlisted = ((agent_id, agent_id) for agent_id in evaluated_ids if agent_id not in agents)
    return {
        "source": [
            ("", "Langfuse for an agent with its keys, uploads for others"),
            *((name, name) for name in TRACE_SOURCES.names()),
        ],
        "evaluates": agents.choices(*unlisted),
    }


def _step_of(benchmark: Benchmark) -> Crumb:
    return Crumb(benchmark.display_name, path_of("benchmarks", benchmark.id))
