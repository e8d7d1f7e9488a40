"""The map of addresses: one line per router."""

from fastapi import APIRouter, FastAPI

from app.core.problems import PROBLEMS

PREFIX = "/api/v1"


def include(app: FastAPI) -> None:
    """Add every router below `/api/v1`; each documents its problems."""
    v1 = APIRouter(prefix=PREFIX, responses=PROBLEMS)
    app.include_router(v1)
