"""Jobs that only tests have."""

from mosaico.jobs.declarations import FailureReport, JobRequest


class BuildToy(JobRequest):
    NAME = "toys.build"
    toy: str = "boat"


class SawToy(JobRequest):
    NAME = "toys.saw"
    toy: str = "boat"


class PaintToy(JobRequest):
    NAME = "toys.paint"
    toy: str = "boat"


class SellToy(JobRequest):
    NAME = "toys.sell"
    toy: str = "boat"


class ReportToy(FailureReport):
    NAME = "toys.on_failure"
    toy: str


class RingBell(JobRequest):
    NAME = "bells.ring"
