"""Groups of options that several commands share: a NamedTuple whose fields are options."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any


def expand_option_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the options of a group in place of each parameter that takes the group.

    A group is a `NamedTuple`: its fields are `Annotated[type, typer.Option(…)]` with their defaults.
    """
    written = inspect.signature(function).parameters.values()
    groups = {parameter.name: parameter.annotation for parameter in written if _is_group(parameter)}
    if not groups:
        return function
    parameters = [expanded for parameter in written for expanded in _expand(parameter)]

    def run(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in group._fields})
        return function(**values)

    # typer reads the name, the help text, the annotations and the signature separately.
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _is_group(parameter: inspect.Parameter) -> bool:
    return hasattr(parameter.annotation, "_field_defaults")


def _expand(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    if not _is_group(parameter):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    group = parameter.annotation
    for name, annotation in group.__annotations__.items():
        default = group._field_defaults.get(name, inspect.Parameter.empty)
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(name, kind, annotation=annotation, default=default)
