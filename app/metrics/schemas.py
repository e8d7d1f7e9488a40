from app.core.schemas import WireModel
from app.metrics.types import Direction


class MetricOptionView(WireModel):
    name: str
    default: bool | int | float | str


class MetricView(WireModel):
    """A metric that benchmarks can use. `minimum` or `maximum` null means no bound."""

    key: str
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
    """A plugin that is installed and could not be loaded."""

    name: str
    origin: str
    error: str


class MetricCatalogue(WireModel):
    items: list[MetricView]
    next_cursor: None = None
    broken: list[BrokenPluginView]
