"""Wire models of the metric catalog."""

from mosaico.core.schemas import WireModel
from mosaico.metrics.types import Direction


class MetricOptionView(WireModel):
    """An option of a metric. `choices` lists the allowed values; empty means any value of the type of `default`."""

    name: str
    default: bool | int | float | str
    choices: list[str]


class MetricView(WireModel):
    """A metric for benchmarks. `minimum` or `maximum` null means unbounded; `aliases` are other
    names of it in benchmarks and formulas.
    """

    key: str
    aliases: list[str]
    description: str
    unit: str
    minimum: float | None
    maximum: float | None
    direction: Direction
    version: str
    source: str
    options: list[MetricOptionView]
    origin: str


class BrokenPluginView(WireModel):
    """An installed plugin that failed to load."""

    name: str
    origin: str
    error: str


class MetricCatalogue(WireModel):
    items: list[MetricView]
    next_cursor: None = None
    broken: list[BrokenPluginView]
