"""Docstrings and CONTRIBUTING name classes and functions that exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
# Of libraries, which no module imports under this name.
OTHER_CLASSES: Final = {"ExportTraceServiceRequest"}
CLASS_NAME: Final = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]*)+)`")
CONSTANT_NAME: Final = re.compile(r"`([A-Z]+(?:_[A-Z]+)*)` in `(app/[\w/]+\.py)`")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def list_trees() -> dict[Path, ast.Module]:
    return {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "app").rglob("*.py")
    }


def list_names() -> Iterator[str]:
    """The classes that the modules define or import, and what they name in another way."""
    for node in (node for tree in list_trees().values() for node in ast.walk(tree)):
        match node:
            case ast.ClassDef(name=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.rpartition(".")[2]
            case ast.Constant(value=str(text)):
                yield text


def test_docstrings__name_classes_that_exist() -> None:
    names = {*list_names(), *OTHER_CLASSES}
    unknown = {
        (str(path.relative_to(ROOT)), name)
        for path, tree in list_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, Documented)
        for name in CLASS_NAME.findall(ast.get_docstring(node) or "")
        if name not in names
    }
    assert unknown == set()


def test_contributing__names_constants_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = CONSTANT_NAME.findall(text)
    assert named
    for name, path in named:
        assert re.search(rf"^{name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
