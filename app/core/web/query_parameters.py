"""Rejects unknown query parameters: a misspelled filter must not return everything."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.core.errors import ErrorItem, Invalid
from app.core.registry import suggest_names


async def reject_unknown_parameters(request: Request) -> None:
    """Raise `Invalid`, with the closest names, unless the route declares every query parameter."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    declared = sorted(set(_declared_names(route.dependant)))
    errors = [
        ErrorItem(pointer=name, detail=_unknown_message(name, declared))
        for name in dict.fromkeys(request.query_params.keys())
        if name not in declared
    ]
    if errors:
        raise Invalid(
            "unknown query parameters; correct or remove those in `errors`",
            code="unknown-parameter",
            errors=errors,
        )


def _declared_names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _declared_names(inner)


def _unknown_message(name: str, declared: list[str]) -> str:
    displayed_name = name if name.isprintable() and len(name) <= 100 else "this name"  # noqa: PLR2004
    declared_text = f"it has {', '.join(declared)}" if declared else "it has none"
    return f"the address has no parameter {displayed_name!r}, {declared_text}.{suggest_names(name, declared)}"
