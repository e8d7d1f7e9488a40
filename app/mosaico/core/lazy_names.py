"""Names of a public module that are loaded when they are used first: importing the module loads nothing else."""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

PUBLIC_SUBMODULES = ("mosaico.formula", "mosaico.plugins")


def load_lazily(module: str, names: "Mapping[str, str]") -> "Callable[[str], Any]":
    """The `__getattr__` of a module: `names` has its names by their internal modules, "mosaico." left out.

    "AppError:MosaicoError" is the name of `AppError` in the public module. The public submodules of
    `mosaico` are attributes of it before anybody imported them.
    """
    places: dict[str, tuple[str, str]] = {}
    for internal_module, text in names.items():
        for name in text.split():
            inner_name, _, public_name = name.partition(":")
            places[public_name or inner_name] = (f"mosaico.{internal_module}", inner_name)

    def load(name: str) -> "Any":
        if f"{module}.{name}" in PUBLIC_SUBMODULES:
            return import_module(f"{module}.{name}")
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        internal_module, inner_name = places[name]
        return getattr(import_module(internal_module), inner_name)

    return load
