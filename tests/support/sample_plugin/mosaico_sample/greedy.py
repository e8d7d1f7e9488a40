"""A plugin that adds a metric of its own, and then takes a name that is taken."""

from collections.abc import Callable

from app.metrics.types import MetricSpec

from .metrics import Brevity


class Half(Brevity):
    """Sound in itself; gone with the rest of its plugin."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = MetricSpec(key="SAMPLE_HALF", description="half", source="the sample")


def register(add: Callable[..., object]) -> None:
    add("SAMPLE_HALF", Half, aliases=["SAMPLE_PART"])
    add("LATENCY", Half)
