import pytest

from app.core.db import BadDatabaseUrl, DatabaseUnavailable, libpq_url, sqlalchemy_url
from app.core.migrations import require_current_schema, upgrade

NOBODY = "postgresql://user:hunter2hunter2@127.0.0.1:1/none"


@pytest.mark.parametrize("url", ["nonsense", "mysql://u@h/d", "postgresql://h:port/d", ""])
def test_what_is_no_address_of_a_postgres_is_refused(url: str) -> None:
    with pytest.raises(BadDatabaseUrl, match="postgresql://user:password@host/name"):
        sqlalchemy_url(url)


def test_both_spellings_of_the_scheme_are_read() -> None:
    assert libpq_url("postgres://u:p@h/d") == "postgresql://u:p@h/d"


def test_a_server_that_is_not_there_is_unavailable_and_its_password_unsaid() -> None:
    for attempt in (upgrade, require_current_schema):
        with pytest.raises(DatabaseUnavailable, match="correct DATABASE_URL") as raised:
            attempt(NOBODY)
        assert "hunter2" not in str(raised.value)
