"""PgBouncer in front of a Postgres, with one connection of the server for each transaction."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from mosaico.core.engine import libpq_url
from tests.support.processes import until
from tests.support.serve import free_port
from tests.support.waiting import LIVENESS_S

ADVICE = "PgBouncer is not installed: apt install pgbouncer"
CONFIG = """\
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
pool_mode = transaction
# With SCRAM, the default, PgBouncer would need the secret of the role and not its password.
auth_type = plain
auth_file = {folder}/users
default_pool_size = {pool_size}
max_client_conn = 500
"""


@contextmanager
def pooled_url(url: str, *, pool_size: int) -> Iterator[str]:
    """The address of a PgBouncer with the default settings besides `pool_mode`, in front of the server
    of `url`. The test is skipped where the program is missing.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip(ADVICE)
    parsed, own_port = make_url(libpq_url(url)), free_port()
    # Not below the folder of a test, which only its owner can enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = CONFIG.format(
            host=parsed.host,
            port=parsed.port,
            own_port=own_port,
            folder=folder,
            pool_size=pool_size,
        )
        (folder / "pgbouncer.ini").write_text(config)
        (folder / "users").write_text(f'"{parsed.username}" "{parsed.password}"\n')
        # PgBouncer refuses to run as root.
        user = "nobody" if os.geteuid() == 0 else None
        if user is not None:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, user)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, "--quiet", str(folder / "pgbouncer.ini")],
                stdout=log,
                stderr=log,
                user=user,
            )
        try:
            until(lambda: _accepts(process, own_port))
            pooled = parsed.set(host="127.0.0.1", port=own_port)
            yield pooled.render_as_string(hide_password=False)
        finally:
            process.terminate()
            process.wait(LIVENESS_S)


def _accepts(process: "subprocess.Popen[bytes]", port: int) -> bool:
    assert process.poll() is None, "PgBouncer ended"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
