"""Every page of the service: its path, from the routes, and the rows that it shows.

A new page is tested without being listed here; only a new parameter of a route needs an example.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

import pytest
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from mosaico.access.models import ApiKey, Person
from mosaico.agents.models import Agent, AgentRevision
from mosaico.alerts.models import AlertRule, AlertRuleRevision, AlertSilence, Incident
from mosaico.alerts.silence_matchers import SilenceMatchers
from mosaico.annotations.models import Annotation
from mosaico.api import PAGES
from mosaico.core.web import pages, query_parameters
from mosaico.core.web.routes import DeclaredRoute
from mosaico.notes.models import Note
from mosaico.overview.models import SetupDraft
from mosaico.run_store.models import BenchmarkRun
from mosaico.traces.datasets.service import ItemEdit, edit_dataset
from mosaico.traces.models import Dataset, LocalDataset
from mosaico.traces.registry import TracePage
from mosaico.traces.service import create_collection, store_page
from mosaico.traces.types import DatasetItem, Trace
from mosaico.triggers.models import TriggerEvent
from tests.support.page_attributes import version_of_night
from tests.support.page_data import (
    HOSTILE,
    time_of_night,
    write_month,
    write_schedule,
    write_traces,
)
from tests.support.replays import write_or_replay

RUN: Final = "run-billing-support-0"
BASE: Final = "run-billing-support-1"
# The parameters of routes.
EXAMPLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "agentId": "billing", "alertId": "alert-0", "benchmarkId": "support", "datasetId": "upload-1", "setId": "set-1", "version": "1",
        "endpointId": "endpoint-1", "eventId": "trigger-1",
        "incidentId": "alert-0", "keyId": "key-1", "kpi": "support-pass", "kpiId": "support-pass",
        "alertConfigId": "rule-1", "deliveryId": "delivery-1", "draftId": "draft-1", "notificationId": "note-0",
        "noteId": "note-0", "annotationId": "annotation-0", "personId": "person-1",
        "ruleId": "rule-1", "runId": RUN, "scheduleId": "nightly",
        "secretId": "secret-1", "silenceId": "silence-1", "traceId": f"{RUN}/t-0", "projectObjectId": "object-1",
    }
)  # fmt: skip
# Queries that a page needs, or that show more of it.
QUERIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "/compare": f"base={BASE}&run={RUN}",
        "/runs/{runId}/items": f"item=case-000&base={BASE}",
        "/runs/{runId}/annotate": "queue=flipped&at=2",
        "/benchmarks/{benchmarkId}/kpis/{kpi}": "agent=billing",
        "/alerts/{ruleId}": "days=90&agent=billing",
        "/new/alert-rule": "benchmark=support",
        "/benchmarks/{benchmarkId}/power": "drop=0.2",
        "/datasets/{setId}/item": "item=case-000",
        "/search": "text=support",
        "/formulas": f"formula=AVERAGE(EXACT_MATCH,ROUGE)&run={RUN}",
    }
)
# Two versions of an agent: the last night has a new model and prompt.
AGENT_VERSIONS: Final = "/agents/billing?" + urlencode(
    {"benchmark": "support", "a": version_of_night(1), "b": version_of_night(0)}
)
# Other states of pages, with data.
STATES: Final = (
    AGENT_VERSIONS, "/runs/run-triage-tickets-0", "/runs/run-in-progress", "/runs/run-failed",
    "/benchmarks/support/kpis/support-pass?agent=billing&agent=sql",
    f"/compare?base={BASE}&run={RUN}&layout=case",
    "/compare?base=run-triage-tickets-1&run=run-triage-tickets-0", "/benchmarks/support/kpis/support-cost",
    "/inbox?tab=all", "/inbox?tab=silenced", "/incidents?state=OPEN", "/runs?text=nothing-matches",
    "/formulas?formula=AVERAGE(EXACT_MATCH,ROUG)", "/no-such-page", "/runs/no-such-run",
)  # fmt: skip


# On the way to a provider and back.
REDIRECTS: Final = frozenset({"/login/provider", "/login/callback"})


def iter_page_routes() -> Iterator[DeclaredRoute]:
    """The routes of pages without their forms."""
    for router in PAGES:
        for route in router.routes:
            if route.method == "GET" and route.path not in REDIRECTS:
                yield route


def fill_path(path: str, examples: Mapping[str, str] = EXAMPLES) -> str:
    """The path of a route with the examples of its parameters. Raises: `KeyError` without an example."""
    return re.sub(r"\{(\w+)(?::path)?\}", lambda match: examples[match[1]], path)


def write_every_page(session: Session) -> None:
    """The rows of each page: a month, a failed run, a schedule, an upload, a key, a silence and traces with
    hostile texts."""
    now = datetime.now(UTC)
    # The names of runs have the dates of their nights.
    key = ("every page", time_of_night(now, 0).date())
    write_or_replay(session, key, now, partial(_write_every_page, session, now))


def _write_every_page(session: Session, now: datetime) -> None:
    write_month(session, now=now)
    write_schedule(session, now=now)
    write_traces(session, "run-sql-support-0", broken=0, text=HOSTILE)
    session.add(
        BenchmarkRun(
            id="run-failed", benchmark_id="support", agent_id="sql", status="FAILED",
            triggered_by="MANUAL", created_at=now, started_at=now, completed_at=now,
            error_code="SOURCE_UNAVAILABLE", error_message="Langfuse answered 503 for 10 minutes.",
        )
    )  # fmt: skip
    session.add(
        TriggerEvent(
            id="trigger-1", type="webhook", subject="support", details={"runName": HOSTILE}, status="STARTED",
            benchmark_ids=["support"], run_ids=[RUN], received_at=now - timedelta(hours=1), settled_at=now,
        )
    )  # fmt: skip
    session.add(
        Person(
            id="person-1", issuer="https://login.example.org", subject="ana", name="Ana Rossi",
            email="ana@example.org", role="run", created_at=now, last_login_at=now,
        )
    )  # fmt: skip
    session.add(
        Person(
            id="person-2", issuer="https://login.example.org", subject="ben", name="Ben Okafor", email=None,
            role="read", created_at=now, last_login_at=now, blocked_at=now,
        )
    )  # fmt: skip
    session.add(
        SetupDraft(
            id="draft-1",
            fields={"datasetId": "upload-1", "datasetRef": "support", "endpoints": ["endpoint-1"]},
        )
    )
    session.add(ApiKey(id="key-1", name="nightly CI", role="run", digest=b"key-1", created_at=now))
    uploaded = create_collection(session, "local", {})
    traces = tuple(
        Trace(trace_id=f"u-{number}", item_id=f"u-{number}", input="How much?", output=output)
        for number, output in enumerate(("12 EUR", HOSTILE))
    )
    store_page(session, uploaded, TracePage(traces=traces, cursor=None), now)
    session.add(
        LocalDataset(
            id="upload-1", name="support", run_name="2026-11-20", collection_id=uploaded.id, trace_count=2,
            size_bytes=90_112,
        )
    )  # fmt: skip
    _write_dataset(session, now)
    session.add(
        AlertSilence(
            id="silence-1", matchers=SilenceMatchers(benchmark_id="warehouse", name="cost*"),
            comment="The warehouse moves this week.", starts_at=now, ends_at=now + timedelta(days=5),
        )
    )  # fmt: skip
    session.add_all(
        Note(
            id=f"note-{number}", benchmark_id="support", text="The new prompt was planned.", created_by="person-1",
            created_at=now, **subject,
        )
        for number, subject in enumerate(
            ({"run_id": RUN}, {"run_id": RUN, "item_id": "case-000"}, {"incident_id": "alert-0"})
        )
    )  # fmt: skip
    session.execute(
        update(Incident)
        .where(Incident.id == "alert-0")
        .values(assignee_id="person-1", assigned_by="person-1", assigned_at=now)
    )
    session.execute(
        update(Agent)
        .where(Agent.id == "billing")
        .values(owners=["ana@example.org", "cleo@example.org"], revision=3)
    )
    session.execute(update(AlertRule).where(AlertRule.id == "rule-1").values(revision=3))
    edit = {"changes": ["name", "owners"], "changed_by": "person-1", "changed_at": now}
    session.add_all(
        revised
        for number in (2, 3)
        for revised in (
            AgentRevision(agent_id="billing", revision=number, **edit),
            AlertRuleRevision(rule_id="rule-1", revision=number, **edit),
        )
    )
    session.add_all(
        Annotation(
            id=f"annotation-{number}", benchmark_id="support", run_id=RUN, trace_id=f"{RUN}/t-{number // 2}",
            item_id=f"case-{number // 2:03}", judgement=("right", "partly", "wrong")[number % 3], score=0.5,
            corrected_answer="Within 30 days.", note="The period is missing.", expected_is_wrong=number < 2,
            annotator=f"person-{1 + number % 2}", created_at=now, updated_at=now,
        )
        for number in range(24)
    )  # fmt: skip
    session.flush()


def _write_dataset(session: Session, now: datetime) -> None:
    """A dataset with two versions: the second one changes an item and retires another."""
    session.add(Dataset(id="set-1", name="support", version=0, item_count=0))
    session.flush()
    items = [
        DatasetItem(id=f"case-{number:03}", input="How much?", expected_output=answer)
        for number, answer in enumerate(("12 EUR", HOSTILE, "free", "free"))
    ]
    edits = (
        ItemEdit(base_version=0, items=items, note=HOSTILE[:200]),
        ItemEdit(
            base_version=1,
            items=[replace(items[0], expected_output="13 EUR")],
            retired_ids=["case-002"],
            origins={"case-000": {"run_id": RUN, "trace_id": f"{RUN}/t-0"}},
        ),
    )
    for edit in edits:
        edit_dataset(session, "set-1", edit, by="person-1", now=now)


def write_hostile_pages(session: Session) -> None:
    """The rows of each page, with names and notes that an attacker chose; the API refuses control
    characters in names of KPIs. One agent keeps its name."""
    write_every_page(session)
    for statement in (
        "UPDATE agents SET name = :name, description = :name WHERE id <> 'triage'",
        "UPDATE benchmarks SET metadata = jsonb_build_object('name', CAST(:name AS text)), task_def = :name",
        # chr(8238) is the right-to-left override; 180 characters and
        # the ID stay below the limit of 200.
        "UPDATE kpi_definitions SET name = left(replace(:name, chr(8238), ''), 180) || id",
        "UPDATE kpi_history SET name = left(replace(:name, chr(8238), ''), 180) || kpi_id",
        "UPDATE benchmark_runs SET error_message = :name WHERE error_message IS NOT NULL",
        "UPDATE benchmark_runs SET run_name = :name",
        "UPDATE alert_rules SET name = :name",
        "UPDATE alert_events SET name = :name, explanation = :name, note = :name",
        "UPDATE alert_silences SET comment = :name",
        "UPDATE api_keys SET name = :name",
        # Not the name of an agent: a row with an author is about something else.
        "UPDATE people SET name = left(:name, -1)",
        "UPDATE endpoints SET recipient = :name",
        "UPDATE deliveries SET detail = :name",
        "UPDATE incidents SET name = :name, value_name = :name, explanation = :name, note = :name",
        "UPDATE local_datasets SET name = :name, run_name = :name",
        "UPDATE annotations SET note = :name, corrected_answer = :name",
        "UPDATE notes SET text = :name",
        "UPDATE datasets SET name = :name",
        "UPDATE dataset_versions SET note = :name",
        "UPDATE dataset_items SET input = :name, expected_output = :name",
        "UPDATE notifications SET title = :name",
        "UPDATE schedule_configs SET name = :name, description = :name",
        "UPDATE collected_traces SET item_id = :name || item_id WHERE position < 3",
    ):
        session.execute(text(statement), {"name": HOSTILE})


def page_paths() -> list[str]:
    """A path of each page with data, then the other states."""
    paths = [
        fill_path(route.path) + (f"?{QUERIES[route.path]}" if route.path in QUERIES else "")
        for route in iter_page_routes()
    ]
    return [*paths, *STATES]


def page_paths_without_data() -> list[str]:
    """The pages that exist in an empty database."""
    return [
        route.path
        for route in iter_page_routes()
        if "{" not in route.path and route.path not in {"/compare", "/new/alert-rule"}
    ]


def shorten_lists(patch: pytest.MonkeyPatch, rows: int) -> None:
    """Let each page of a list show so many rows, and the API as many without a limit."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mosaico.") and "pages" in name and hasattr(module, "PAGE_SIZE"):
            patch.setattr(module, "PAGE_SIZE", rows)
    for module in (query_parameters, pages):
        patch.setattr(module, "DEFAULT_LIMIT", rows)


def is_form(path: str) -> bool:
    """Whether a page is a form or a text: it has no data of its own, and so no twin in the API."""
    return (
        path.startswith(("/new/", "/setup", "/login", "/time-zone", "/help"))
        or re.search("/(edit|estimate|new-[a-z]+)$", path) is not None
    )
