"""The defaults that several domains share are those of the documentation."""

import re
from pathlib import Path

from mosaico.core import defaults

DEPLOYMENT = Path(__file__).parents[3] / "docs" / "deployment.md"


def test_retention__page_lists_each_period() -> None:
    rows = re.findall(r"^\| (.+) \| (\d+) days? \|$", DEPLOYMENT.read_text(), re.MULTILINE)
    listed = {kind.split(" (")[0]: int(days) for kinds, days in rows for kind in kinds.split(", ")}
    assert listed == {
        "responses stored for idempotency keys": defaults.KEEP_IDEMPOTENCY_KEYS.days,
        "ended browser sessions": defaults.KEEP_ENDED_SESSIONS.days,
        "finished jobs": defaults.KEEP_FINISHED_JOBS.days,
        "trigger events": defaults.KEEP_TRIGGER_EVENTS.days,
        "received OpenTelemetry spans": defaults.KEEP_RECEIVED_SPANS.days,
        "LLM cache": defaults.KEEP_LLM_ANSWERS.days,
        "notifications with their deliveries": defaults.KEEP_NOTIFICATIONS.days,
        "fires of schedules": defaults.KEEP_SCHEDULE_FIRES.days,
        "audit log": defaults.KEEP_AUDIT_ENTRIES.days,
    }
