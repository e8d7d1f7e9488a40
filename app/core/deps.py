"""What a route may ask for by type."""

from typing import Annotated

from fastapi import Depends, Request

from app.core.resources import Resources
from app.core.sse import EventHub


def resources(request: Request) -> Resources:
    """What this process holds: database, secrets, clock."""
    found: Resources = request.app.state.resources
    return found


def event_hub(request: Request) -> EventHub:
    """What wakes the open event streams of this process."""
    hub: EventHub = request.app.state.hub
    return hub


Res = Annotated[Resources, Depends(resources)]
Hub = Annotated[EventHub, Depends(event_hub)]
