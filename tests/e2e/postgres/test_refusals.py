"""Refused folders and clusters: each error has a remedy, and nothing is changed."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaico.core.errors import AppError
from mosaico.postgres.data_folder import DatabaseFolder, embedded_postgres_dir
from mosaico.postgres.errors import (
    DatabaseStartError,
    DataVersionMismatch,
    DiskFull,
    FolderNotOwned,
    WrongOwner,
)
from mosaico.postgres.launch import Launcher
from mosaico.postgres.programs import PostgresBinaries
from mosaico.postgres.server import EmbeddedPostgres

OTHER_USER_ID = 12345


@pytest.fixture
def folder(data_dir: Path) -> DatabaseFolder:
    return DatabaseFolder(embedded_postgres_dir(data_dir))


def test_own__foreign_folder_is_refused_and_unchanged(
    new_server: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    folder.path.mkdir(parents=True)
    folder.path.chmod(0o755)
    (folder.path / "thesis.txt").write_text("three years")
    with pytest.raises(FolderNotOwned, match="MOSAICO_DATA_DIR"):
        new_server.start()
    assert [path.name for path in folder.path.iterdir()] == ["thesis.txt"]
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o755
    assert not new_server.status().running
    assert not new_server.stop()


def test_own__modes_of_existing_folders_do_not_change(
    new_server: EmbeddedPostgres, data_dir: Path
) -> None:
    data_dir.mkdir()
    data_dir.chmod(0o1777)
    before = _modes(data_dir)
    with new_server.own():
        assert _modes(data_dir) == before


def test_own__created_files_are_private(postgres: EmbeddedPostgres, folder: DatabaseFolder) -> None:
    """Of a cluster that a first start created."""
    assert stat.S_IMODE(folder.cluster.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.log.stat().st_mode) == 0o700
    for role in ("mosaico", "postgres"):
        assert stat.S_IMODE(folder.password_file(role).stat().st_mode) == 0o600
    # Others may pass through the folder, and not list it.
    readable = stat.S_IRWXO & ~stat.S_IXOTH
    assert not folder.path.stat().st_mode & readable


def test_own__data_of_another_postgres_version_is_refused(
    copied_server: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    (folder.cluster / "PG_VERSION").write_text("16\n")
    with pytest.raises(DataVersionMismatch, match=r"Postgres 16.*Postgres 18"):
        copied_server.start()
    assert copied_server.status().owner is None


def test_own__cluster_open_to_other_users_is_refused_and_unchanged(
    copied_server: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    folder.cluster.chmod(0o777)
    with pytest.raises(WrongOwner, match="chmod 700"):
        copied_server.start()
    assert stat.S_IMODE(folder.cluster.stat().st_mode) == 0o777


def test_embedded_postgres__folder_of_another_user_is_refused(
    new_server: EmbeddedPostgres, folder: DatabaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.claim()
    # No machine is sure to have a second user.
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER_ID)
    for refused in _operations(new_server):
        with pytest.raises(
            WrongOwner, match=rf"belongs to .*uid {os.getuid()}.*uid {OTHER_USER_ID}"
        ):
            refused()


def test_own__wrong_password_fails_at_once(
    copied_server: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    copied_server.start()
    folder.password_file("mosaico").write_text("another")
    with pytest.raises(DatabaseStartError, match="refuses the connection"):
        copied_server.start()


def test_own__full_disk_is_refused_before_the_cluster_is_created(
    new_server: EmbeddedPostgres, folder: DatabaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder.path.anchor)._replace(free=2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DiskFull, match="1 MB are free"):
        new_server.start()
    assert not folder.cluster.exists()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("initdb", "initdb: error: could not write file: No space left on device"),
        ("pg_ctl", "FATAL:  could not extend file: Disk quota exceeded"),
    ],
)
def test_launcher__disk_that_fills_up_raises_disk_full(
    folder: DatabaseFolder, tmp_path: Path, program: str, words: str
) -> None:
    folder.claim()
    launcher = Launcher(
        folder=folder,
        binaries=_failing_binaries(tmp_path, program, words),
        account=None,
        durable=False,
    )
    if program == "pg_ctl":
        folder.cluster.mkdir()
    with pytest.raises(DiskFull, match="could not"):
        launcher.start() if program == "pg_ctl" else launcher.create_cluster()
    assert not folder.incomplete_cluster.exists()


def _failing_binaries(tmp_path: Path, program: str, words: str) -> PostgresBinaries:
    """Programs of which one fails with the given words."""
    binaries = PostgresBinaries(site=tmp_path / "fake")
    path = binaries.program(program)
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    path.chmod(0o755)
    return binaries


def _modes(path: Path) -> list[int]:
    return [folder.stat().st_mode for folder in (path, *path.parents)]


def _operations(postgres: EmbeddedPostgres) -> list[Callable[[], object]]:
    return [postgres.own().__enter__, postgres.start, postgres.stop, postgres.status, postgres.url]


def test_postgres_errors__each_kind_has_its_exit_code() -> None:
    # sysexits: 73 EX_CANTCREAT, 75 EX_TEMPFAIL, 77 EX_NOPERM.
    codes: list[tuple[type[AppError], int]] = [
        (FolderNotOwned, 73),
        (DataVersionMismatch, 73),
        (WrongOwner, 77),
        (DiskFull, 75),
    ]
    for error, code in codes:
        assert error.exit_code == code
