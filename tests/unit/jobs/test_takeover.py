"""The waits between the death of a worker and the next attempt of its jobs."""

from mosaico.jobs.job_runner import POLL_INTERVAL_S
from mosaico.jobs.rescue import (
    ABSENT_AFTER_S,
    HEARTBEAT_INTERVAL_S,
    RECONNECT_S,
    RESCUE_INTERVAL_S,
    SUSPENDED_AFTER_S,
)

# What is promised; the rest is for the rescue itself, and for the start of the next attempt.
TAKEOVER_S = 10.0
# Another worker looks for dead ones, and one of them fetches the job.
NEXT_ATTEMPT_S = RESCUE_INTERVAL_S + POLL_INTERVAL_S


def test_takeover__dead_worker_is_noticed_in_time() -> None:
    # At the worst it has sent a heartbeat just before its death: 3 + 2 + 1 s.
    assert ABSENT_AFTER_S + NEXT_ATTEMPT_S <= TAKEOVER_S - 4.0


def test_takeover__death_of_the_database_with_a_worker_is_noticed_in_time() -> None:
    # From the restart on: 6 + 2 + 1 s.
    assert RECONNECT_S + NEXT_ATTEMPT_S <= TAKEOVER_S - 1.0


def test_takeover__live_worker_has_time_for_its_heartbeat() -> None:
    assert HEARTBEAT_INTERVAL_S < ABSENT_AFTER_S < RECONNECT_S
    # Five heartbeats may be late on a busy machine.
    assert 5 * HEARTBEAT_INTERVAL_S < SUSPENDED_AFTER_S
