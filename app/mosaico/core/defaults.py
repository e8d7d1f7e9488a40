"""Defaults and limits that several domains share: change one here, and nowhere else; pure.

`docs/deployment.md` lists how long rows are kept. Rows are marked when that time is over, and deleted a day
later: see `mosaico.core.batch_delete`. The traces of runs are kept as long as their benchmark says (`keepDays`).
"""

from datetime import timedelta
from typing import Final

# How long rows are kept.
KEEP_IDEMPOTENCY_KEYS: Final = timedelta(days=1)
# An ended session tells whose input a draft is.
KEEP_ENDED_SESSIONS: Final = timedelta(days=7)
KEEP_FINISHED_JOBS: Final = timedelta(days=7)
KEEP_TRIGGER_EVENTS: Final = timedelta(days=7)
# `MOSAICO_OTEL_KEEP_DAYS`, unless it is set.
KEEP_RECEIVED_SPANS: Final = timedelta(days=30)
# A stored answer of a model that is older is requested again.
KEEP_LLM_ANSWERS: Final = timedelta(days=30)
KEEP_NOTIFICATIONS: Final = timedelta(days=90)
KEEP_SCHEDULE_FIRES: Final = timedelta(days=400)
# The trigger of the table refuses to delete younger entries: another value needs a migration that replaces
# `audit_log_is_append_only` (`migrations/versions/1_0_schema.sql`).
KEEP_AUDIT_ENTRIES: Final = timedelta(days=400)

# `mosaico doctor` and the page of the system report less free space on the disk of the data.
MIN_FREE_BYTES: Final = 1024**3
# They also report a larger difference between the clocks of the machine and of the database.
REPORTED_CLOCK_DIFFERENCE: Final = timedelta(seconds=2)
# With a larger difference of two clocks nothing is purged, and no signed call is accepted. It is the tolerance of
# Standard Webhooks, which limits how long a recorded call can be replayed.
MAX_CLOCK_DIFFERENCE: Final = timedelta(minutes=5)

# A run with lower coverage, or with a higher share of errors, is INVALID, unless its benchmark says otherwise.
MIN_COVERAGE: Final = 0.9
MAX_ERROR_SHARE: Final = 0.05

# The seconds that a previous secret of signatures stays valid at most.
MAX_SECRET_OVERLAP_S: Final = 30 * 24 * 3600

# The earlier runs whose mean is the baseline of a percentage, unless the alert rule says otherwise.
BASELINE_RUNS: Final = 5
# The earlier runs whose mean is the baseline of a run with `MEAN_OF_LAST`, unless the benchmark says otherwise.
MEAN_OF_LAST_RUNS: Final = 5
# The history that a backtest of an alert rule replays.
BACKTEST_DAYS: Final = 90

# Limits of files and of exports of spans, unless a setting says otherwise: MiB of a part and of all parts, JSON values,
# columns, spans with their values.
IMPORT_PART_MB: Final = 256
IMPORT_UNPACKED_MB: Final = 1024
# Small values take up to thirty times the memory of their text. A file of 64 MiB with real conversations has 1.6
# million.
IMPORT_VALUES: Final = 4_000_000
IMPORT_COLUMNS: Final = 10_000
IMPORT_SPAN_VALUES: Final = 500_000
