"""Docstrings, comments and CONTRIBUTING name classes and functions that exist."""

import builtins
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
# Of libraries, which no module imports under this name.
OTHER_CLASSES: Final = {"ExportTraceServiceRequest"}
CLASS_NAME: Final = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]*)+)`")
CONSTANT_NAME: Final = re.compile(r"`([A-Z]+(?:_[A-Z]+)*)`\s+in\s+`(app/[\w/]+\.py)`")


def unknown_classes(source: str) -> set[str]:
    """The classes that texts name in backticks and that no code defines or imports."""
    code = CLASS_NAME.sub("", source)
    known = {*re.findall(r"\b[A-Z]\w+", code), *vars(builtins), *OTHER_CLASSES}
    return {*CLASS_NAME.findall(source)} - known


def test_docstrings__name_classes_that_exist() -> None:
    modules = (ROOT / "app").rglob("*.py")
    assert unknown_classes("".join(path.read_text("utf-8") for path in modules)) == set()


def test_contributing__names_constants_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = CONSTANT_NAME.findall(text)
    assert named
    for name, path in named:
        assert re.search(rf"^{name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
