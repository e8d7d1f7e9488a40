"""Database roles with fewer privileges than the owner."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.integration.docs.test_examples import blocks
from tests.support.postgres import url_of

PASSWORD = "p4ss-of-a-role-of-a-test"

RoleWith = Callable[[str], str]

_numbers = count()


@pytest.fixture
def role_with(superuser_url: str, fresh_database_url: str, worker_id: str) -> Iterator[RoleWith]:
    """Creates a role with the given attributes and returns the URL of the test database for it."""
    database = urlsplit(fresh_database_url).path.lstrip("/")
    here = url_of(superuser_url, database)
    with ExitStack() as roles:

        def make(attributes: str) -> str:
            name = f"role_{worker_id}_{next(_numbers)}"
            roles.enter_context(_role(here, name, attributes))
            address = urlsplit(fresh_database_url)
            netloc = f"{name}:{PASSWORD}@{address.hostname}:{address.port}"
            return urlunsplit(address._replace(netloc=netloc))

        yield make


@pytest.fixture
def restricted_url(role_with: RoleWith, superuser_url: str) -> str:
    """The role that the documentation describes, on the database of the test."""
    url = role_with("")
    address = urlsplit(url)
    grants = blocks("docs/security.md", "sql")[-1].replace("mosaico_app", str(address.username))
    here = url_of(superuser_url, address.path.lstrip("/"))
    with psycopg.connect(here, autocommit=True) as connection:
        connection.execute(grants.encode())
    return url


@contextmanager
def _role(url: str, name: str, attributes: str) -> Iterator[None]:
    role = sql.Identifier(name)
    make = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} " + attributes)
    _run(url, make.format(role, sql.Literal(PASSWORD)))
    try:
        yield
    finally:
        _run(url, sql.SQL("DROP OWNED BY {}").format(role))
        _run(url, sql.SQL("DROP ROLE {}").format(role))


def _run(url: str, statement: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
