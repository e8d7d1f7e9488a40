"""Dependencies of routes: resources of the process, event hub."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, TypeAlias

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from mosaico.core.resources import Resources
from mosaico.core.web.sse import EventHub

CommitHook: TypeAlias = Callable[[Request, Session], None]

SAFE_METHODS = frozenset({"GET", "HEAD"})


def get_resources(request: Request) -> Resources:
    """The resources of this process: database, secrets, clock and others.

    The application's commit hook (the audit) runs in every transaction of a request that may change
    something, so that no route can forget it.
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
    """Async, so that FastAPI runs it on the event loop: a thread would cost more than the call."""
    return get_resources(request)


async def get_event_hub(request: Request) -> EventHub:
    """The hub of the open event streams of this process."""
    hub: EventHub = request.app.state.hub
    return hub


Res = Annotated[Resources, Depends(_resources)]
Hub = Annotated[EventHub, Depends(get_event_hub)]
