"""HTTP routes of metrics."""

from mosaico.access.deps import READ
from mosaico.core.schemas import view_of_row
from mosaico.core.web.routes import Router
from mosaico.metrics.registry import METRICS, all_options_of
from mosaico.metrics.schemas import BrokenPluginView, MetricCatalogue, MetricOptionView, MetricView

router = Router(prefix="/metrics", tags=["metrics"])


@router.get("", dependencies=READ)
def list_metrics() -> MetricCatalogue:
    """List the installed metrics with unit, range, direction and version."""
    broken = [
        BrokenPluginView(name=entry.name, origin=entry.origin, error=entry.error)
        for entry in METRICS.loaded
        if entry.error is not None
    ]
    return MetricCatalogue(items=[_view(name) for name in sorted(METRICS.names())], broken=broken)


def _view(name: str) -> MetricView:
    factory = METRICS.get(name)
    spec = factory().spec
    origins = {entry.name: entry.origin for entry in METRICS.loaded}
    return view_of_row(
        MetricView,
        spec,
        key=name,
        aliases=[alias for alias, metric in METRICS.aliases.items() if metric == name],
        options=[
            MetricOptionView(name=option.name, default=option.default, choices=list(option.choices))
            for option in all_options_of(factory)
        ],
        origin=origins[name],
    )
