"""The peer of A1: an asynchronous service after the documentation of FastAPI and SQLAlchemy."""

import warnings
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from pydantic.warnings import UnsupportedFieldAttributeWarning

from benchmarks.peer_app import PREFIX, Opened, check_key, peer_app
from mosaico.agents.models import Agent
from mosaico.agents.schemas import AgentCreate, AgentView
from mosaico.core.ids import new_id

DEFAULT_LANGFUSE_URL: Final = "https://cloud.langfuse.com"

router = APIRouter(prefix=PREFIX)


@router.post("/agents", status_code=201, response_model=AgentView)
async def create_agent(body: AgentCreate, session: Opened) -> Any:
    agent = Agent(**{"id": new_id(), **body.model_dump(exclude_unset=True)})
    session.add(agent)
    await session.commit()
    await session.refresh(agent)
    columns = {name: getattr(agent, name, None) for name in AgentView.model_fields}
    urls = dict.fromkeys(("langfuse_url", "llangfuse_url"), DEFAULT_LANGFUSE_URL)
    return {**columns, **urls, "secret_set": False}


async def require_key(request: Request, session: Opened) -> None:
    await check_key(request, session)


def orm_app(url: str, driver: str = "psycopg") -> FastAPI:
    """The peer: the same tables and views with routes after the framework's documentation."""
    # FastAPI names each body, which pydantic reports for models that are built when they are used.
    warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)
    return peer_app(url, router, require_key, driver)
