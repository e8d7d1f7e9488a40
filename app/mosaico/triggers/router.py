"""REST endpoints of triggers: webhooks, their secrets, and trigger events."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ
from mosaico.access.idempotency import Idempotent
from mosaico.benchmarks.queries import get_benchmark
from mosaico.core.problem_documents import BODY_PROBLEMS, CONFLICT, PROBLEMS
from mosaico.core.schemas import Page
from mosaico.core.strict_json import parse_json
from mosaico.core.web.deps import Res
from mosaico.core.web.query_parameters import PageParams, reject_wrong_parameters
from mosaico.core.web.request_body import RawBody
from mosaico.core.web.routes import Router
from mosaico.triggers import queries, secrets, service
from mosaico.triggers.rules import parse_langfuse_event
from mosaico.triggers.schemas import (
    LangfuseSecretCreate,
    LangfuseSecretView,
    TriggerEventView,
    WebhookRunRequest,
    WebhookSecretCreate,
    WebhookSecretCreated,
    WebhookSecretView,
)
from mosaico.triggers.service import VerifiedTriggerCall
from mosaico.triggers.signatures import verify_langfuse_signature, verify_standard_signature

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
SecretId = Annotated[str, Path(alias="secretId")]
# Behind the signature in the list of parameters: a stranger learns nothing from it.
NoWrongParameters = Annotated[None, Depends(reject_wrong_parameters)]


webhooks = Router(prefix="/webhooks", tags=["triggers"])
webhook_secrets = Router(
    prefix="/benchmarks/{benchmarkId}/webhook-secrets",
    tags=["triggers"],
    responses=PROBLEMS,
    dependencies=ADMIN,
)
langfuse_secrets = Router(
    prefix="/langfuse-secrets", tags=["triggers"], responses=PROBLEMS, dependencies=ADMIN
)
events = Router(
    prefix="/trigger-events",
    tags=["triggers"],
    responses=PROBLEMS,
    dependencies=READ,
)


# The signature decides, not the type of the body.
CALL_PROBLEMS = {**CONFLICT, 413: BODY_PROBLEMS[413]}


def _json_body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


@webhooks.post(
    "/benchmarks/{benchmarkId}/runs",
    status_code=202,
    openapi_extra=_json_body(WebhookRunRequest.model_json_schema()),
    responses=CALL_PROBLEMS,
)
def start_runs_by_webhook(
    benchmark_id: BenchmarkId,
    call: Annotated[VerifiedTriggerCall, Depends(verify_standard_signature)],
    _: NoWrongParameters,
    body: RawBody,
    res: Res,
) -> TriggerEventView:
    """Start runs of a benchmark by a signed call. A repeated webhook-id starts no further run."""
    request = _parse_run_request(body)
    with res.db.begin() as session:
        event = service.start_runs_by_webhook(session, benchmark_id, call, request, res.clock())
        return TriggerEventView.model_validate(event)


@webhooks.post(
    "/langfuse",
    status_code=202,
    openapi_extra=_json_body({"type": "object"}),
    responses=CALL_PROBLEMS,
)
def receive_langfuse_event(
    call: Annotated[VerifiedTriggerCall, Depends(verify_langfuse_signature)],
    _: NoWrongParameters,
    body: RawBody,
    res: Res,
) -> TriggerEventView:
    """Receive a Langfuse event; benchmarks with a matching rule run in the background."""
    langfuse_event = parse_langfuse_event(parse_json(body))
    with res.db.begin() as session:
        event = service.record_langfuse_event(session, langfuse_event, call, res.clock())
        return TriggerEventView.model_validate(event)


@webhook_secrets.post("", status_code=201, response_model=WebhookSecretCreated)
def create_webhook_secret(
    benchmark_id: BenchmarkId, body: WebhookSecretCreate, once: Idempotent, res: Res
) -> Response:
    """Create a secret; the response is its only copy. Previous secrets stay valid by default."""

    def create(session: Session) -> WebhookSecretCreated:
        seconds = body.previous_expires_after_seconds
        created = secrets.create_webhook_secret(
            session,
            benchmark_id,
            res.secrets,
            res.clock(),
            previous_expires_after=None if seconds is None else timedelta(seconds=seconds),
        )
        view = WebhookSecretView.model_validate(created.row)
        return WebhookSecretCreated(**view.model_dump(), secret=created.text.reveal())

    return once(body, create)


@webhook_secrets.get("")
def list_webhook_secrets(
    benchmark_id: BenchmarkId, page: PageParams, res: Res
) -> Page[WebhookSecretView]:
    """List the webhook secrets of a benchmark, newest first."""
    with res.db.read() as session:
        get_benchmark(session, benchmark_id)
        rows = queries.list_secrets(session, benchmark_id, page)
        return rows.to_page(WebhookSecretView.model_validate)


@webhook_secrets.delete("/{secretId}", status_code=204)
def delete_webhook_secret(benchmark_id: BenchmarkId, secret_id: SecretId, res: Res) -> None:
    """Delete a secret; it is invalid at once."""
    with res.db.begin() as session:
        secrets.delete_secret(session, benchmark_id, secret_id)


@langfuse_secrets.post("", status_code=201, response_model=LangfuseSecretView)
def create_langfuse_secret(body: LangfuseSecretCreate, once: Idempotent, res: Res) -> Response:
    """Store a secret that Langfuse generated, encrypted; it is never returned."""

    def create(session: Session) -> LangfuseSecretView:
        row = secrets.create_langfuse_secret(session, body, res.secrets, res.clock())
        return LangfuseSecretView.model_validate(row)

    return once(body, create)


@langfuse_secrets.get("")
def list_langfuse_secrets(page: PageParams, res: Res) -> Page[LangfuseSecretView]:
    """List the secrets of Langfuse events, newest first."""
    with res.db.read() as session:
        return queries.list_secrets(session, None, page).to_page(LangfuseSecretView.model_validate)


@langfuse_secrets.delete("/{secretId}", status_code=204)
def delete_langfuse_secret(secret_id: SecretId, res: Res) -> None:
    """Delete a secret; it is invalid at once."""
    with res.db.begin() as session:
        secrets.delete_secret(session, None, secret_id)


@events.get("")
def list_trigger_events(
    page: PageParams,
    res: Res,
    event_filter: Annotated[queries.TriggerEventFilter, Query()],
) -> Page[TriggerEventView]:
    """List the trigger events that are kept, newest first."""
    with res.db.read() as session:
        rows = queries.list_events(session, page, event_filter)
        return rows.to_page(TriggerEventView.model_validate)


@events.get("/{eventId}")
def get_trigger_event(
    event_id: Annotated[str, Path(alias="eventId")], res: Res
) -> TriggerEventView:
    with res.db.read() as session:
        return TriggerEventView.model_validate(queries.get_event(session, event_id))


def _parse_run_request(body: bytes) -> WebhookRunRequest:
    """Parse a signed body; an empty body has no options."""
    try:
        return WebhookRunRequest.model_validate(parse_json(body) if body else {})
    except ValidationError as error:
        flaws = [{**flaw, "loc": ("body", *flaw["loc"])} for flaw in error.errors()]
        raise RequestValidationError(flaws) from None
