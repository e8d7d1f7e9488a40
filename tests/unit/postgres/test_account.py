"""The account that runs the server."""

import os
import pwd
from pathlib import Path

import pytest

from mosaico.postgres.errors import DatabaseStartError, WrongOwner, user_name
from mosaico.postgres.programs import server_account


def test_server_account__ordinary_user_runs_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam("nobody").pw_uid)
    assert server_account(tmp_path / "data") is None


def test_server_account__unknown_user_gets_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs under an arbitrary number."""
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    with pytest.raises(DatabaseStartError, match="useradd --uid 4000000"):
        server_account(tmp_path / "data")


def test_server_account__root_uses_an_unprivileged_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    account = server_account(tmp_path / "data")
    assert account is not None
    # Postgres refuses to run as root.
    assert account.uid != 0


def test_server_account__root_without_such_an_account_gets_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("mosaico.postgres.programs.PREFERRED_ACCOUNTS", ("no-such-account",))
    with pytest.raises(DatabaseStartError, match="DATABASE_URL"):
        server_account(tmp_path / "data")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of root")
def test_server_account__cluster_owned_by_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongOwner, match="chown"):
        server_account(tmp_path)


def test_user_name__user_without_a_name_is_printed_by_id() -> None:
    assert user_name(4_000_000) == "uid 4000000"
    assert "uid 0" in user_name(0)
