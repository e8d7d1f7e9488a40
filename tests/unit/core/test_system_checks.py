"""The verdict on a running service: what is wrong comes first, and each finding has a remedy."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from mosaico.core.migrations import HEAD_REVISION
from mosaico.core.web.prometheus import QueueState
from mosaico.overview.system_checks import (
    MachineState,
    StoredState,
    SystemCheck,
    describe_checks,
    list_checks,
)

STORED = StoredState(
    revision=HEAD_REVISION, schedulers=1, active_schedules=2, overdue_schedules=[], missed_schedules=[],
    disabled_endpoints=[], failing_endpoints=[], failed_deliveries=0,
)  # fmt: skip
MACHINE = MachineState(
    disk_free_bytes=5 * 1024**3, clock_difference=timedelta(), alive_workers=1, workers=1,
    broken_plugins=[],
)  # fmt: skip
QUEUES = [QueueState("runs", "todo", 3, 20.0)]


@dataclass(frozen=True)
class SystemFault:
    """A state with one fault, and what the check of that name says."""

    name: str
    finding: str
    remedy: str
    stored: StoredState = STORED
    machine: MachineState = MACHINE
    queues: tuple[QueueState, ...] = tuple(QUEUES)


FAULTS = [
    SystemFault("migrations", "schema 0001", "mosaico db upgrade", STORED._replace(revision="0001")),
    SystemFault("workers", "0 of 1 workers", "mosaico worker", machine=MACHINE._replace(alive_workers=0)),
    SystemFault(
        "queue score", "12 jobs wait, the oldest for 10 min; no worker runs", "mosaico worker --queues score",
        queues=(QueueState("score", "todo", 12, 600.0),),
    ),
    SystemFault(
        "queue score", "12 jobs wait, the oldest for 10 min", "start another worker",
        queues=(QueueState("score", "todo", 12, 600.0), QueueState("score", "doing", 1, 60.0)),
    ),
    SystemFault("scheduler", "no scheduler runs; 2 schedules", "mosaico scheduler", STORED._replace(schedulers=0)),
    SystemFault("scheduler", "1 schedule did not fire", "/schedules/nightly", STORED._replace(overdue_schedules=["nightly"])),
    SystemFault("schedules", "1 schedule missed", "/schedules/nightly", STORED._replace(missed_schedules=["nightly"])),
    SystemFault("endpoints", "1 disabled, 1 failing", "/endpoints/mail", STORED._replace(disabled_endpoints=["mail"], failing_endpoints=["chat"])),
    SystemFault("deliveries", "3 messages", "mosaico notify deliveries list", STORED._replace(failed_deliveries=3)),
    SystemFault("disk", "0.5 GB free", "MOSAICO_DATA_DIR", machine=MACHINE._replace(disk_free_bytes=1024**3 // 2)),
    SystemFault("clock", "differ by 9.0 s", "NTP", machine=MACHINE._replace(clock_difference=timedelta(seconds=-9))),
    SystemFault("plugins", "metric BROKEN", "/providers", machine=MACHINE._replace(broken_plugins=["metric BROKEN"])),
]  # fmt: skip


def says(check: SystemCheck) -> str:
    links = " ".join(link.path for link in check.links)
    return f"{check.remedy} {check.command} {links}"


def test_checks__of_a_healthy_service_are_ok() -> None:
    checks = list_checks(STORED, MACHINE, QUEUES, "Postgres 18")
    assert [check.name for check in checks if not check.ok] == []
    assert describe_checks(checks) == "The service is healthy"


def test_checks__behind_a_pooler_no_scheduler_is_missed() -> None:
    checks = list_checks(STORED._replace(schedulers=None), MACHINE, QUEUES, "Postgres 18")
    assert all(check.ok for check in checks)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.finding)
def test_checks__fault_comes_first_with_its_remedy(fault: SystemFault) -> None:
    first, *other_checks = list_checks(fault.stored, fault.machine, fault.queues, "Postgres 18")
    assert (first.name, first.ok) == (fault.name, False)
    assert fault.finding in first.finding
    assert fault.remedy in says(first)
    assert all(check.ok for check in other_checks)
    assert describe_checks([first, *other_checks]) == "1 check failed"
