"""The oldest supported Postgres version; the other tests use the newest."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.backups.archive import open_backup
from mosaico.backups.restore import restore_backup
from mosaico.backups.snapshot import write_backup
from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.migrations import upgrade
from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from mosaico.postgres.programs import LIBRARIES, PACKAGE, packaged_binaries, run_as, server_account
from mosaico.table_list import METADATA
from tests.support.postgres import make_database
from tests.support.service import Service, pair, running_service

PROGRAMS = packaged_binaries().site / PACKAGE / "pginstall"


@pytest.fixture(scope="module")
def postgres_16() -> Iterator[str]:
    """The URL of a server that is thrown away."""
    folder = Path(tempfile.mkdtemp(prefix="mosaico-16-"))
    account = server_account(folder / "cluster")
    folder.chmod(0o755)
    # The account of the server may not read the environment of the tests.
    shutil.copytree(PROGRAMS, folder / PACKAGE / "pginstall", symlinks=True)
    if (PROGRAMS.parent.parent / LIBRARIES).is_dir():
        shutil.copytree(PROGRAMS.parent.parent / LIBRARIES, folder / LIBRARIES)
    programs, cluster = folder / PACKAGE / "pginstall" / "bin", folder / "cluster"
    cluster.mkdir(mode=0o700)
    if account:
        account.take_ownership(cluster)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = f"-p {port} -h 127.0.0.1 -k '' -c fsync=off"
    start: list[str | Path] = ["-D", cluster, "-w", "-l", cluster / "log", "-o", options, "start"]
    commands: list[list[str | Path]] = [
        [programs / "initdb", "-D", cluster, "-U", "postgres", "--auth=trust", "--encoding=UTF8"],
        [programs / "pg_ctl", *start],
    ]
    for command in commands:
        done = run_as(account, command, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
    yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    run_as(account, [programs / "pg_ctl", "-D", cluster, "-m", "immediate", "stop"], cwd=folder)
    shutil.rmtree(folder)


@pytest.mark.skipif(not PROGRAMS.is_dir(), reason="the package has no Postgres 16 here")
def test_postgres_16__run_completes(
    postgres_16: str, tmp_path: Path, metric_pool: ProcessPool, plugins: None
) -> None:
    upgrade(postgres_16)
    db = Database(postgres_16, pool_size=5)
    box = SecretBox.from_keys(["bW9zYWljby1wb3N0Z3Jlcy0xNi10ZXN0LWtleS0zMmI="])
    resources = Resources(
        db=db,
        secrets=box,
        data_dir=tmp_path,
        options={"langfuse_default_url": "https://cloud.langfuse.com"},
    )
    with running_service(resources, metric_pool) as service:
        service.create_agent()
        service.create_benchmark(measures=[{"name": "quality", "formula": "ROUGE"}])
        service.upload([pair(number) for number in range(3)])
        assert service.complete_run()["validity"] == "VALID"
        [kpi] = service.get("/kpi-history")["items"]
        assert kpi["value"] == 1.0
    db.dispose()


@pytest.mark.skipif(not PROGRAMS.is_dir(), reason="the package has no Postgres 16 here")
def test_postgres_16__restores_a_backup_of_a_newer_server(
    postgres_16: str, service: Service, tmp_path: Path
) -> None:
    service.create_agent()
    url = make_database(postgres_16, "restored")
    copies = []
    for source, file in ((service.resources.db.url, "first"), (url, "second")):
        path = tmp_path / file
        write_backup(source, path, METADATA.tables, ())
        with open_backup(path) as backup:
            copies.append(backup.manifest.tables)
            if file == "first":
                restore_backup(url, backup, METADATA.tables)
    assert copies[0] == copies[1]
    assert {table.name: table.rows for table in copies[0]}["agents"] == 1
