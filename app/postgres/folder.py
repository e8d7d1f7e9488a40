"""The folder of the embedded database: what lies where, and whether it is ours."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.core.secret_files import read_secret_file
from app.postgres.account import check_owner
from app.postgres.binaries import MAJOR
from app.postgres.errors import CannotStart, DiskFull, ForeignFolder, ForeignVersion

MARKER = "MOSAICO"
MARKER_TEXT = "The embedded database of MOSAICO. It is started and stopped by `mosaico db`.\n"
HIGHEST_PORT = 65535
NEEDED_BYTES = 128 * 1024 * 1024  # a new cluster takes 75 to 92 MB


def embedded_postgres_dir(data_dir: Path) -> Path:
    """The folder inside the data folder that belongs to the embedded database."""
    return data_dir.expanduser().resolve() / "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The files of one embedded database."""

    path: Path

    @property
    def cluster(self) -> Path:
        return self.path / "data"

    @property
    def unfinished_cluster(self) -> Path:
        return self.path / "data.new"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def owners(self) -> Path:
        return self.path / "owners"

    @property
    def runtime(self) -> Path:
        return self.path / "runtime"

    @property
    def decision_lock(self) -> Path:
        return self.path / "lock"

    @property
    def server_lock(self) -> Path:
        return self.path / "server.lock"

    @property
    def port_file(self) -> Path:
        return self.path / "port"

    @property
    def detached_mark(self) -> Path:
        return self.path / "detached"

    def password_file(self, role: str) -> Path:
        return self.path / f"{role}.password"

    def is_claimed(self) -> bool:
        """Whether MOSAICO made this folder; raises `WrongOwner` when another user did."""
        if not (self.path / MARKER).is_file():
            return False
        check_owner(self.path)
        return True

    def claim(self) -> None:
        """Make the folder, or make sure that it is ours.

        Raises: `ForeignFolder`, `WrongOwner`. What is refused is left exactly as it was.
        """
        _make(self.path.parent)
        _make(self.path)
        check_owner(self.path)
        if MARKER not in (names := {path.name for path in self.path.iterdir()}):
            if names:
                raise ForeignFolder(
                    f"{self.path} is not empty and was not made by MOSAICO, so it is left alone;"
                    " move it away, or set MOSAICO_DATA_DIR to another folder"
                )
            (self.path / MARKER).write_text(MARKER_TEXT, encoding="utf-8")
        self.owners.mkdir(mode=0o700, exist_ok=True)

    def check_version(self) -> None:
        """Raise `ForeignVersion` unless the cluster fits the programs."""
        written = self.written_version()
        if written != str(MAJOR):
            raise ForeignVersion(
                f"{self.cluster} was written by Postgres {written or 'of unknown version'}, and"
                f" this MOSAICO brings Postgres {MAJOR}; dump it with the MOSAICO that wrote it"
                f" and load the dump here, or move {self.path} away to begin anew"
            )

    def written_version(self) -> str | None:
        """The major version that wrote the cluster; None when there is none."""
        try:
            return (self.cluster / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None

    def check_space(self, free_bytes: Callable[[Path], int]) -> None:
        """Raise `DiskFull` when a new cluster would not fit."""
        free = free_bytes(self.path)
        if free < NEEDED_BYTES:
            raise DiskFull(
                f"the disk of {self.path} is full: {free // 2**20} MB are free, a new database"
                f" needs {NEEDED_BYTES // 2**20} MB; free some space and start again"
            )

    def password(self, role: str) -> str:
        """The password of a database role; raises `CannotStart` when its file is gone."""
        password = read_secret_file(self.password_file(role))
        if not password:
            raise CannotStart(
                f"{self.password_file(role)} is missing, so nobody can log in; restore it from a"
                f" backup, or move {self.path} away to begin anew"
            )
        return password

    def kept_port(self) -> int | None:
        """The port used last time; None at first, or when the file says nothing sensible."""
        try:
            port = int(self.port_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return port if 0 < port <= HIGHEST_PORT else None


def free_bytes(path: Path) -> int:
    """The space that is left on the disk of a folder."""
    return shutil.disk_usage(path).free


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    # Root's server runs as somebody else, who must get through to its own folder.
    path.chmod(0o711 if os.geteuid() == 0 else 0o700)
