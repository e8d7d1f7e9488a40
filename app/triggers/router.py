from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from sqlalchemy.orm import Session

from app.access.deps import require
from app.access.idempotency import Once
from app.benchmarks.queries import get_benchmark
from app.core.pagination import Paging
from app.core.problems import PROBLEMS
from app.core.schemas import Page
from app.core.strict_json import parse_json
from app.core.web.deps import Res
from app.core.web.request_body import RawBody
from app.triggers import queries, service
from app.triggers.rules import EventStatus, EventType, read_langfuse_event
from app.triggers.schemas import (
    EventView,
    LangfuseSecretCreate,
    LangfuseSecretView,
    SecretRotation,
    WebhookRun,
    WebhookSecretCreated,
    WebhookSecretView,
)
from app.triggers.service import Received
from app.triggers.signatures import langfuse_signature, standard_signature

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
SecretId = Annotated[str, Path(alias="secretId")]

ADMIN = [Depends(require("admin"))]

webhooks = APIRouter(prefix="/webhooks", tags=["triggers"], responses=PROBLEMS)
webhook_secrets = APIRouter(
    prefix="/benchmarks/{benchmarkId}/webhook-secrets",
    tags=["triggers"],
    responses=PROBLEMS,
    dependencies=ADMIN,
)
langfuse_secrets = APIRouter(
    prefix="/langfuse-secrets", tags=["triggers"], responses=PROBLEMS, dependencies=ADMIN
)
events = APIRouter(
    prefix="/trigger-events",
    tags=["triggers"],
    responses=PROBLEMS,
    dependencies=[Depends(require("read"))],
)


def _json_body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


@webhooks.post(
    "/benchmarks/{benchmarkId}/runs",
    status_code=202,
    openapi_extra=_json_body(WebhookRun.model_json_schema()),
)
def start_runs_by_webhook(
    benchmark_id: BenchmarkId,
    received: Annotated[Received, Depends(standard_signature)],
    body: RawBody,
    res: Res,
) -> EventView:
    """Start runs of a benchmark. Signed after Standard Webhooks; a repeated id starts nothing new."""
    wanted = _webhook_run(body)
    with res.db.begin() as session:
        event = service.start_by_webhook(session, benchmark_id, received, wanted, res.clock())
        return EventView.model_validate(event)


@webhooks.post("/langfuse", status_code=202, openapi_extra=_json_body({"type": "object"}))
def receive_langfuse_event(
    received: Annotated[Received, Depends(langfuse_signature)], body: RawBody, res: Res
) -> EventView:
    """Take an event of Langfuse; benchmarks with a rule that fits are run in the background."""
    told = read_langfuse_event(parse_json(body))
    with res.db.begin() as session:
        event = service.record_langfuse(session, told, received, res.clock())
        return EventView.model_validate(event)


@webhook_secrets.post("", status_code=201, response_model=WebhookSecretCreated)
def create_webhook_secret(
    benchmark_id: BenchmarkId, body: SecretRotation, once: Once, res: Res
) -> Response:
    """Make a secret; the answer is the only place where it is shown. Earlier ones count on."""

    def create(session: Session) -> WebhookSecretCreated:
        seconds = body.earlier_end_after_seconds
        made = service.create_secret(
            session,
            benchmark_id,
            res.secrets,
            res.clock(),
            earlier_end_after=None if seconds is None else timedelta(seconds=seconds),
        )
        view = WebhookSecretView.model_validate(made.row)
        return WebhookSecretCreated(**view.model_dump(), secret=made.text.reveal())

    return once(body, create)


@webhook_secrets.get("")
def list_webhook_secrets(
    benchmark_id: BenchmarkId, page: Paging, res: Res
) -> Page[WebhookSecretView]:
    """The secrets that calls for a benchmark may be signed with, newest first."""
    with res.db.read() as session:
        get_benchmark(session, benchmark_id)
        rows = queries.list_secrets(session, benchmark_id, page)
        items = [WebhookSecretView.model_validate(row) for row in rows.rows]
        return Page(items=items, next_cursor=rows.next_cursor)


@webhook_secrets.delete("/{secretId}", status_code=204)
def delete_webhook_secret(benchmark_id: BenchmarkId, secret_id: SecretId, res: Res) -> None:
    """End a secret at once."""
    with res.db.begin() as session:
        service.delete_secret(session, benchmark_id, secret_id)


@langfuse_secrets.post("", status_code=201, response_model=LangfuseSecretView)
def keep_langfuse_secret(body: LangfuseSecretCreate, once: Once, res: Res) -> Response:
    """Keep a secret that Langfuse made; it is stored encrypted and never shown again."""

    def keep(session: Session) -> LangfuseSecretView:
        row = service.keep_langfuse_secret(session, body, res.secrets, res.clock())
        return LangfuseSecretView.model_validate(row)

    return once(body, keep)


@langfuse_secrets.get("")
def list_langfuse_secrets(page: Paging, res: Res) -> Page[LangfuseSecretView]:
    """The secrets that events of Langfuse may be signed with, newest first."""
    with res.db.read() as session:
        rows = queries.list_secrets(session, None, page)
        items = [LangfuseSecretView.model_validate(row) for row in rows.rows]
        return Page(items=items, next_cursor=rows.next_cursor)


@langfuse_secrets.delete("/{secretId}", status_code=204)
def delete_langfuse_secret(secret_id: SecretId, res: Res) -> None:
    """End a secret at once."""
    with res.db.begin() as session:
        service.delete_secret(session, None, secret_id)


@events.get("")
def list_trigger_events(
    page: Paging,
    res: Res,
    status: Annotated[EventStatus | None, Query()] = None,
    event_type: Annotated[EventType | None, Query(alias="type")] = None,
) -> Page[EventView]:
    """What happened in the last seven days that may start runs, newest first."""
    with res.db.read() as session:
        rows = queries.list_events(session, page, status=status, event_type=event_type)
        items = [EventView.model_validate(row) for row in rows.rows]
        return Page(items=items, next_cursor=rows.next_cursor)


@events.get("/{eventId}")
def get_trigger_event(event_id: Annotated[str, Path(alias="eventId")], res: Res) -> EventView:
    with res.db.read() as session:
        return EventView.model_validate(queries.get_event(session, event_id))


def _webhook_run(body: bytes) -> WebhookRun:
    """What a signed body asks for; an empty one asks for nothing special."""
    try:
        return WebhookRun.model_validate(parse_json(body) if body else {})
    except ValidationError as error:
        flaws = [{**flaw, "loc": ("body", *flaw["loc"])} for flaw in error.errors()]
        raise RequestValidationError(flaws) from None
