"""A database for the toy service, and keys to call it with."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import func, select, text

from mosaico.access.models import ApiKey, AuditEntry, IdempotencyKey, Person, RateWindow
from mosaico.access.rules import RoleName
from mosaico.access.service import create_key
from mosaico.core.db import Base, Database
from mosaico.core.resources import Resources
from tests.integration.access.toy_service import (
    BOX,
    POOL_SIZE,
    START,
    TOYS,
    ManualClock,
    ToyClient,
    Workshop,
    toy_app,
)
from tests.support.browser_sessions import open_browser
from tests.support.postgres import cluster, drop_database, make_database
from tests.support.service import Service


@pytest.fixture(scope="session")
def database_url(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    base = tmp_path_factory.getbasetemp()
    name = f"access_{worker_id}"
    with cluster(base if worker_id == "master" else base.parent) as running:
        drop_database(running.url, name)
        url = make_database(running.url, name)
        yield url
        drop_database(running.url, name)


@pytest.fixture(scope="session")
def tables(database_url: str) -> Iterator[Database]:
    db = Database(database_url, pool_size=POOL_SIZE)
    mine = [
        Base.metadata.tables[model.__tablename__]
        for model in (Person, ApiKey, AuditEntry, IdempotencyKey, RateWindow)
    ]
    Base.metadata.create_all(db.engine, tables=mine)
    TOYS.metadata.create_all(db.engine)
    yield db
    db.dispose()


@pytest.fixture
def db(tables: Database) -> Database:
    with tables.begin() as session:
        session.execute(
            text("TRUNCATE people, api_keys, audit_log, idempotency_keys, rate_windows, toys")
        )
    return tables


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def resources(db: Database, clock: ManualClock, tmp_path: Path) -> Resources:
    return Resources(db=db, secrets=BOX, data_dir=tmp_path, clock=clock)


@pytest.fixture
def workshop() -> Workshop:
    return Workshop()


@pytest.fixture
def app(resources: Resources, workshop: Workshop) -> FastAPI:
    return toy_app(resources, workshop)


@pytest.fixture
def create_token(db: Database) -> Callable[..., str]:
    """Creates an API key and returns its text."""

    def create(role: RoleName, *, now: datetime = START, expires_at: datetime | None = None) -> str:
        with db.begin() as session:
            key = create_key(session, f"{role} key", role, now=now, expires_at=expires_at)
        return key.token.reveal()

    return create


@pytest.fixture
def client(app: FastAPI, create_token: Callable[..., str]) -> ToyClient:
    """A client with a key of the role run."""
    return ToyClient(app, create_token("run"))


@pytest.fixture
def toys(db: Database) -> Callable[[], int]:
    """Number of stored toys."""

    def count() -> int:
        with db.read() as session:
            return session.scalar(select(func.count()).select_from(TOYS)) or 0

    return count


@pytest.fixture
def browser(service: Service) -> Iterator[httpx.Client]:
    """A client without a key, which keeps cookies and asks for pages, of a service that listens already."""
    with open_browser(service) as client:
        yield client
