"""A machine that loses its power: of the database only what Postgres had synchronized to the disk is left.

SIGKILL alone keeps what a process wrote: it is in the memory of the kernel. Here it is taken away. The files of the
database go back to its last checkpoint, and the write-ahead log ends at the last position that Postgres
reports as flushed. What is not shown: a page that was written by half (`full_page_writes` is for that), and a disk that
says "synchronized" before it is true.
"""

import shutil
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

from mosaico.postgres.data_folder import DatabaseFolder, embedded_postgres_dir
from tests.support.processes import children_of
from tests.support.serve import ServiceProcesses, lose_power, postmaster_pid, send_to_all

CHECKPOINT = "SELECT checkpoint_lsn::text FROM pg_control_checkpoint()"
FLUSHED = "SELECT file_name, file_offset FROM pg_walfile_name_offset(pg_current_wal_flush_lsn())"
# Postgres synchronizes it with each change, as the end of the log.
CONTROL_FILE = "global/pg_control"


class SyncedFiles(NamedTuple):
    """A copy of the files of the database as they were at a checkpoint."""

    folder: Path
    checkpoint: str


def restart_with_synced_files(service_processes: ServiceProcesses) -> SyncedFiles:
    """Stop the service in order, which ends with a checkpoint, copy its files, and start it again."""
    service_processes.serve.send(signal.SIGTERM)
    assert service_processes.serve.wait_for_exit() == 0, service_processes.serve.log
    folder = service_processes.programs.folder / "synced"
    _copy(_cluster(service_processes), folder)
    service_processes.restart()
    return SyncedFiles(folder, service_processes.deployment.database.value(CHECKPOINT))


def lose_unsynced_files(service_processes: ServiceProcesses, synced: SyncedFiles) -> None:
    """Kill everything at once, and leave only what was synchronized. Uses up `synced`."""
    database = service_processes.deployment.database
    cluster = _cluster(service_processes)
    postmaster = postmaster_pid(service_processes)
    sessions = [postmaster, *children_of(postmaster)]
    # First, so that nobody acts on a commit after the position of the log was read.
    service = set(service_processes.processes()) - {*sessions}
    send_to_all(service, signal.SIGSTOP)
    [(last_segment, flushed_bytes)] = database.all(FLUSHED)
    assert database.value(CHECKPOINT) == synced.checkpoint, "a checkpoint came in between"
    lose_power(service_processes)

    shutil.rmtree(synced.folder / "pg_wal")
    _copy(cluster / "pg_wal", synced.folder / "pg_wal")
    _copy(cluster / CONTROL_FILE, synced.folder / CONTROL_FILE)
    _end_log(synced.folder / "pg_wal", last_segment, flushed_bytes)
    shutil.rmtree(cluster)
    synced.folder.rename(cluster)


def _end_log(folder: Path, last_segment: str, flushed_bytes: int) -> None:
    """Remove what is behind the last flushed byte of the write-ahead log."""
    for segment in folder.iterdir():
        if len(segment.name) == len(last_segment) and segment.name > last_segment:
            segment.unlink()
    with (folder / last_segment).open("r+b") as log:
        size = log.seek(0, 2)
        log.truncate(flushed_bytes)
        log.truncate(size)  # with zeros


def _cluster(service_processes: ServiceProcesses) -> Path:
    return DatabaseFolder(embedded_postgres_dir(service_processes.data_dir)).cluster


def _copy(source: Path, target: Path) -> None:
    """Copy with the owner, which may be another user than that of the tests."""
    subprocess.run(["cp", "-aT", source, target], check=True)
