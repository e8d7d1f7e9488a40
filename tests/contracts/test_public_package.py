"""The public package changes on purpose only: plugins and scripts of others rely on its names."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

from mosaico import plugins
from tests.support.public_package import OPAQUE, PUBLIC_MODULES, surface

# What the harnesses of this repository configure, and the parts of their calls; no plugin needs these types.
# `RedactionRules` are applied to what a source returns; a source need not read them.
INTERNAL = {
    *("AgentHarnessSettings", "BashHarnessSettings", "McpHarnessSettings", "Content"),
    "RedactionRules",
}
# `array.array[float]` has no value at run time.
EVALUATED_AT_RUN_TIME = {"EmbeddingAnswer"}


def named_types(hint: Any) -> Iterator[type]:
    """The classes in a type hint."""
    if inspect.isclass(hint) and get_origin(hint) is None:
        yield hint
    for part in hint if isinstance(hint, list) else get_args(hint):
        yield from named_types(part)


def test_plugins__types_of_public_fields_and_parameters_are_public() -> None:
    """A plugin can name the type of everything that it gets or returns."""
    public = {getattr(plugins, name) for name in plugins.__all__ if not name.isupper()}
    types = {
        named
        for owner in public
        if inspect.isclass(owner) and owner.__name__ not in OPAQUE | EVALUATED_AT_RUN_TIME
        for hint in get_type_hints(owner).values()
        for named in named_types(hint)
    }
    ours = {named for named in types if named.__module__.startswith("mosaico.")}
    assert {named.__name__ for named in ours - public} == INTERNAL


def test_public_package__public_objects_are_documented() -> None:
    silent = []
    for line in surface():
        path = line.partition("(")[0]
        module_name, _, name = path.rpartition(".")
        if module_name in PUBLIC_MODULES:
            public_object = getattr(importlib.import_module(module_name), name)
            if callable(public_object) and not public_object.__doc__:
                silent.append(path)
    assert silent == []
