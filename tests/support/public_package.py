"""The names of the public package with their parameters and members, as lines that a test compares."""

import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

PUBLIC_MODULES: Final = ("mosaico", "mosaico.plugins", "mosaico.formula")
# Plugins get such an object and pass it on; its fields are not public.
OPAQUE = {"Resources"}
SURFACE_FILE = Path(__file__).parents[1] / "contracts" / "public_package.txt"


def surface() -> list[str]:
    """One line for each public name and for each public member of a class."""
    modules = map(importlib.import_module, PUBLIC_MODULES)
    return [line for module in modules for line in _module_lines(module)]


def _module_lines(module: Any) -> Iterator[str]:
    for name in getattr(module, "__all__", ()):
        public_object = getattr(module, name)
        path = f"{module.__name__}.{name}"
        yield f"{path}{_parameters(public_object)}"
        if inspect.isclass(public_object):
            yield from sorted(_member_lines(path, public_object))


def _member_lines(path: str, owner: type) -> Iterator[str]:
    if issubclass(owner, Enum):
        yield from (f"{path}.{member.name}" for member in owner)
        return
    # Members of a base class that is not public itself are members of the class.
    bases = [base for base in owner.__mro__[1:] if base.__name__ == "LimitedFile"]
    members = {name: member for base in [*bases, owner] for name, member in vars(base).items()}
    for name, member in members.items():
        is_member = inspect.isfunction(member) or isinstance(member, property | cached_property)
        if is_member and (name == "__call__" or not name.startswith("_")):
            yield f"{path}.{name}{_parameters(member)}"


def _parameters(public_object: Any) -> str:
    """The names of the parameters; nothing for what is not called by users."""
    if not callable(public_object) or (
        inspect.isclass(public_object) and not _has_public_constructor(public_object)
    ):
        return ""
    try:
        parameters = inspect.signature(public_object).parameters
    except ValueError:
        return ""
    return f"({', '.join(parameters)})"


def _has_public_constructor(owner: type) -> bool:
    is_protocol = getattr(owner, "_is_protocol", False)
    # The schemas of the API are held by its own contract.
    is_schema = issubclass(owner, BaseModel)
    return not (is_protocol or is_schema or issubclass(owner, Enum) or owner.__name__ in OPAQUE)
