"""REST endpoints of the inbox, of endpoints and of deliveries."""

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ, RUN
from mosaico.access.idempotency import Idempotent
from mosaico.core.keyset import PageQuery
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.resources import Resources
from mosaico.core.schemas import Page
from mosaico.core.web.deps import Hub, Res
from mosaico.core.web.event_feeds import EventFeed, EventSnapshot
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.core.web.sse import EventStream, stream_events
from mosaico.notifications import endpoints, inbox, queries, service
from mosaico.notifications.registry import require_target
from mosaico.notifications.schemas import (
    DeliveryRequestView,
    DeliveryView,
    EndpointBody,
    EndpointPatch,
    EndpointSecretRotation,
    EndpointSecretView,
    EndpointView,
    InboxView,
    NotificationView,
    TargetBody,
)
from mosaico.notifications.types import DeliveryTarget, MessageSeverity
from mosaico.notifications.views import (
    delivery_view,
    delivery_views,
    describe_request,
    endpoint_view,
    notification_view,
)

NotificationId = Annotated[str, Path(alias="notificationId")]
EndpointId = Annotated[str, Path(alias="endpointId")]
DeliveryId = Annotated[str, Path(alias="deliveryId")]


inbox_router = Router(prefix="/notifications", tags=["notifications"])
endpoints_router = Router(prefix="/endpoints", tags=["notifications"])
deliveries_router = Router(prefix="/deliveries", tags=["notifications"])


@inbox_router.get("", dependencies=READ)
def list_notifications(
    page: PageParams,
    res: Res,
    unread: Annotated[
        bool | None, Query(description="Filter by read state: true lists unread messages only.")
    ] = None,
    severity: Annotated[list[MessageSeverity], Query(description="Filter by severity.")] = [],  # noqa: B006 - never changed
) -> Page[NotificationView]:
    """List the messages of the inbox, newest first."""
    with res.db.read() as session:
        rows = queries.list_notifications(session, page, unread=unread, severities=severity)
        return rows.to_page(notification_view)


@inbox_router.get("/events", response_class=EventStream, dependencies=READ)
def follow_inbox(request: Request, res: Res, hub: Hub) -> EventStream:
    """Follow the inbox as server-sent events: one event for each new or read message."""

    def read_inbox(_: object) -> dict[str, EventSnapshot]:
        with res.db.read() as session:
            return {inbox.INBOX: EventSnapshot(event="inbox", data=inbox_view(session))}

    return stream_events(request, hub, EventFeed("inbox", read_inbox), inbox.INBOX)


@inbox_router.post("/test", status_code=201, response_model=DeliveryView, dependencies=ADMIN)
def send_test(body: TargetBody, once: Idempotent, res: Res) -> Response:
    """Send a test message to a recipient; the response is its delivery."""
    target = DeliveryTarget(body.channel, body.recipient)
    require_target(target)

    def send(session: Session) -> DeliveryView:
        [endpoint] = endpoints.ensure_endpoints(session, [target], res.secrets)
        notification_id = service.publish_test(session, endpoint)
        of_message = queries.DeliveryFilter(notification_id=notification_id)
        page = queries.list_deliveries(session, PageQuery(), of_message)
        return delivery_views(session, page.rows)[0]

    return once(body, send, location=lambda delivery: f"/api/v1/deliveries/{delivery.id}")


@inbox_router.post("/read-all", dependencies=RUN)
def read_all_notifications(request: Request, res: Res) -> InboxView:
    """Mark all messages as read."""
    # Without the audit of this request: the batches are one action, which the last transaction records.
    resources: Resources = request.app.state.resources
    inbox.mark_all_read(resources.db, res.clock())
    with res.db.begin() as session:
        inbox.announce_inbox(session)
        return inbox_view(session)


@inbox_router.get("/{notificationId}", dependencies=READ)
def get_notification(notification_id: NotificationId, res: Res) -> NotificationView:
    """Show a message."""
    with res.db.read() as session:
        return notification_view(queries.get_notification(session, notification_id))


@inbox_router.post("/{notificationId}/read", dependencies=RUN)
def read_notification(notification_id: NotificationId, res: Res) -> NotificationView:
    """Mark a message as read."""
    with res.db.begin() as session:
        return notification_view(inbox.set_read_at(session, notification_id, res.clock()))


@inbox_router.post("/{notificationId}/unread", dependencies=RUN)
def unread_notification(notification_id: NotificationId, res: Res) -> NotificationView:
    """Mark a message as unread."""
    with res.db.begin() as session:
        return notification_view(inbox.set_read_at(session, notification_id, None))


@endpoints_router.post("", status_code=201, response_model=EndpointView, dependencies=ADMIN)
def save_endpoint(body: EndpointBody, once: Idempotent, res: Res) -> Response:
    """Create an endpoint, or update the one of the same recipient.

    The recipients of alert rules get their endpoints automatically.
    """
    target = DeliveryTarget(body.channel, body.recipient)
    require_target(target)

    def save(session: Session) -> EndpointView:
        return endpoint_view(
            endpoints.save_endpoint(session, target, res.secrets, daily_summary=body.daily_summary)
        )

    return once(body, save)


@endpoints_router.get("", dependencies=READ)
def list_endpoints(
    page: PageParams,
    res: Res,
    endpoint_filter: Annotated[queries.EndpointFilter, Query()],
) -> Page[EndpointView]:
    """List endpoints, newest first."""
    with res.db.read() as session:
        rows = queries.list_endpoints(session, page, endpoint_filter)
        return rows.to_page(endpoint_view)


@endpoints_router.get("/{endpointId}", dependencies=READ)
def get_endpoint(endpoint_id: EndpointId, res: Res) -> EndpointView:
    """Show an endpoint."""
    with res.db.read() as session:
        return endpoint_view(queries.get_endpoint(session, endpoint_id))


@endpoints_router.patch("/{endpointId}", dependencies=ADMIN)
def change_endpoint(endpoint_id: EndpointId, body: EndpointPatch, res: Res) -> EndpointView:
    """Change the given fields."""
    with res.db.begin() as session:
        endpoint = queries.get_endpoint(session, endpoint_id, for_update=True)
        edit = body.compare_with_view(endpoint_view(endpoint))
        return endpoint_view(endpoints.update_endpoint(session, endpoint_id, edit))


@endpoints_router.delete("/{endpointId}", status_code=204, dependencies=ADMIN, responses=CONFLICT)
def delete_endpoint(endpoint_id: EndpointId, res: Res) -> None:
    """Delete an endpoint that no alert rule notifies; messages that wait for it are not sent."""
    with res.db.begin() as session:
        endpoints.delete_endpoint(session, endpoint_id)


@endpoints_router.post("/{endpointId}/enable", dependencies=ADMIN)
def enable_endpoint(endpoint_id: EndpointId, res: Res) -> EndpointView:
    """Enable an endpoint; deliveries that were held are sent first."""
    with res.db.begin() as session:
        return endpoint_view(service.enable_endpoint(session, endpoint_id, res.clock()))


@endpoints_router.post(
    "/{endpointId}/secret", status_code=201, response_model=EndpointSecretView, dependencies=ADMIN
)
def rotate_endpoint_secret(
    endpoint_id: EndpointId, body: EndpointSecretRotation, once: Idempotent, res: Res
) -> Response:
    """Create the secret that signs messages to an endpoint; it is shown only in this response."""

    def rotate(session: Session) -> EndpointSecretView:
        overlap = timedelta(seconds=body.overlap_seconds)
        secret = endpoints.rotate_secret(
            session, endpoint_id, res.secrets, res.clock(), overlap=overlap
        )
        return EndpointSecretView(secret=secret.reveal())

    return once(body, rotate, location=lambda _: f"/api/v1/endpoints/{endpoint_id}")


@deliveries_router.get("", dependencies=READ)
def list_deliveries(
    page: PageParams,
    res: Res,
    delivery_filter: Annotated[queries.DeliveryFilter, Query()],
) -> Page[DeliveryView]:
    """List deliveries, newest first."""
    with res.db.read() as session:
        rows = queries.list_deliveries(session, page, delivery_filter)
        items = delivery_views(session, rows.rows)
        return Page(items=items, next_cursor=rows.next_cursor)


@deliveries_router.get("/{deliveryId}", dependencies=READ)
def get_delivery(delivery_id: DeliveryId, res: Res) -> DeliveryView:
    """Show a delivery."""
    with res.db.read() as session:
        loaded = queries.get_delivery(session, delivery_id)
        return delivery_view(loaded.delivery, loaded.endpoint)


@deliveries_router.get("/{deliveryId}/request", dependencies=READ)
def get_delivery_request(delivery_id: DeliveryId, res: Res) -> DeliveryRequestView:
    """Show what a delivery sends and what the recipient answered, without credentials."""
    with res.db.read() as session:
        loaded = queries.get_delivery(session, delivery_id)
        return describe_request(loaded, res.public_url)


@deliveries_router.post("/{deliveryId}/redeliver", dependencies=RUN, responses=CONFLICT)
def redeliver_message(delivery_id: DeliveryId, res: Res) -> DeliveryView:
    """Send a message again now; its id stays the same."""
    with res.db.begin() as session:
        return delivery_views(session, [service.redeliver(session, delivery_id, res.clock())])[0]


def inbox_view(session: Session) -> InboxView:
    newest_rows = queries.list_notifications(session, PageQuery(limit=1)).rows
    return InboxView(
        unread=queries.count_unread(session),
        newest=notification_view(newest_rows[0]) if newest_rows else None,
    )
