"""Query parameters that a route does not know: a misspelt filter must not answer everything."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.core.errors import ErrorItem, Invalid
from app.core.registry import near_matches


async def reject_unknown_parameters(request: Request) -> None:
    """Raise `Invalid`, with the nearest names, unless the route declares every query parameter."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = sorted(set(_declared(route.dependant)))
    errors = [
        ErrorItem(pointer=name, detail=_unknown(name, known))
        for name in dict.fromkeys(request.query_params.keys())
        if name not in known
    ]
    if errors:
        raise Invalid(
            "unknown query parameters; mend or leave out what `errors` lists",
            code="unknown-parameter",
            errors=errors,
        )


def _declared(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _declared(inner)


def _unknown(name: str, known: list[str]) -> str:
    shown = name if name.isprintable() and len(name) <= 100 else "this name"  # noqa: PLR2004
    has = f"it has {', '.join(known)}" if known else "it has none"
    return f"the address has no parameter {shown!r}, {has}.{near_matches(name, known)}"
