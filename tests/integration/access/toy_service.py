"""A toy service behind the real access checks, and a client that calls it in the process."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import anyio
import anyio.to_thread
import httpx
from fastapi import APIRouter, FastAPI, Query, Response
from pydantic import SecretStr
from sqlalchemy import Column, MetaData, Table, Text, insert
from sqlalchemy.orm import Session
from starlette.types import ASGIApp

from mosaico.access.authentication import AuthenticationMiddleware
from mosaico.access.deps import ADMIN, READ, RUN
from mosaico.access.idempotency import Idempotent
from mosaico.access.router import router as api_keys
from mosaico.core import problem_documents
from mosaico.core.encryption import SecretBox
from mosaico.core.errors import Conflict
from mosaico.core.resources import Resources
from mosaico.core.schemas import WireModel

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
BOX = SecretBox.from_keys([base64.b64encode(bytes(range(32))).decode()])
POOL_SIZE = 10

TOYS = Table("toys", MetaData(), Column("id", Text, primary_key=True), Column("name", Text))


class ToyCreate(WireModel):
    name: str
    secret: SecretStr | None = None


class ToyView(WireModel):
    id: str
    name: str


@dataclass
class ManualClock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **time: float) -> None:
        self.now += timedelta(**time)


@dataclass
class Workshop:
    """Creates toys; a test can set an action that runs before the creation ends."""

    before_it_ends: Callable[[Session], None] = lambda _session: None
    calls: int = 0

    def make(self, session: Session, name: str) -> ToyView:
        self.calls += 1
        toy_id = f"toy-{self.calls}"
        session.execute(insert(TOYS).values(id=toy_id, name=name))
        self.before_it_ends(session)
        if name == "broken":
            raise Conflict("this toy cannot be made; make another one")
        return ToyView(id=toy_id, name=name)


def toy_app(resources: Resources, workshop: Workshop) -> FastAPI:
    router = APIRouter(prefix="/toys", dependencies=READ)

    @router.get("")
    def list_toys() -> list[str]:
        return []

    @router.post("", response_model=ToyView, dependencies=RUN)
    def make_toy(
        body: ToyCreate, once: Idempotent, colour: Annotated[str | None, Query()] = None
    ) -> Response:
        return once(body, lambda session: workshop.make(session, body.name))

    @router.post("/{toy_id}/copies", dependencies=RUN)
    def copy_toy(toy_id: str, once: Idempotent) -> Response:
        return once(
            None,
            lambda session: workshop.make(session, f"copy of {toy_id}"),
            location=lambda toy: f"/toys/{toy.id}",
        )

    @router.delete("/{toy_id}", status_code=204, dependencies=ADMIN)
    def break_toy(toy_id: str) -> None:
        return None

    app = FastAPI()
    app.add_middleware(
        AuthenticationMiddleware, requires_key=lambda scope: scope["path"] != "/careless"
    )
    app.state.resources = resources
    app.include_router(router)
    api_keys.add_to(app.router)
    problem_documents.install(app)

    @app.post("/careless")
    def careless(once: Idempotent) -> Response:
        return once(None, lambda session: workshop.make(session, "careless"))

    return app


class ApiCall(NamedTuple):
    method: str
    path: str
    options: Mapping[str, Any]


@dataclass
class ToyClient:
    app: ASGIApp
    token: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.all_at_once([ApiCall("GET", path, options)])[0]

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.all_at_once([ApiCall("POST", path, options)])[0]

    def patch(self, path: str, **options: Any) -> httpx.Response:
        return self.all_at_once([ApiCall("PATCH", path, options)])[0]

    def delete(self, path: str, **options: Any) -> httpx.Response:
        return self.all_at_once([ApiCall("DELETE", path, options)])[0]

    def all_at_once(self, calls: Sequence[ApiCall]) -> list[httpx.Response]:
        return anyio.run(self._send, calls)

    async def _send(self, calls: Sequence[ApiCall]) -> list[httpx.Response]:
        # As in the real service as many threads as connections: others would only wait for one.
        anyio.to_thread.current_default_thread_limiter().total_tokens = POOL_SIZE
        answers: dict[int, httpx.Response] = {}
        headers = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://toys", headers=headers
        ) as client:

            async def send(number: int, call: ApiCall) -> None:
                answers[number] = await client.request(call.method, call.path, **call.options)

            async with anyio.create_task_group() as group:
                for number, call in enumerate(calls):
                    group.start_soon(send, number, call)
        return [answers[number] for number in range(len(calls))]
