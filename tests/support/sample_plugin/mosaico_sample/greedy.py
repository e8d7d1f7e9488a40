"""A plugin that registers a metric and then a name that is already in use."""

from mosaico.plugins import AddPlugin, MetricFactory, MetricSpec

from .metrics import Brevity


class DiscardedMetric(Brevity):
    """A valid metric that is discarded with its plugin."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = MetricSpec(key="SAMPLE_HALF", description="half", source="the sample")


def register(add: AddPlugin[MetricFactory]) -> None:
    add("SAMPLE_HALF", DiscardedMetric, aliases=["SAMPLE_PART"])
    add("LATENCY", DiscardedMetric)
