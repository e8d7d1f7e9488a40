"""Which errors a function can raise: the names that it and what it refers to refer to.

Read from the sources, so it finds too much rather than too little: a function counts as called when
its name occurs. Methods of objects are found through their class.
"""

import ast
import importlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mosaico.core.errors import AppError

APP = Path(__file__).resolve().parents[2] / "app"


class _Name(NamedTuple):
    """A name at the top of a module."""

    module: str
    name: str


class _Mention(NamedTuple):
    """A name in a definition, or an attribute of a name."""

    name: str
    attribute: str | None


class _Module(NamedTuple):
    """What the top-level definitions of a module mention, and what its names stand for: a name or a
    module. The syntax trees are not kept: every search for garbage would walk through them.
    """

    definitions: dict[str, set[_Mention]]
    meanings: dict[str, _Name | str]


def raised_errors(function: Callable[..., Any]) -> set[type[AppError]]:
    """The error classes that a function of `mosaico` or what it calls refers to."""
    errors: set[type[AppError]] = set()
    visited: set[_Name] = set()
    waiting = [_Name(function.__module__, function.__name__)]
    while waiting:
        name = waiting.pop()
        if name in visited:
            continue
        visited.add(name)
        value = getattr(importlib.import_module(name.module), name.name, None)
        if isinstance(value, type) and issubclass(value, AppError):
            errors.add(value)
        else:
            # Not into an error class: its base classes would count as raised by every function.
            waiting += _references(name)
    return errors


@cache
def _references(name: _Name) -> frozenset[_Name]:
    module = _read_module(name.module)
    meanings = (
        _meaning(module.meanings.get(mention.name), mention.attribute)
        for mention in module.definitions[name.name]
    )
    return frozenset(filter(None, map(_definition, meanings)))


def _meaning(meaning: _Name | str | None, attribute: str | None) -> _Name | None:
    """A name, or the name in a module."""
    if isinstance(meaning, str):
        return _Name(meaning, attribute) if attribute else None
    return meaning


def _mentions(definition: ast.AST) -> Iterator[_Mention]:
    for node in ast.walk(definition):
        if isinstance(node, ast.Name):
            yield _Mention(node.id, None)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield _Mention(node.value.id, node.attr)


def _definition(name: _Name | str | None) -> _Name | None:
    """Where a name is defined; a package may only pass it on."""
    while isinstance(name, _Name) and name.module in _paths():
        module = _read_module(name.module)
        if name.name in module.definitions:
            return name
        name = module.meanings.get(name.name)
    return None


@cache
def _paths() -> dict[str, Path]:
    return {_module_name(path): path for path in APP.rglob("*.py")}


def _module_name(path: Path) -> str:
    parts = path.relative_to(APP).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _read_module(module: str) -> _Module:
    tree = ast.parse(_paths()[module].read_text())
    definitions: dict[str, set[_Mention]] = {}
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                definitions[node.name] = {*_mentions(node)}
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                definitions[name] = {*_mentions(node)}
    meanings: dict[str, _Name | str] = {name: _Name(module, name) for name in definitions}
    for imported in ast.walk(tree):
        if isinstance(imported, ast.ImportFrom) and (imported.module or "").startswith("mosaico"):
            for alias in imported.names:
                full_name = f"{imported.module}.{alias.name}"
                meanings[alias.asname or alias.name] = (
                    full_name if full_name in _paths() else _Name(imported.module or "", alias.name)
                )
    return _Module(definitions, meanings)
