"""Whether another account gets through to a folder, by the modes of all above it."""

import os
import pwd
from pathlib import Path

import pytest

from mosaico.postgres.errors import DatabaseStartError, WrongOwner, user_name
from mosaico.postgres.programs import ServerAccount, can_enter, server_account

OTHER_ACCOUNT = ServerAccount(uid=54321, gid=54321)


@pytest.fixture
def open_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below one whose parents do not matter."""
    path = tmp_path / "outer" / "inner"
    path.mkdir(parents=True)
    # The temporary folder of pytest is closed to other accounts.
    monkeypatch.setattr(Path, "parents", property(lambda _: [tmp_path / "outer"]))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    # To read a folder (0o744) is not enough: to go through it takes the right to execute.
    ("outer", "enters"),
    [(0o755, True), (0o711, True), (0o700, False), (0o744, False)],
)
def test_can_enter__other_account_needs_execute_on_every_folder(
    open_path: Path, outer: int, enters: bool
) -> None:
    open_path.parent.chmod(outer)
    assert can_enter(open_path, OTHER_ACCOUNT) is enters


def test_can_enter__owner_and_group_use_their_own_permissions(open_path: Path) -> None:
    status = open_path.stat()
    open_path.parent.chmod(0o710)
    open_path.chmod(0o710)
    assert can_enter(open_path, ServerAccount(uid=status.st_uid, gid=54321))
    assert can_enter(open_path, ServerAccount(uid=54321, gid=status.st_gid))
    assert not can_enter(open_path, OTHER_ACCOUNT)


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
    monkeypatch.setattr("mosaico.postgres.programs.PREFERRED", ("no-such-account",))
    with pytest.raises(DatabaseStartError, match="DATABASE_URL"):
        server_account(tmp_path / "data")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of root")
def test_server_account__cluster_owned_by_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongOwner, match="chown"):
        server_account(tmp_path)


def test_user_name__user_without_a_name_is_printed_by_id() -> None:
    assert user_name(4_000_000) == "uid 4000000"
    assert "uid 0" in user_name(0)
