from app.core.schemas import WireModel
from app.metrics.types import Direction


class MetricOptionView(WireModel):
    """An option of a metric; one of the `choices`, or anything like the default if there are none."""

    name: str
    default: bool | int | float | str
    choices: list[str]


class MetricView(WireModel):
    """A metric that benchmarks can use. `minimum` or `maximum` null means no bound; `aliases` are
    other names that benchmarks and formulas may use.
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
    """A plugin that is installed and could not be loaded."""

    name: str
    origin: str
    error: str


class MetricCatalogue(WireModel):
    items: list[MetricView]
    next_cursor: None = None
    broken: list[BrokenPluginView]
