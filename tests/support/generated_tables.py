"""Tables of the documentation that follow from the code."""

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Final

import mosaico
from mosaico.core import defaults
from mosaico.core.errors import default_detail
from mosaico.core.web.problem_types import errors_by_code
from mosaico.llm.conversation import Provider
from mosaico.llm.model_families import ALL_EFFORTS, FAMILIES, ModelFamily

_MODEL_HEADS: Final = (
    *("Models", "Temperature, top_p", "Reasoning effort", "Thinking (Messages API)", "Tools with reasoning"),
    *("Images of tools", "Output limit in Chat Completions", "Prompt cache", "Sent back in the next request"),
)  # fmt: skip

_KEPT_ROWS: Final = {
    "KEEP_IDEMPOTENCY_KEYS": "responses stored for idempotency keys",
    "KEEP_ENDED_SESSIONS": "ended browser sessions",
    "KEEP_FINISHED_JOBS": "finished jobs",
    "KEEP_TRIGGER_EVENTS": "trigger events",
    "KEEP_RECEIVED_SPANS": "received OpenTelemetry spans, unless `MOSAICO_OTEL_KEEP_DAYS` is set",
    "KEEP_LLM_ANSWERS": "answers of models in the LLM cache",
    "KEEP_NOTIFICATIONS": "notifications with their deliveries",
    "KEEP_SCHEDULE_FIRES": "fires of schedules",
    "KEEP_AUDIT_ENTRIES": "audit log",
}


def retention_table() -> str:
    """How long rows are kept: each constant `KEEP_…`."""
    days = {name: kept.days for name, kept in vars(defaults).items() if name.startswith("KEEP_")}
    rows = ((_KEPT_ROWS[name], f"{count} day{'s' * (count > 1)}") for name, count in days.items())
    return _table(("Rows", "Kept for"), rows)


def error_table() -> str:
    """Every error of the program with its remedy."""
    import_every_module()
    rows = (
        (f"`{code}`", error.status, error.exit_code, default_detail(error))
        for code, error in errors_by_code().items()
    )
    return _table(("Code", "HTTP", "Exit", "Meaning and remedy"), rows)


def import_every_module() -> None:
    """Import the whole package: classes are known when their module is loaded."""
    for module in pkgutil.walk_packages(mosaico.__path__, prefix="mosaico."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def model_table() -> str:
    """What each family of models takes."""
    return _table(_MODEL_HEADS, map(_model_cells, FAMILIES))


def _model_cells(family: ModelFamily) -> tuple[str, ...]:
    return (
        family.name,
        family.sampling,
        "all" if family.efforts == ALL_EFFORTS else ", ".join(family.efforts) or "–",
        ", ".join(family.thinking) or "–",
        "any" if family.chat_takes_tools else "Responses",
        "yes" if family.takes_images else "no",
        f"`{family.output_limit}`" if Provider.OPENAI in family.providers else "–",
        family.caching,
        family.sent_back,
    )


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [heads, *rows]
    head, *body = [f"| {' | '.join(map(str, cells))} |" for cells in lines]
    return "\n".join([head, "|" + "---|" * (head.count(" | ") + 1), *body])
