"""Docstrings, comments and the pages for contributors name classes and functions that exist."""

import builtins
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
# Of libraries, which no module imports under this name.
OTHER_CLASSES: Final = {"ExportTraceServiceRequest"}
CLASS_NAME: Final = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]*)+)`")
CONSTANT_NAME: Final = re.compile(r"`([A-Z_]{4,})`")


def unknown_classes(source: str) -> set[str]:
    """The classes that texts name in backticks and that no code defines or imports."""
    code = CLASS_NAME.sub("", source)
    known = {*re.findall(r"\b[A-Z]\w+", code), *vars(builtins), *OTHER_CLASSES}
    return {*CLASS_NAME.findall(source)} - known


def test_docstrings__name_classes_that_exist() -> None:
    modules = (ROOT / "app").rglob("*.py")
    assert unknown_classes("".join(path.read_text("utf-8") for path in modules)) == set()


def test_pages_for_contributors__name_constants_that_exist() -> None:
    pages = (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md")
    named = {*CONSTANT_NAME.findall("".join(page.read_text("utf-8") for page in pages))}
    modules = "\n".join(path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py"))
    assigned = {*re.findall(r"^([A-Z_]+)\b", modules, re.MULTILINE)}
    assert len(named) > 2
    # A variable of the environment.
    assert named - {"DATABASE_URL"} <= assigned
