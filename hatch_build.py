"""Builds the wheel: the templates of the pages are one file without comments, which compresses to two thirds of the many,
and their style sheets and scripts are minified.
"""

import json
import re
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WEB = Path("app", "core", "web")
TEMPLATES = WEB / "templates"
STATIC = WEB / "static"
# What deflate looks back, in bytes.
ZLIB_WINDOW = 2**15
COMMENT = re.compile(r"\{#.*?#\}\n?", re.DOTALL)
# The line break after a block is no part of the page (`trim_blocks`).
BLOCK_END = re.compile(r"%\}\n(?=\S)")


def shorten_template(text: str) -> str:
    """A template that renders the same page, without comments and the line breaks that are not shown."""
    return BLOCK_END.sub("%}", COMMENT.sub("", text))


def order_by_likeness(sources: dict[str, str]) -> list[str]:
    """The names of texts, each after those that it has most in common with: so they compress to the least."""
    # Its parts are in all others.
    order, earlier = ["macros.html"], sources["macros.html"].encode()
    while remaining := sources.keys() - set(order):
        name = min(sorted(remaining), key=lambda name: compressed_share(sources[name], earlier))
        order.append(name)
        earlier += sources[name].encode()
    return order


def compressed_share(text: str, earlier: bytes) -> float:
    """The share of its bytes that a text has when it is compressed after `earlier`."""
    content = text.encode()
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=earlier[-ZLIB_WINDOW:])
    return len(compressor.compress(content) + compressor.flush()) / len(content)


class PageFiles(BuildHookInterface[Any]):
    """Puts `templates.txt` beside the folder of templates, which the wheel is without, and the minified files in
    the place of those that were written.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable installation reads the folder.
        if version == "editable":
            return
        files = sorted(Path(self.root, TEMPLATES).iterdir())
        sources = {file.name: shorten_template(file.read_text("utf-8")) for file in files}
        self._temporary = tempfile.TemporaryDirectory()
        bundle = Path(self._temporary.name, "templates.txt")
        # Names and templates by turns. In JSON each quotation mark and line break would be two characters.
        parts = (part for name in order_by_likeness(sources) for part in (name, sources[name]))
        bundle.write_text("\0".join(parts), "utf-8")
        build_data["force_include"][str(bundle)] = f"{TEMPLATES.as_posix()}.txt"
        for name, text in self._minify_assets().items():
            file = Path(self._temporary.name, name)
            file.write_text(text, "utf-8")
            build_data["force_include"][str(file)] = (STATIC / name).as_posix()

    def _minify_assets(self) -> dict[str, str]:
        command = [
            sys.executable,
            "-I",
            str(Path(self.root, WEB, "minified_assets.py")),
            str(Path(self.root, STATIC)),
        ]
        assets: dict[str, str] = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603 - our own script
        )
        return assets

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != "editable":
            self._temporary.cleanup()
