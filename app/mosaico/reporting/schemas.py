"""Wire format of the trend of a KPI."""

from datetime import datetime

from mosaico.core.schemas import WireModel
from mosaico.statistics.verdict_rules import Verdict


class TrendPointView(WireModel):
    """A point of the chart of a KPI: one run with its 95 % interval, or `runs` that follow each other with
    their mean and their lowest and highest value.

    `verdict` is the worst one, and `runId` the run that has it. Values of invalid runs are in no mean.
    """

    agent_id: str
    runs: int
    first_at: datetime
    last_at: datetime
    mean: float | None
    low: float | None
    high: float | None
    verdict: Verdict | None
    run_id: str
    fingerprint: str | None
