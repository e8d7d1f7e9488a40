"""Whether another account gets through to a folder, by the modes of all above it."""

import os
import pwd
from pathlib import Path

import pytest

from app.postgres.errors import DatabaseStartError, WrongOwner, user_name
from app.postgres.programs import ServerAccount, can_enter, server_account

STRANGER = ServerAccount(uid=54321, gid=54321)


@pytest.fixture
def open_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below one whose parents do not matter."""
    path = tmp_path / "outer" / "inner"
    path.mkdir(parents=True)
    monkeypatch.setattr(Path, "parents", property(lambda _: [tmp_path / "outer"]))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("outer", "enters"), [(0o755, True), (0o711, True), (0o700, False), (0o744, False)]
)
def test_a_stranger_needs_the_right_to_pass_every_folder(
    open_path: Path, outer: int, enters: bool
) -> None:
    open_path.parent.chmod(outer)
    assert can_enter(open_path, STRANGER) is enters


def test_the_owner_and_the_group_pass_by_their_own_rights(open_path: Path) -> None:
    status = open_path.stat()
    open_path.parent.chmod(0o710)
    open_path.chmod(0o710)
    assert can_enter(open_path, ServerAccount(uid=status.st_uid, gid=54321))
    assert can_enter(open_path, ServerAccount(uid=54321, gid=status.st_gid))
    assert not can_enter(open_path, STRANGER)


def test_an_ordinary_user_runs_the_server_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam("nobody").pw_uid)
    assert server_account(tmp_path / "data") is None


def test_a_user_whom_the_system_does_not_know_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs under an arbitrary number."""
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    with pytest.raises(DatabaseStartError, match="useradd --uid 4000000"):
        server_account(tmp_path / "data")


def test_root_hands_the_server_to_an_unprivileged_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    account = server_account(tmp_path / "data")
    assert account is not None
    assert account.uid != 0


def test_root_without_any_such_account_is_told_what_to_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("app.postgres.programs.PREFERRED", ("no-such-account",))
    with pytest.raises(DatabaseStartError, match="DATABASE_URL"):
        server_account(tmp_path / "data")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of root")
def test_a_cluster_that_was_given_to_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongOwner, match="chown"):
        server_account(tmp_path)


def test_a_user_without_a_name_is_shown_by_number() -> None:
    assert user_name(4_000_000) == "uid 4000000"
    assert "uid 0" in user_name(0)
