"""What a route may ask for by type."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, TypeAlias

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from app.core.resources import Resources
from app.core.web.sse import EventHub

CommitHook: TypeAlias = Callable[[Request, Session], None]

SAFE_METHODS = frozenset({"GET", "HEAD"})


def get_resources(request: Request) -> Resources:
    """What this process holds: database, secrets, clock.

    Every transaction of a request that may change something ends with the words of the
    application's witness, so that no route can forget them.
    """
    resources: Resources = request.app.state.resources
    commit_hook: CommitHook | None = getattr(request.app.state, "commit_hook", None)
    if commit_hook is None or request.method in SAFE_METHODS:
        return resources
    hooked: Resources | None = getattr(request.state, "resources", None)
    if hooked is None:
        hooked = replace(resources, db=resources.db.with_commit_hook(partial(commit_hook, request)))
        request.state.resources = hooked
    return hooked


async def _resources(request: Request) -> Resources:
    """On the event loop: a thread for each question costs more than its answer."""
    return get_resources(request)


async def get_event_hub(request: Request) -> EventHub:
    """What wakes the open event streams of this process."""
    hub: EventHub = request.app.state.hub
    return hub


Res = Annotated[Resources, Depends(_resources)]
Hub = Annotated[EventHub, Depends(get_event_hub)]
