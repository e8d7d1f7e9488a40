"""Database URLs."""

import pytest

from mosaico.core.db import DatabaseUnavailable
from mosaico.core.engine import BadDatabaseUrl, libpq_url, sqlalchemy_url
from mosaico.core.migrations import require_current_schema, upgrade

NOBODY = "postgresql://user:hunter2hunter2@127.0.0.1:1/none"


@pytest.mark.parametrize("url", ["nonsense", "mysql://u@h/d", "postgresql://h:port/d", ""])
def test_database_url__invalid_url_is_refused(url: str) -> None:
    with pytest.raises(BadDatabaseUrl, match="postgresql://user:password@host/name"):
        sqlalchemy_url(url)


def test_database_url__accepts_both_schemes() -> None:
    assert libpq_url("postgres://u:p@h/d") == "postgresql://u:p@h/d"


def test_database__unreachable_server_is_unavailable_without_showing_the_password() -> None:
    for attempt in (upgrade, require_current_schema):
        with pytest.raises(DatabaseUnavailable, match="correct DATABASE_URL") as raised:
            attempt(NOBODY)
        assert "hunter2" not in str(raised.value)
