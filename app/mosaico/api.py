"""URL map: one line per router."""

import re

from fastapi import APIRouter
from fastapi.params import Depends
from starlette.types import Scope

from mosaico.access.admin_pages import router as admin_pages
from mosaico.access.pages import router as login_pages
from mosaico.access.people_pages import router as people_pages
from mosaico.access.provider_pages import router as provider_pages
from mosaico.access.router import audit_router as audit
from mosaico.access.router import people_router as people
from mosaico.access.router import router as keys
from mosaico.agents.pages import router as agent_forms
from mosaico.agents.router import router as agents
from mosaico.alerts.inbox_router import router as inbox_entries
from mosaico.alerts.pages.alert import router as alert_page
from mosaico.alerts.pages.inbox import router as inbox_page
from mosaico.alerts.pages.incidents import router as incident_pages
from mosaico.alerts.pages.rule_forms import router as rule_forms
from mosaico.alerts.pages.rules import router as rule_pages
from mosaico.alerts.pages.silences import router as silence_pages
from mosaico.alerts.router import alert_configs, alerts, incidents, silences
from mosaico.benchmarks.pages import router as benchmark_forms
from mosaico.benchmarks.router import router as benchmarks
from mosaico.comparison.pages import router as power_page
from mosaico.comparison.router import router as baselines
from mosaico.core.problem_documents import PROBLEMS
from mosaico.core.web.forms.confirmation import require_confirmation
from mosaico.core.web.query_parameters import reject_repeated_parameters, reject_wrong_parameters
from mosaico.core.web.routes import Router
from mosaico.kpis.router import router as kpis
from mosaico.metrics.router import router as metrics
from mosaico.notifications.pages import router as endpoint_pages
from mosaico.notifications.router import deliveries_router as deliveries
from mosaico.notifications.router import endpoints_router as endpoints
from mosaico.notifications.router import inbox_router as notifications
from mosaico.overview.annotation_pages import router as annotation_pages
from mosaico.overview.annotation_router import other_router as annotation_queues
from mosaico.overview.annotation_router import router as annotations
from mosaico.overview.dataset_health.pages import router as dataset_health_page
from mosaico.overview.dataset_health.router import router as dataset_health
from mosaico.overview.dataset_pages import router as dataset_pages
from mosaico.overview.fleet_pages import router as fleet_page
from mosaico.overview.formula_pages import router as formula_page
from mosaico.overview.note_pages import router as note_forms
from mosaico.overview.note_router import router as notes
from mosaico.overview.note_router import subject_router as subject_notes
from mosaico.overview.owner_pages import router as owner_pages
from mosaico.overview.pages import router as morning_page
from mosaico.overview.router import router as overview
from mosaico.overview.search_page import router as search_page
from mosaico.overview.setup_pages import router as setup_pages
from mosaico.overview.system_pages import router as system_pages
from mosaico.overview.trace_item_router import form_router as trace_item_form
from mosaico.overview.trace_item_router import router as trace_items
from mosaico.overview.version_router import router as agent_versions
from mosaico.project_file.router import router as project_objects
from mosaico.project_file.router import schema_router as project_file_schema
from mosaico.reporting.pages import router as trend_page
from mosaico.reporting.router import kpi_files, run_files
from mosaico.runs.answer_router import router as run_answers
from mosaico.runs.erasure_router import router as text_erasure
from mosaico.runs.pages.comparison import router as comparison_page
from mosaico.runs.pages.dataset import router as benchmark_dataset_page
from mosaico.runs.pages.estimate import router as estimate_page
from mosaico.runs.pages.items import router as item_pages
from mosaico.runs.pages.runs import router as run_pages
from mosaico.runs.pages.traces import router as trace_pages
from mosaico.runs.router import router as benchmark_runs
from mosaico.schedules.pages import router as schedule_pages
from mosaico.schedules.router import router as schedule_configs
from mosaico.schedules.router import summary_router as daily_summary
from mosaico.traces.datasets.pages import router as item_pages_of_datasets
from mosaico.traces.datasets.router import router as datasets
from mosaico.traces.otel.router import LOGS_PATH, TRACES_PATH
from mosaico.traces.otel.router import PATHS as OTLP_PATHS
from mosaico.traces.otel.router import router as otlp_receiver
from mosaico.traces.uploads.router import router as local_datasets
from mosaico.triggers.pages import router as trigger_pages
from mosaico.triggers.router import events as trigger_events
from mosaico.triggers.router import langfuse_secrets, webhook_secrets, webhooks

PREFIX = "/api/v1"

# Routes that read their body in chunks; every other body is of at most 1 MiB.
STREAMED_ROUTES = frozenset[tuple[str, str]](
    {
        ("POST", f"{PREFIX}/local-datasets"),
        ("POST", f"{PREFIX}/local-datasets/import"),
        ("POST", TRACES_PATH),
        ("POST", LOGS_PATH),
        ("POST", f"{PREFIX}/datasets/import"),
        ("POST", "/datasets"),
        ("POST", "/datasets/import"),
    }
)

# Routes whose signature covers the raw bytes of the body.
SIGNED_PATHS = re.compile(rf"{PREFIX}/webhooks/(langfuse|benchmarks/[^/]+/runs)")

# A request is matched with the routes in this order: those of runs, which are most frequent, come first.
ROUTERS: tuple[Router, ...] = (
    benchmark_runs,
    run_answers,
    agents,
    agent_versions,
    benchmarks,
    baselines,
    dataset_health,
    run_files,
    schedule_configs,
    daily_summary,
    overview,
    kpis,
    kpi_files,
    text_erasure,  # before the datasets, whose names match its path
    local_datasets,
    trace_items,
    datasets,
    webhooks,
    webhook_secrets,
    langfuse_secrets,
    trigger_events,
    inbox_entries,
    alert_configs,
    alerts,
    incidents,
    silences,
    notes,
    subject_notes,
    annotations,
    annotation_queues,
    notifications,
    deliveries,
    endpoints,
    metrics,
    project_objects,
    keys,
    people,
    audit,
)


# The routers of pages; see `mosaico.core.web.pages`.
PAGES: tuple[Router, ...] = (
    login_pages,
    provider_pages,
    morning_page,
    fleet_page,
    comparison_page,
    run_pages,
    annotation_pages,
    item_pages,
    trace_pages,
    trend_page,
    inbox_page,
    silence_pages,
    agent_forms,
    owner_pages,
    benchmark_forms,
    power_page,
    benchmark_dataset_page,
    dataset_health_page,
    estimate_page,
    schedule_pages,
    alert_page,
    rule_pages,
    rule_forms,
    incident_pages,
    note_forms,
    endpoint_pages,
    admin_pages,
    people_pages,
    formula_page,
    search_page,
    system_pages,
    trace_item_form,
    item_pages_of_datasets,
    dataset_pages,
    setup_pages,
    trigger_pages,
)

# After the check of the role, which leads readers without a session to the login.
PAGE_CHECKS = (Depends(reject_repeated_parameters), Depends(require_confirmation))

# Paths that are neither pages nor below `/api/`: they need no key and read none.
OPEN_PATHS = (
    "/static/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/swagger-ui.html",
    "/problems/", "/schemas/",
)  # fmt: skip


def include_pages(routes: APIRouter) -> None:
    """Add the routers of pages, which the description of the API leaves out."""
    for router in PAGES:
        router.add_to(routes, checks=PAGE_CHECKS, include_in_schema=False, has_head=True)


def include_routers(routes: APIRouter) -> None:
    """Add every router below `/api/v1`, with its documented problems, and the receiver of spans."""
    for router in ROUTERS:
        # Webhooks check them after the signature, as all others after the key.
        checks = [] if router is webhooks else [Depends(reject_wrong_parameters)]
        router.add_to(routes, prefix=PREFIX, responses=PROBLEMS, dependencies=checks)
    # Exporters append `/v1/traces` and `/v1/logs` to the address of the service.
    otlp_receiver.add_to(routes)
    # Editors read it without a key.
    project_file_schema.add_to(routes)


def is_streamed(scope: Scope) -> bool:
    """Return whether the route reads the body of the request as a stream."""
    return any(
        scope["method"] == method and scope["path"] == path for method, path in STREAMED_ROUTES
    )


def requires_key(scope: Scope) -> bool:
    """Return whether the request needs an API key: exports, and everything below `/api/v1` that is
    not signed.
    """
    if scope["path"] in OTLP_PATHS:
        return True
    return scope["path"].startswith(f"{PREFIX}/") and not is_signed(scope)


def accepts_key(scope: Scope) -> bool:
    """Return whether a key or a session is read without being required: on pages."""
    path: str = scope["path"]
    return not path.startswith(("/api/", *OPEN_PATHS))


def is_signed(scope: Scope) -> bool:
    """Return whether the body of the request is signed and must reach its route unchanged."""
    return scope["method"] == "POST" and SIGNED_PATHS.fullmatch(scope["path"]) is not None
