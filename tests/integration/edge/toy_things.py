"""A small resource with every kind of field, below the real layers of the application."""

import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query
from fastapi.responses import StreamingResponse
from starlette.requests import Request

from mosaico.access.authentication import AuthenticationMiddleware
from mosaico.api import PREFIX
from mosaico.core.db import Database, DatabaseUnavailable
from mosaico.core.encryption import SecretBox
from mosaico.core.errors import Conflict, ErrorItem, Invalid
from mosaico.core.problem_documents import PROBLEMS
from mosaico.core.resources import Resources
from mosaico.core.schemas import Identifier, JsonObject, Page, ShortText, WireModel
from mosaico.core.web.deps import Hub
from mosaico.core.web.event_feeds import EventFeed, EventSnapshot, StreamOwner
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.sse import stream_events
from mosaico.main import create_app

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
THINGS = f"{PREFIX}/things"


class ThingPart(WireModel):
    part_count: int


class Thing(WireModel):
    id: Identifier | None = None
    name: ShortText
    text: str = ""
    share: float | None = None
    parts: tuple[ThingPart, ...] = ()
    extras: JsonObject | None = None


class ThingStore:
    """What was stored, and how often a snapshot was taken. `before_snapshot` runs first."""

    def __init__(self) -> None:
        self.before_snapshot: Callable[[], object] = lambda: None
        self.things: list[Thing] = []
        self.snapshots: list[EventSnapshot | None] = []
        self.taken = 0

    def read(self, keys: Sequence[str]) -> dict[str, EventSnapshot]:
        snapshot = self.snapshot()
        return {} if snapshot is None else dict.fromkeys(keys, snapshot)

    def snapshot(self) -> EventSnapshot | None:
        self.before_snapshot()
        self.taken += 1
        if self.snapshots:
            return self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]
        return EventSnapshot(event="progress", data={"things": len(self.things)})


class ToyOwners:
    """Streams belong to the name in the header `X-Owner`.

    `errors` are raised by the next checks, one by each; `checked` is set when a check has ended.
    """

    def __init__(self) -> None:
        self.unusable: set[str] = set()
        self.errors: list[Exception] = []
        self.checked = threading.Event()

    def owner_of(self, request: Request) -> StreamOwner:
        return StreamOwner(request.headers.get("X-Owner", "anybody"))

    def find_unusable(self, owners: AbstractSet[StreamOwner]) -> AbstractSet[StreamOwner]:
        if self.errors:
            raise self.errors.pop()
        unusable = {owner for owner in owners if owner.key_id in self.unusable}
        self.checked.set()
        return unusable


def toy_router(thing_store: ThingStore) -> APIRouter:
    router = APIRouter(prefix=THINGS, responses=PROBLEMS)

    @router.post("", status_code=201)
    def create_thing(body: Thing) -> Thing:
        thing_store.things.append(body)
        return body

    @router.get("")
    def list_things(
        page: PageParams,
        states: Annotated[list[Literal["on", "off"]] | None, Query()] = None,
        share: float | None = None,
    ) -> Page[Thing]:
        return Page[Thing](items=thing_store.things[: page.limit])

    @router.put("/{thing_id}")
    def replace_thing(thing_id: Identifier, body: Thing) -> Thing:
        return body.model_copy(update={"id": thing_id})

    @router.get("/{thing_id}/broken")
    def break_down(thing_id: str) -> None:
        raise RuntimeError(f"password=hunter2hunter2 of {thing_id}")

    @router.get("/{thing_id}/conflict")
    def refuse(thing_id: str) -> None:
        raise Conflict("It is in use; free it first.", usedBy=["run-1"], headers={"X-Why": "use"})

    @router.get("/{thing_id}/formula")
    def point_out(thing_id: str) -> None:
        raise Invalid(errors=[ErrorItem(pointer="/formula", detail="ends here", span=(3, 5))])

    @router.get("/{thing_id}/away")
    def lose_database(thing_id: str) -> None:
        raise DatabaseUnavailable

    @router.get("/{thing_id}/events")
    def follow(thing_id: str, request: Request, hub: Hub) -> StreamingResponse:
        return stream_events(request, hub, EventFeed("thing", thing_store.read), thing_id)

    @router.get("/any/json")
    def any_json() -> Any:
        return {"ok": True}

    return router


def toy_app(url: str, thing_store: ThingStore) -> FastAPI:
    box = SecretBox.from_keys([b64encode(bytes(range(32))).decode()])
    app = create_app(Resources(db=Database(url), secrets=box, data_dir=Path("/nonexistent")))
    app.state.hub.owners = ToyOwners()
    # The toy routes are public, and there is no database to look keys up in.
    app.user_middleware = [
        middleware
        for middleware in app.user_middleware
        if getattr(middleware, "cls", None) is not AuthenticationMiddleware
    ]
    app.include_router(toy_router(thing_store))
    return app
