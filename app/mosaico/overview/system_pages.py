"""Pages of the service itself: its state, the plugins that it has, and the explanation of the pages."""

from fastapi import Request, Response

from mosaico.access.deps import READ, WHOLE_SERVICE
from mosaico.core.web.deps import Res
from mosaico.core.web.pages import public_url, render_page
from mosaico.core.web.routes import Router
from mosaico.metrics.registry import METRICS
from mosaico.overview.providers import loaded_plugins
from mosaico.overview.system import read_system
from mosaico.overview.system_checks import describe_checks

router = Router()


@router.get("/system", dependencies=[*READ, *WHOLE_SERVICE])
def show_system(request: Request, res: Res) -> Response:
    """Return whether the service is healthy: what is wrong first, and what to do."""
    system = read_system(res)
    alive = sum(worker.is_alive for worker in system.workers)
    broken = [plugin for plugin in system.plugins if plugin.error]
    waiting = sum(queue.jobs for queue in system.queues if queue.status == "todo")
    return render_page(
        request, "system.html", title="System", nav="/system", api="/overview/system", system=system,
        alive=alive, broken=broken, waiting=waiting, headline=describe_checks(system.checks),
    )  # fmt: skip


@router.get("/providers", dependencies=READ)
def show_providers(request: Request) -> Response:
    """The metrics and other plugins, and those that could not be loaded."""
    loaded = loaded_plugins()
    metrics = [(name, METRICS.get(name)().spec) for name in sorted(METRICS.names())]
    return render_page(
        request,
        "providers.html",
        title="Providers",
        nav="/providers",
        api="/metrics",
        metrics=metrics,
        broken=[plugin for plugin in loaded if plugin.error],
        plugins=[plugin for plugin in loaded if plugin.kind != METRICS.kind and not plugin.error],
    )


@router.get("/help", dependencies=READ)
def show_help(request: Request) -> Response:
    """Keyboard shortcuts, verdicts and words, the API, the command line and the documentation."""
    return render_page(request, "help.html", title="Help", nav="", url_base=public_url(request))
