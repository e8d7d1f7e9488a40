"""What the pages add to the wheel: it is built, and its files that only pages need are counted."""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[2]
# Of pages, too, although the entry point or the API also imports them.
ALSO: Final = frozenset({"mosaico.core.web.page_text", "mosaico.core.web.static_files"})
# Files that commands write.
OTHER: Final = frozenset({"mosaico.reporting.comparison_page", "mosaico.reporting.trace_page"})
FILES: Final = ("mosaico/core/web/templates.bz2", "mosaico/core/web/static/")


def measure_pages_in_wheel() -> dict[str, int]:
    """Build the wheel; the compressed bytes of its templates, static files and modules of pages, by name."""
    modules = {f"{name.replace('.', '/')}.py" for name in find_page_modules()}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return {
                entry.filename: entry.compress_size
                for entry in archive.infolist()
                if entry.filename in modules or entry.filename.startswith(FILES)
            }


def find_page_modules() -> set[str]:
    """The modules named after pages, and those that only these import, directly or through others."""
    graph = grimp.build_graph("mosaico", cache_dir=None)
    importers = {name: graph.find_modules_that_directly_import(name) for name in graph.modules}
    pages = {name for name in graph.modules if _is_page(name.split("."))} - OTHER | ALSO
    while more := {
        name
        for name, importing in importers.items()
        # Imported by pages alone: without them, the module could be left out as well.
        if name not in pages and importing and importing <= pages
    }:
        pages |= more
    return pages


def _is_page(parts: Iterable[str]) -> bool:
    return any(part == "pages" or part.endswith(("_page", "_pages")) for part in parts)
