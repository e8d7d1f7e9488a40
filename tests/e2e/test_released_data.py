"""The data folder of the last release, started with this code: everything that the release stored is there."""

import json
import tarfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.migrations import HEAD_REVISION, current_revision
from mosaico.postgres.server import EmbeddedPostgres
from tests.support.processes import programs
from tests.support.released_data import RELEASES, stored_data
from tests.support.serve import free_port, read_admin_key, start_serve

pytestmark = pytest.mark.xdist_group("serve")
ARCHIVES = sorted(RELEASES.glob("*.tar.xz"))


def kept(now: Any, then: Any) -> Any:
    """Of an answer, what the release knew: answers may get more fields."""
    if isinstance(then, dict) and isinstance(now, dict):
        return {name: kept(now[name], value) for name, value in then.items() if name in now}
    if isinstance(then, Sequence) and not isinstance(then, str) and isinstance(now, Sequence):
        return [kept(*pair) for pair in zip(now, then, strict=False)] + list(now[len(then) :])
    return now


@pytest.mark.parametrize("archive", ARCHIVES, ids=[path.name for path in ARCHIVES])
def test_data_of_a_release__is_served_by_this_code(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as files:
        # With the account that owns the cluster, if this process may give files away.
        files.extractall(tmp_path, filter="fully_trusted")
    recorded = json.loads(archive.with_name(archive.name.replace(".tar.xz", ".json")).read_text())
    port = free_port()
    database = EmbeddedPostgres(tmp_path / "data")
    # The end of the programs leaves the database running.
    with ExitStack() as stack:
        stack.callback(database.stop)
        commands = stack.enter_context(programs(tmp_path))
        start_serve(commands, port)
        assert current_revision(database.url()) == HEAD_REVISION
        served = stored_data(f"http://127.0.0.1:{port}", read_admin_key(tmp_path / "data"))
    assert len(recorded["benchmark-runs"]) == 2
    for name, items in recorded.items():
        assert kept(served[name], items) == items, name
