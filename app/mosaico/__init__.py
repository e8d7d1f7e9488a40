"""MOSAICO from Python: score, compare and gate results of AI agents, and use a service.

Importing this package loads nothing else: each name is loaded when it is used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mosaico.core.errors import MosaicoError
    from mosaico.metrics.offline_models import LlmOptions
    from mosaico.sdk.async_client import AsyncClient
    from mosaico.sdk.client import Client
    from mosaico.sdk.experiment import run_experiment
    from mosaico.sdk.offline import compare, gate, score
    from mosaico.traces.types import DatasetItem, ToolCall, Trace, TraceOutcome

__all__ = (
    "AsyncClient",
    "Client",
    "DatasetItem",
    "LlmOptions",
    "MosaicoError",
    "ToolCall",
    "Trace",
    "TraceOutcome",
    "compare",
    "gate",
    "run_experiment",
    "score",
)

# The module of each name of `__all__`.
_MODULES = {
    "AsyncClient": "mosaico.async_client",
    "Client": "mosaico.client",
    "DatasetItem": "mosaico.traces.types",
    "LlmOptions": "mosaico.metrics.offline_models",
    "MosaicoError": "mosaico.errors",
    "ToolCall": "mosaico.traces.types",
    "Trace": "mosaico.traces.types",
    "TraceOutcome": "mosaico.traces.types",
    "compare": "mosaico.offline",
    "gate": "mosaico.offline",
    "run_experiment": "mosaico.experiment",
    "score": "mosaico.offline",
}

# Type checkers know the names above, and report every other one.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        public_object = getattr(import_module(_MODULES[name]), name)
        globals()[name] = public_object
        return public_object


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
