"""Health checks: `/healthz` (the process runs) and `/readyz` (the database answers)."""

from typing import Any, Literal

import anyio
import anyio.to_thread
from fastapi import Request

from mosaico.core.db import Database, DatabaseUnavailable
from mosaico.core.problem_documents import PROBLEMS
from mosaico.core.schemas import WireModel
from mosaico.core.web.routes import Router

READY_TIMEOUT_S = 2.0


class Health(WireModel):
    """Result of a health check; a failed check is a problem document."""

    status: Literal["ok"] = "ok"


class HealthProbe:
    """A connection and a thread reserved for health checks and `/metrics`.

    A busy connection pool or busy threads must not make the service look dead.
    """

    def __init__(self, db: Database, *, within_s: float = READY_TIMEOUT_S) -> None:
        self.db = db.open_second_pool("mosaico-probe")
        self._within_s = within_s
        self._limiter = anyio.CapacityLimiter(1)

    async def check(self) -> None:
        """Raise `DatabaseUnavailable` unless the database answers in time."""
        with anyio.move_on_after(self._within_s):
            await anyio.to_thread.run_sync(
                self.db.ping, abandon_on_cancel=True, limiter=self._limiter
            )
            return
        raise DatabaseUnavailable(
            f"the database did not answer within {self._within_s:g} s; try again in a few seconds"
        )

    def close(self) -> None:
        self.db.dispose()


router = Router(tags=["service"])


UNREADY: dict[int | str, dict[str, Any]] = {503: PROBLEMS[503]}


@router.get("/healthz")
async def is_alive() -> Health:
    """Respond with 200 while the process runs."""
    return Health()


@router.get("/readyz", responses=UNREADY)
async def is_ready(request: Request) -> Health:
    """Respond within two seconds: 200 when the database answers, else 503."""
    # Not a dependency: FastAPI runs synchronous ones in the shared threads, which may be busy.
    probe: HealthProbe = request.app.state.probe
    await probe.check()
    return Health()
