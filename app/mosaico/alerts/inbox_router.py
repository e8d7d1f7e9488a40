"""HTTP routes of the inbox: messages with their alerts and deliveries."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from fastapi import Query, Request
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, get_caller
from mosaico.alerts import inbox_view
from mosaico.alerts.own_agents import Mine, choose_agents
from mosaico.alerts.schemas import InboxEntryView
from mosaico.alerts.views import event_views
from mosaico.core.schemas import Identifier, Page
from mosaico.core.web.deps import Res
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.notifications.models import Endpoint
from mosaico.notifications.queries import endpoints_of
from mosaico.notifications.types import MessageSeverity
from mosaico.notifications.views import delivery_view, notification_view

router = Router(prefix="/inbox", tags=["notifications"])


class InboxState(StrEnum):
    """Selection of messages: unread messages, messages with an acknowledged alert, or all."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    ALL = "all"


@router.get("", dependencies=READ)
def list_inbox(
    request: Request,
    page: PageParams,
    res: Res,
    *,
    state: Annotated[InboxState, Query(description="Which messages to list.")] = InboxState.ALL,
    agent_id: Annotated[
        Identifier | None,
        Query(alias="agentId", description="An alert of the message is of this agent."),
    ] = None,
    benchmark_id: Annotated[
        Identifier | None,
        Query(alias="benchmarkId", description="An alert of the message is of this benchmark."),
    ] = None,
    severity: Annotated[MessageSeverity | None, Query(description="Filter by severity.")] = None,
    mine: Mine = False,
) -> Page[InboxEntryView]:
    """List messages with their alerts and deliveries, newest first."""
    inbox_filter = inbox_view.InboxFilter(
        unread=True if state is InboxState.OPEN else None,
        severity=severity or "",
        agent_id=agent_id or "",
        benchmark_id=benchmark_id or "",
        is_acknowledged=state is InboxState.ACKNOWLEDGED,
    )
    with res.db.read() as session:
        chosen = choose_agents(session, get_caller(request), mine=mine)
        inbox_filter = inbox_filter._replace(agent_ids=chosen.ids)
        rows = inbox_view.list_entries(session, page, inbox_filter)
        deliveries = [delivery for entry in rows.rows for delivery in entry.deliveries]
        endpoints = endpoints_of(session, deliveries)
        return rows.to_page(lambda entry: _entry_view(session, entry, endpoints))


def _entry_view(
    session: Session, entry: inbox_view.InboxEntry, endpoints: Mapping[str, Endpoint]
) -> InboxEntryView:
    return InboxEntryView(
        **notification_view(entry.notification).model_dump(),
        alerts=event_views(session, entry.events),
        deliveries=[
            delivery_view(delivery, endpoints[delivery.endpoint_id])
            for delivery in entry.deliveries
            if delivery.endpoint_id in endpoints
        ],
    )
