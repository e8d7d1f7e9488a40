"""What a route may ask for by type."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, TypeAlias

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from app.core.resources import Resources
from app.core.web.sse import EventHub

Witness: TypeAlias = Callable[[Request, Session], None]

READING = frozenset({"GET", "HEAD"})


def resources(request: Request) -> Resources:
    """What this process holds: database, secrets, clock.

    Every transaction of a request that may change something ends with the words of the
    application's witness, so that no route can forget them.
    """
    found: Resources = request.app.state.resources
    witness: Witness | None = getattr(request.app.state, "witness", None)
    if witness is None or request.method in READING:
        return found
    own: Resources | None = getattr(request.state, "resources", None)
    if own is None:
        own = replace(found, db=found.db.witnessed(partial(witness, request)))
        request.state.resources = own
    return own


async def _resources(request: Request) -> Resources:
    """On the event loop: a thread for each question costs more than its answer."""
    return resources(request)


async def event_hub(request: Request) -> EventHub:
    """What wakes the open event streams of this process."""
    hub: EventHub = request.app.state.hub
    return hub


Res = Annotated[Resources, Depends(_resources)]
Hub = Annotated[EventHub, Depends(event_hub)]
