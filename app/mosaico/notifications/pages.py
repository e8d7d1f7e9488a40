"""Pages of endpoints: whether messages arrive, a test message, and what recipients answered."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ, RUN
from mosaico.access.one_time_secrets import find_secret, forget_secret, redirect_with_secret
from mosaico.core.defaults import MAX_SECRET_OVERLAP_S
from mosaico.core.errors import Invalid
from mosaico.core.keyset import PageQuery, find_whole_list
from mosaico.core.text import cut_middle
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.form_page import FormPage, show_form, submit_form
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.rendering import FieldInput, SchemaForm
from mosaico.core.web.forms.sent_fields import SentForm, check_form, local_path
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, list_in_api, render_page, see_other
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.notifications import endpoints, queries, service
from mosaico.notifications.models import Delivery
from mosaico.notifications.queries import DeliveryFilter, EndpointFilter
from mosaico.notifications.registry import CHANNELS, require_target
from mosaico.notifications.rules import DeliveryStatus
from mosaico.notifications.schemas import (
    DAY_S,
    EndpointBody,
    EndpointPatch,
    EndpointSecretRotation,
)
from mosaico.notifications.types import DeliveryTarget
from mosaico.notifications.views import describe_request

router = Router()

NAV = "/endpoints"
STEPS = (Crumb("Endpoints", NAV),)
SHOWN_DELIVERIES = 30
MAX_BODY_CHARS = 20_000
# The button of the form that also sends a test message.
TEST = "test"
OVERLAPS = ((0, "ends now"), (3600, "signs for 1 h"), (DAY_S, "signs for a day"), (7 * DAY_S, "signs for 7 days"), (30 * DAY_S, "signs for 30 days"))  # fmt: skip

FORM = SchemaForm(
    create=EndpointBody,
    main=("channel", "recipient", "dailySummary"),
    inputs={
        "recipient": FieldInput(
            help="An e-mail address, or the URL of a webhook. It is stored encrypted and shown redacted."
        ),
        "dailySummary": FieldInput(help="Send the daily summary to this endpoint."),
    },
)

EndpointFilters = Annotated[
    SentFilters[EndpointFilter], Depends(PageFilters(EndpointFilter, "channel disabled"))
]
DeliveryFilters = Annotated[
    SentFilters[DeliveryFilter], Depends(PageFilters(DeliveryFilter, "status endpoint"))
]
EndpointId = Annotated[str, Path(alias="endpointId")]


@router.get("/endpoints", dependencies=READ)
def show_endpoints(
    request: Request, res: Res, query: ListQuery, filters: EndpointFilters
) -> Response:
    """The endpoints with their state."""
    with res.db.read() as session:
        page = queries.list_endpoints(session, query, filters.of_list)
    return render_page(
        request,
        "endpoints.html",
        title="Endpoints",
        nav=NAV,
        api=list_in_api(request, "/endpoints", **filters.in_api),
        filters=filters.fields,
        endpoints=page.rows,
        next_cursor=page.next_cursor,
    )


@router.get("/endpoints/{endpointId}", dependencies=READ)
def show_endpoint(request: Request, endpoint_id: EndpointId, res: Res) -> Response:
    """Show one endpoint: its state, and the responses to its last messages."""
    with res.db.read() as session:
        endpoint = queries.get_endpoint(session, endpoint_id)
        of_endpoint = DeliveryFilter(endpoint_id=endpoint_id)
        page = queries.list_deliveries(session, PageQuery(SHOWN_DELIVERIES), of_endpoint)
        deliveries = _list_rows(session, page.rows)
        all_deliveries = find_whole_list(
            session,
            page,
            build_url("/deliveries", endpoint=endpoint_id),
            Delivery.endpoint_id,
            endpoint_id,
        )
    channel = CHANNELS.find(endpoint.channel)
    response = render_page(
        request,
        "endpoint.html",
        title=f"{endpoint.channel.capitalize()} {endpoint.recipient}",
        nav=NAV,
        api=path_of("endpoints", endpoint_id),
        api_parts={
            "deliveries": build_url("/deliveries", endpointId=endpoint_id, limit=SHOWN_DELIVERIES)
        },
        has_secrets=True,
        steps=STEPS,
        endpoint=endpoint,
        **{**deliveries, "endpoints": {}},
        all_deliveries=all_deliveries,
        is_signed=channel is not None and channel.signed,
        secret=find_secret(request, res.secrets),
        overlaps=OVERLAPS,
        day=DAY_S,
    )
    return forget_secret(request, response)


@router.get("/new/endpoint", dependencies=ADMIN)
def show_new_endpoint(request: Request) -> Response:
    """The form of a new endpoint."""
    return show_form(request, _new_page())


@router.post("/endpoints", dependencies=ADMIN)
def save_endpoint(request: Request, form: SentForm, res: Res) -> Response:
    """Create an endpoint, or change the one of the same recipient, and show it; if asked, with what it answers to a test."""

    def save(body: EndpointBody) -> str:
        target = DeliveryTarget(body.channel, body.recipient)
        require_target(target)
        with res.db.begin() as session:
            endpoint = endpoints.save_endpoint(
                session, target, res.secrets, daily_summary=body.daily_summary
            )
            if form.text(TEST):
                service.publish_test(session, endpoint)
            request.state.created = address = path_of("endpoints", endpoint.id)
        return address

    return submit_form(request, form, _new_page, save)


@router.post("/endpoints/{endpointId}/test", dependencies=ADMIN)
def send_test(endpoint_id: EndpointId, res: Res) -> Response:
    """Send a test message and show what the recipient answers."""
    with res.db.begin() as session:
        service.publish_test(session, queries.get_endpoint(session, endpoint_id))
    return _back(endpoint_id)


@router.post("/endpoints/{endpointId}/daily-summary", dependencies=ADMIN)
def change_endpoint(endpoint_id: EndpointId, form: SentForm, res: Res) -> Response:
    """Send the daily summary to an endpoint, or no longer."""
    body = EndpointPatch(daily_summary=form.text("dailySummary") == "true")
    with res.db.begin() as session:
        endpoints.update_endpoint(session, endpoint_id, body)
    return _back(endpoint_id)


@router.post("/endpoints/{endpointId}/enable", dependencies=ADMIN)
def enable_endpoint(endpoint_id: EndpointId, res: Res) -> Response:
    """Enable an endpoint; deliveries that were held are sent first."""
    with res.db.begin() as session:
        service.enable_endpoint(session, endpoint_id, res.clock())
    return _back(endpoint_id)


@router.post("/endpoints/{endpointId}/delete", dependencies=ADMIN)
def delete_endpoint(endpoint_id: EndpointId, res: Res) -> Response:
    """Delete an endpoint that no alert rule notifies."""
    with res.db.begin() as session:
        endpoints.delete_endpoint(session, endpoint_id)
    return see_other(NAV)


@router.post("/endpoints/{endpointId}/secret", dependencies=ADMIN)
def rotate_endpoint_secret(
    request: Request, endpoint_id: EndpointId, form: SentForm, res: Res
) -> Response:
    """Create the secret that signs messages and show it once; the previous secret signs for the
    chosen time.
    """
    overlap = form.text("overlapSeconds", str(DAY_S))
    document = {"overlapSeconds": int(overlap[:9]) if overlap.isdecimal() else overlap}
    rotation = check_form(EndpointSecretRotation, document).body
    if rotation is None:
        raise Invalid(
            "the validity of the previous secret must be a number of seconds, at most"
            f" {MAX_SECRET_OVERLAP_S // DAY_S} days"
        )
    with res.db.begin() as session:
        secret = endpoints.rotate_secret(
            session,
            endpoint_id,
            res.secrets,
            res.clock(),
            overlap=timedelta(seconds=rotation.overlap_seconds),
        )
    path = path_of("endpoints", endpoint_id)
    return redirect_with_secret(request, path, secret.reveal(), res.secrets)


@router.get("/deliveries", dependencies=READ)
def show_deliveries(
    request: Request, res: Res, query: ListQuery, filters: DeliveryFilters
) -> Response:
    """The deliveries to all endpoints, newest first."""
    with res.db.read() as session:
        page = queries.list_deliveries(session, query, filters.of_list)
        deliveries = _list_rows(session, page.rows)
    return render_page(
        request,
        "deliveries.html",
        title="Deliveries",
        nav=NAV,
        api=list_in_api(request, "/deliveries", **filters.in_api),
        has_secrets=True,
        filters=filters.fields,
        **deliveries,
        next_cursor=page.next_cursor,
    )


@router.get("/deliveries/{deliveryId}", dependencies=READ)
def show_delivery(
    request: Request, delivery_id: Annotated[str, Path(alias="deliveryId")], res: Res
) -> Response:
    """Show one delivery: the request, and the response of the recipient."""
    with res.db.read() as session:
        loaded = queries.get_delivery(session, delivery_id)
        exchange = describe_request(loaded, res.public_url)
    delivery, notification, endpoint = loaded
    address = path_of("endpoints", endpoint.id)
    return render_page(
        request,
        "delivery.html",
        title=notification.title,
        nav=NAV,
        api=f"/deliveries{path_of(delivery_id)}/request",
        api_parts={"delivery": path_of("deliveries", delivery_id)},
        has_secrets=True,
        steps=[*STEPS, Crumb(endpoint.recipient, address)],
        delivery=delivery,
        endpoint=endpoint,
        exchange=exchange,
        body=cut_middle(exchange.body, MAX_BODY_CHARS) if exchange.body else None,
        is_pending=delivery.status == DeliveryStatus.PENDING,
    )


@router.post("/deliveries/{deliveryId}/redeliver", dependencies=RUN)
def redeliver_message(
    delivery_id: Annotated[str, Path(alias="deliveryId")], form: SentForm, res: Res
) -> Response:
    """Send a message again now, and redirect to the previous page."""
    with res.db.begin() as session:
        endpoint_id = service.redeliver(session, delivery_id, res.clock()).endpoint_id
    address = form.text("next") or path_of("endpoints", endpoint_id)
    return see_other(local_path(address))


def _list_rows(session: Session, deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """What the rows of deliveries show, and which of them can be sent again."""
    endpoints = queries.endpoints_of(session, deliveries)
    return {
        "deliveries": deliveries,
        "titles": queries.list_titles(session, deliveries),
        "endpoints": endpoints,
        "is_pending": any(delivery.status == DeliveryStatus.PENDING for delivery in deliveries),
        "resendable": {
            delivery.id
            for delivery in deliveries
            if delivery.status != DeliveryStatus.PENDING
            and delivery.endpoint_id in endpoints
            and endpoints[delivery.endpoint_id].disabled_at is None
        },
    }


def _new_page() -> FormPage:
    channels = [(name, name.capitalize()) for name in CHANNELS.names()]
    values: Mapping[str, Any] = {"channel": "EMAIL"}
    return FormPage(
        form=FORM, title="New endpoint", nav=NAV, steps=STEPS, action=NAV, back=NAV, submit="Create",
        submit_too=(TEST, "Create and send a test message"),
        values=values, choices={"channel": channels},
    )  # fmt: skip


def _back(endpoint_id: str) -> Response:
    return see_other(path_of("endpoints", endpoint_id))
