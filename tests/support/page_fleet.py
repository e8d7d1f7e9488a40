"""Sixty nights of six agents on eighteen benchmarks: 108 pairs, of which some fell, recovered, failed or lost values."""

import random
from datetime import UTC, datetime
from typing import Final

from sqlalchemy.orm import Session

from mosaico.statistics.verdict_rules import Verdict
from tests.support.page_data import PageRun, time_of_night, write_names, write_runs

AGENTS: Final = {
    name.split()[0].lower(): name
    for name in ("Billing bot", "SQL copilot", "Triage", "Onboarding", "Claims", "Returns")
}
BENCHMARKS: Final = {f"b{number:02}": f"Questions {number:02}, nightly" for number in range(18)}
NIGHTS: Final = 60
_LEVEL: Final = 0.9
# By pair: the drop, its first night back, and the night back in which it was over.
_DROPS: Final = {
    ("billing", "b00"): (0.15, 0, -1),
    ("triage", "b03"): (0.08, 0, -1),
    ("claims", "b07"): (0.12, 9, -1),
    ("returns", "b11"): (0.2, 12, 5),
    ("sql", "b05"): (0.3, 40, 30),
}
_UNMEASURED: Final = (("onboarding", "b02", 0), ("sql", "b09", 3))


def write_fleet(session: Session) -> None:
    """The runs, night by night, without alert rules."""
    now = datetime.now(UTC)
    write_names(session, AGENTS, BENCHMARKS)
    deviations = random.Random("fleet")
    for back in range(NIGHTS - 1, -1, -1):
        write_runs(
            session,
            [
                _night(agent_id, benchmark_id, back, now, deviations.gauss(0, 0.008))
                for agent_id in AGENTS
                for benchmark_id in BENCHMARKS
            ],
        )


def _night(agent_id: str, benchmark_id: str, back: int, now: datetime, deviation: float) -> PageRun:
    drop, first, end = _DROPS.get((agent_id, benchmark_id), (0.0, -1, 0))
    is_bad = end < back <= first
    return PageRun(
        f"run-{agent_id}-{benchmark_id}-{back}", agent_id, benchmark_id, time_of_night(now, back),
        value=_LEVEL + deviation - drop * is_bad, baseline=_LEVEL,
        verdict=Verdict.REGRESSED if is_bad else Verdict.NO_EVIDENCE,
        is_valid=(agent_id, benchmark_id, back) not in _UNMEASURED,
        baseline_id=f"run-{agent_id}-{benchmark_id}-{back + 1}" if back < NIGHTS - 1 else None,
        back=back,
    )  # fmt: skip
