"""Query parameters: those of a list, and the refusal of unknown and repeated ones, since a wrong filter must not
return something else.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.keyset import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, PageQuery
from mosaico.core.registry import suggest_names
from mosaico.core.schemas import ListFilter

# Collected at the first request of an endpoint that has a query.
_PARAMETERS_BY_ENDPOINT: dict[Callable[..., Any], Mapping[str, bool]] = {}


class RepeatedParameter(Invalid):
    """A query parameter with one value was sent several times; send each of those in `errors` once."""


class UnknownParameter(Invalid):
    """The path has no such query parameter; correct or remove those in `errors`."""


async def _page_query(
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items.")
    ] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None,
        Query(max_length=MAX_CURSOR, description="`nextCursor` of the previous page."),
    ] = None,
) -> PageQuery:
    return PageQuery(limit, cursor)


PageParams = Annotated[PageQuery, Depends(_page_query)]
Cascade = Annotated[
    bool, Query(description="Whether to delete also what the error `dependents-exist` names.")
]


async def _list_query(cursor: Annotated[str, Query(max_length=MAX_CURSOR)] = "") -> PageQuery:
    return PageQuery(DEFAULT_LIMIT, cursor or None)


ListQuery = Annotated[PageQuery, Depends(_list_query)]


async def reject_wrong_parameters(request: Request) -> None:
    """Raise `Invalid` unless the route declares every query parameter, and lists those that are
    repeated.
    """
    is_list = _read_declared_parameters(request)
    unknown = [
        ErrorItem(pointer=name, detail=_unknown_message(name, sorted(is_list)))
        for name in request.query_params
        if name not in is_list
    ]
    if unknown:
        raise UnknownParameter(
            "unknown query parameters; correct or remove those in `errors`",
            errors=unknown,
        )
    await reject_repeated_parameters(request)


async def reject_repeated_parameters(request: Request) -> None:
    """Raise `RepeatedParameter` unless the route lists every query parameter that is repeated."""
    counts = Counter(name for name, _ in request.query_params.multi_items())
    is_list = _read_declared_parameters(request)
    repeated = [name for name, count in counts.items() if count > 1 and not is_list.get(name)]
    if repeated:
        raise RepeatedParameter(
            "repeated query parameters; send each of those in `errors` once",
            errors=[
                ErrorItem(pointer=name, detail="takes one value; send it once") for name in repeated
            ],
        )


def _read_declared_parameters(request: Request) -> Mapping[str, bool]:
    """The query parameters of the route of a request, and whether each is a list; none without a query."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return {}
    if route.endpoint not in _PARAMETERS_BY_ENDPOINT:
        _PARAMETERS_BY_ENDPOINT[route.endpoint] = dict(_declared_parameters(route.dependant))
    return _PARAMETERS_BY_ENDPOINT[route.endpoint]


def _declared_parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Return the query parameters of a route; the value is true for a list."""
    for field in dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, ListFilter):
            for name, info in annotation.model_fields.items():
                yield str(info.validation_alias or name), is_list_type(info.annotation)
        else:
            yield field.alias, is_list_type(annotation)
    # A dependency that reads the query itself names its parameters.
    yield from getattr(dependant.call, "query_parameters", {}).items()
    for inner in dependant.dependencies:
        yield from _declared_parameters(inner)


def is_list_type(annotation: Any) -> bool:
    """Return whether a parameter of this type may be repeated."""
    if get_origin(annotation) in (Union, UnionType):
        return any(is_list_type(member) for member in get_args(annotation))
    return get_origin(annotation) is list


def _unknown_message(name: str, declared: list[str]) -> str:
    displayed_name = name if name.isprintable() and len(name) <= 100 else "this name"  # noqa: PLR2004
    declared_text = f"it has {', '.join(declared)}" if declared else "it has none"
    return f"the address has no parameter {displayed_name!r}, {declared_text}.{suggest_names(name, declared)}"
