"""The limits of docs/access.md with the two roles of docs/security.md: an owner, and the role of the service."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
import pytest
from psycopg import sql

from mosaico.core.db import Database
from mosaico.core.engine import libpq_url
from mosaico.core.errors import Misconfigured
from mosaico.core.migrations import upgrade
from mosaico.core.resources import Resources
from mosaico.core.row_limits import LIMITED_ROLE, has_limits
from mosaico.jobs.process_pool import ProcessPool
from mosaico.startup import require_all_rows
from tests.integration.docs.test_examples import blocks
from tests.support.postgres import drop_database, url_of
from tests.support.service import Service, pair, running_service

PASSWORD = "p4ss-of-a-role-of-a-test"
LIMITS, GRANTS = blocks("docs/access.md", "sql")[-1], blocks("docs/security.md", "sql")[-1]

_numbers = count()


class TwoRoles:
    """A database with an owner, and a role for the service; the role of limited callers is of the server."""

    def __init__(self, superuser_url: str, worker_id: str) -> None:
        number = next(_numbers)
        self.superuser_url = superuser_url
        self.owner, self.app = (f"{name}_{worker_id}_{number}" for name in ("owner", "app"))
        self.database = f"two_roles_{worker_id}_{number}"

    def url(self, role: str) -> str:
        address = urlsplit(url_of(self.superuser_url, self.database))
        netloc = f"{role}:{PASSWORD}@{address.hostname}:{address.port}"
        return urlunsplit(address._replace(netloc=netloc))

    def run(self, statements: str, url: str | None = None) -> None:
        with psycopg.connect(libpq_url(url or self.superuser_url), autocommit=True) as connection:
            for statement in statements.split(";"):
                if statement.strip():
                    connection.execute(statement.replace("mosaico_app", self.app).encode())

    def upgrade(self) -> None:
        upgrade(self.url(self.owner))
        self.run(GRANTS, self.url(self.owner))

    def allow_limits(self) -> None:
        """What docs/access.md says; the server of the tests has had the role from its start."""
        self.run(LIMITS.replace("CREATE ROLE mosaico_limited NOLOGIN;", ""))


@pytest.fixture
def roles(superuser_url: str, worker_id: str) -> Iterator[TwoRoles]:
    both = TwoRoles(superuser_url, worker_id)
    for name in (both.owner, both.app):
        both.run(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    both.run(f"CREATE DATABASE {both.database} OWNER {both.owner}")
    yield both
    drop_database(superuser_url, both.database)
    both.run(f"DROP ROLE {both.owner}; DROP ROLE {both.app}")


@contextmanager
def running(roles: TwoRoles, resources: Resources, pool: ProcessPool) -> Iterator[Service]:
    with (
        Database(roles.url(roles.app), pool_size=5) as db,
        running_service(replace(resources, db=db), pool) as service,
    ):
        yield service


def run_benchmark(service: Service, name: str) -> None:
    """A benchmark of an agent with one run of two traces."""
    service.create_agent(f"agent-{name}", name=f"Agent of {name}")
    service.create_benchmark(
        name, datasetRef=f"file-{name}", evaluates=[f"agent-{name}"], metrics=["ROUGE"]
    )
    service.upload([pair(1), pair(2)], name=f"file-{name}", run_name="r", agentId=f"agent-{name}")
    body = {"benchmarkId": name, "agentId": f"agent-{name}", "runName": "r"}
    run_id = service.post("/benchmark-runs", body)["id"]
    service.work()
    run = service.get(f"/benchmark-runs/{run_id}")
    assert run["status"] == "COMPLETED"


def test_two_roles__serve_everybody_and_limited_keys(
    roles: TwoRoles, service_resources: Resources, metric_pool: ProcessPool
) -> None:
    roles.upgrade()
    with running(roles, service_resources, metric_pool) as service:
        # Without the right to become the limited role everything else works.
        run_benchmark(service, "mine")
        problem = service.expect_problem(
            422, "POST", "/keys", {"name": "x", "role": "run", "only": ["mine"]}
        )
        assert LIMITED_ROLE in problem["errors"][0]["detail"]
        roles.allow_limits()
        run_benchmark(service, "foreign")
        token = service.post("/keys", {"name": "x", "role": "run", "only": ["mine"]})["token"]
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(
            base_url=service.client.base_url, headers=headers, timeout=300.0
        ) as limited:
            line = b'{"traceId": "t", "input": "1", "output": "1"}\n'
            sent = limited.post(
                "/api/v1/local-datasets", content=line,
                params={"name": "file-mine", "runName": "second", "agentId": "agent-mine"},
                headers={"Content-Type": "application/x-ndjson"},
            )  # fmt: skip
            assert sent.status_code == 201, sent.text
            runs = limited.get("/api/v1/benchmark-runs").json()["items"]
        assert [run["benchmarkId"] for run in runs] == ["mine"]
        assert len(service.list_items("/benchmark-runs")) == 2


def test_role_that_inherits_the_limits__is_refused(roles: TwoRoles) -> None:
    roles.upgrade()
    roles.run(f"GRANT {LIMITED_ROLE} TO mosaico_app")
    with Database(roles.url(roles.app), pool_size=1) as db:
        with db.read() as session, pytest.raises(Misconfigured, match="INHERIT FALSE"):
            require_all_rows(session)
        roles.allow_limits()
        with db.read() as session:
            require_all_rows(session)
            assert has_limits(session)


def test_policies__are_installed_when_they_became_possible_after_the_upgrade(
    roles: TwoRoles,
) -> None:
    roles.upgrade()
    owner = roles.url(roles.owner)
    with ExitStack() as stack:
        # As after an upgrade without the role, which all databases of the server share.
        connection = stack.enter_context(psycopg.connect(libpq_url(owner), autocommit=True))
        tables = connection.execute(
            "SELECT tablename FROM pg_policies WHERE policyname = 'visible_rows'"
        ).fetchall()
        for (table,) in tables:
            drop = sql.SQL("DROP POLICY visible_rows ON {}").format(sql.Identifier(table))
            connection.execute(drop)
        roles.allow_limits()
        db = stack.enter_context(Database(roles.url(roles.app), pool_size=1))
        with db.read() as session:
            assert not has_limits(session)
        upgrade(owner)
        with db.read() as session:
            assert has_limits(session)
