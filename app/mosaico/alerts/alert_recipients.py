"""The recipients of an alert as they were when it was made: rules are edited later, and endpoints deleted."""

from collections.abc import Collection, Iterable

from sqlalchemy.orm import Session

from mosaico.alerts.details import AlertRecipient
from mosaico.alerts.models import AlertEvent
from mosaico.notifications.queries import get_endpoints_by_id


def record_recipients(session: Session, events: Iterable[AlertEvent]) -> None:
    """Store in the details of events whom their `endpoint_ids` name."""
    events = list(events)
    endpoint_ids = {id_ for event in events for id_ in event.endpoint_ids or ()}
    endpoints = get_endpoints_by_id(session, endpoint_ids) if endpoint_ids else {}
    for event in events:
        recipients = tuple(
            AlertRecipient(
                endpoint_id=id_, channel=endpoints[id_].channel, recipient=endpoints[id_].recipient
            )
            for id_ in event.endpoint_ids or ()
            if id_ in endpoints
        )
        event.details = event.details.model_copy(update={"recipients": recipients})


def record_message(event: AlertEvent, notification_id: str, endpoint_ids: Collection[str]) -> None:
    """Store the message by which these endpoints were told of an event."""
    recipients = event.details.recipients
    if recipients is None:
        return
    told = tuple(
        recipient.model_copy(update={"notification_id": notification_id})
        if recipient.endpoint_id in endpoint_ids
        else recipient
        for recipient in recipients
    )
    event.details = event.details.model_copy(update={"recipients": told})


def messages_of(event: AlertEvent) -> list[str]:
    """The IDs of the messages about an event that were sent to somebody, in the order of its recipients; of an event
    of an earlier version that of the inbox.
    """
    if event.details.recipients is None:
        return [event.notification_id] if event.notification_id else []
    sent = (recipient.notification_id for recipient in event.details.recipients)
    return list(dict.fromkeys(message for message in sent if message))
