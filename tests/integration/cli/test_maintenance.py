"""`mosaico secrets` and `mosaico purge`, which work on the database without a server."""

import json
from datetime import timedelta

from mosaico.core.clock import utc_now
from mosaico.core.encryption import SecretBox
from mosaico.run_store.models import BenchmarkRun
from tests.integration.cli.conftest import NEW, OLD, shell
from tests.support.service import Service, pair

COLUMN = "agents.langfuse_secret_key"


def test_secrets__are_listed_and_rotated(fresh_database_url: str, old_secret: str) -> None:
    both = shell(fresh_database_url, MOSAICO_MASTER_KEY=NEW, MOSAICO_MASTER_KEYS_OLD=OLD)
    [use] = json.loads(both.ok("secrets", "status", "--json").stdout)["items"]
    assert use == {"column": COLUMN, "key": old_secret, "texts": 1, "state": "previous"}

    rotated = both.ok("secrets", "rotate", "--json")
    rows = {row["column"]: row for row in json.loads(rotated.stdout)["items"]}
    assert rows[COLUMN] == {"column": COLUMN, "reencrypted": 1, "remaining": 0}
    assert "next: remove MOSAICO_MASTER_KEYS_OLD" in rotated.stderr
    [use] = json.loads(both.ok("secrets", "status", "--json").stdout)["items"]
    assert use["state"] == "current"


def test_secrets__of_a_lost_key_are_reported_and_dropped(
    fresh_database_url: str, old_secret: str
) -> None:
    new_only = shell(fresh_database_url, MOSAICO_MASTER_KEY=NEW)
    status = new_only("secrets", "status", "--json")
    assert status.exit_code == 3
    assert json.loads(status.stdout)["items"][0]["state"] == "missing"

    configured = SecretBox.from_keys([NEW]).encryption_key_id
    assert new_only("secrets", "drop-lost", configured, "--yes").exit_code == 73
    assert new_only("secrets", "drop-lost", old_secret).exit_code == 2
    dropped = new_only.ok("secrets", "drop-lost", old_secret, "--yes")
    assert dropped.stderr == "1 secrets are deleted\n"
    assert json.loads(new_only.ok("secrets", "status", "--json").stdout)["items"] == []


def test_purge__deletes_traces_of_old_runs_after_confirmation(
    service: Service, fresh_database_url: str
) -> None:
    service.create_agent()
    service.create_benchmark()
    service.upload([pair(1)])
    run = service.complete_run()
    with service.resources.db.begin() as session:
        [row] = session.query(BenchmarkRun).all()
        row.completed_at = utc_now() - timedelta(days=40)
    key = shell(fresh_database_url, MOSAICO_MASTER_KEY=NEW)

    assert "0 runs with 0 traces" in key.ok("purge", "--older-than", "50").stderr
    dry_run = key.ok("purge", "--older-than", "30", "--dry-run")
    assert dry_run.stderr.startswith("1 runs with 1 traces ended before ")
    assert key("purge", "--older-than", "30").exit_code == 2
    assert service.get(f"/benchmark-runs/{run['id']}")["purgedAt"] is None

    other = key("purge", "--older-than", "30", "--benchmark", "other", "--yes")
    assert (other.exit_code, "'other' does not exist" in other.stderr) == (66, True)
    purged = key.ok("purge", "--older-than", "30", "--benchmark", "bench-001", "--yes")
    assert purged.stderr.startswith("1 runs are purged; workers delete their rows after a day")
    assert service.get(f"/benchmark-runs/{run['id']}")["purgedAt"]

    assert key("purge").exit_code == key("purge", "--undo", "--older-than", "30").exit_code == 2
    assert key.ok("purge", "--undo").stderr == "1 runs are restored\n"
    assert service.get(f"/benchmark-runs/{run['id']}")["purgedAt"] is None
