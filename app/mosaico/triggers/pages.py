"""Pages of triggers: the events of the last days, and the secrets that sign them."""

import json
from typing import Annotated, Final

from fastapi import Depends, Path, Request, Response

from mosaico.access.deps import ADMIN, READ
from mosaico.access.one_time_secrets import find_secret, forget_secret, redirect_with_secret
from mosaico.benchmarks.queries import get_benchmark, list_benchmark_names
from mosaico.core.defaults import KEEP_TRIGGER_EVENTS
from mosaico.core.keyset import MAX_LIMIT, PageQuery
from mosaico.core.text import cut_middle
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.fields import InputKind
from mosaico.core.web.forms.form_page import FormPage, show_form, submit_form
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.rendering import FieldInput, SchemaForm
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, list_in_api, public_url, render_page, see_other
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.triggers import queries, secrets
from mosaico.triggers.queries import TriggerEventFilter
from mosaico.triggers.schemas import LangfuseSecretCreate

router = Router()

NAV: Final = "/triggers"
STEPS: Final = (Crumb("Triggers", NAV),)
MAX_PAYLOAD_CHARS: Final = 20_000
FORM: Final = SchemaForm(
    create=LangfuseSecretCreate,
    main=("name", "secret"),
    inputs={
        "name": FieldInput(help="Name of the Langfuse webhook that signs with this secret."),
        "secret": FieldInput(
            "Secret of Langfuse",
            (
                "Langfuse shows the secret once, when you create the webhook. MOSAICO stores it "
                "encrypted and never shows it."
            ),
            InputKind.SECRET,
        ),
    },
)

EventFilters = Annotated[
    SentFilters[TriggerEventFilter], Depends(PageFilters(TriggerEventFilter, "status type"))
]
BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
SecretId = Annotated[str, Path(alias="secretId")]


@router.get("/triggers", dependencies=READ)
def show_triggers(request: Request, res: Res, query: ListQuery, filters: EventFilters) -> Response:
    """The trigger events that are kept, newest first, and the secrets of Langfuse."""
    with res.db.read() as session:
        page = queries.list_events(session, query, filters.of_list)
        stored = queries.list_secrets(session, None, PageQuery(MAX_LIMIT)).rows
    return render_page(
        request,
        "triggers.html",
        title="Triggers",
        nav=NAV,
        api=list_in_api(request, "/trigger-events", **filters.in_api),
        filters=filters.fields,
        events=page.rows,
        kept_days=KEEP_TRIGGER_EVENTS.days,
        secrets=stored,
        langfuse_url=f"{public_url(request)}/api/v1/webhooks/langfuse",
        next_cursor=page.next_cursor,
    )


@router.get("/triggers/{eventId}", dependencies=READ)
def show_trigger_event(
    request: Request, event_id: Annotated[str, Path(alias="eventId")], res: Res
) -> Response:
    """Show one trigger event: what it is about, the runs that it started, and its payload."""
    with res.db.read() as session:
        event = queries.get_event(session, event_id)
        names = list_benchmark_names(session)
    return render_page(
        request,
        "trigger.html",
        title=event.type,
        nav=NAV,
        api=f"/trigger-events{path_of(event_id)}",
        steps=STEPS,
        event=event,
        names=names,
        payload=cut_middle(
            json.dumps(event.details, indent=1, ensure_ascii=False), MAX_PAYLOAD_CHARS
        ),
    )


@router.get("/new/langfuse-secret", dependencies=ADMIN)
def show_new_langfuse_secret(request: Request) -> Response:
    """The form of a secret that Langfuse generated."""
    return show_form(request, _new_page())


@router.post("/langfuse-secrets", dependencies=ADMIN)
def create_langfuse_secret(request: Request, form: SentForm, res: Res) -> Response:
    """Store a secret that Langfuse generated."""

    def save(body: LangfuseSecretCreate) -> str:
        with res.db.begin() as session:
            row = secrets.create_langfuse_secret(session, body, res.secrets, res.clock())
            request.state.created = f"/api/v1/langfuse-secrets{path_of(row.id)}"
        return NAV

    return submit_form(request, form, _new_page, save)


@router.post("/langfuse-secrets/{secretId}/delete", dependencies=ADMIN)
def delete_langfuse_secret(secret_id: SecretId, res: Res) -> Response:
    """Delete a secret; it is invalid at once."""
    with res.db.begin() as session:
        secrets.delete_secret(session, None, secret_id)
    return see_other(NAV)


@router.get("/benchmarks/{benchmarkId}/webhook", dependencies=ADMIN)
def show_webhook(request: Request, benchmark_id: BenchmarkId, res: Res) -> Response:
    """The address and the secrets with which other programs start runs of a benchmark."""
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        stored = queries.list_secrets(session, benchmark_id, PageQuery(MAX_LIMIT)).rows
    address = path_of("benchmarks", benchmark_id)
    name = benchmark.display_name
    response = render_page(
        request,
        "webhook.html",
        title=f"Webhook of {name}",
        nav="/benchmarks",
        api=f"{address}/webhook-secrets",
        has_secrets=True,
        steps=[Crumb("Benchmarks", "/benchmarks"), Crumb(name, address)],
        address=f"{address}/webhook",
        secrets=stored,
        secret=find_secret(request, res.secrets),
        call_url=f"{public_url(request)}/api/v1/webhooks{address}/runs",
    )
    return forget_secret(request, response)


@router.post("/benchmarks/{benchmarkId}/webhook", dependencies=ADMIN)
def create_webhook_secret(request: Request, benchmark_id: BenchmarkId, res: Res) -> Response:
    """Create a secret and show it once; earlier ones stay valid until they are deleted."""
    with res.db.begin() as session:
        created = secrets.create_webhook_secret(session, benchmark_id, res.secrets, res.clock())
    address = path_of("benchmarks", benchmark_id, "webhook")
    return redirect_with_secret(request, address, created.text.reveal(), res.secrets)


@router.post("/benchmarks/{benchmarkId}/webhook/{secretId}/delete", dependencies=ADMIN)
def delete_webhook_secret(benchmark_id: BenchmarkId, secret_id: SecretId, res: Res) -> Response:
    """Delete a secret; it is invalid at once."""
    with res.db.begin() as session:
        secrets.delete_secret(session, benchmark_id, secret_id)
    return see_other(path_of("benchmarks", benchmark_id, "webhook"))


def _new_page() -> FormPage:
    return FormPage(
        form=FORM, title="Store a secret of Langfuse", nav=NAV, steps=STEPS,
        action="/langfuse-secrets", back=NAV, submit="Store",
    )  # fmt: skip
