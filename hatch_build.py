"""Builds the wheel: the templates of the pages are one compressed file without comments, of half the size of the many,
and their style sheets and scripts are minified.
"""

import bz2
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WEB = Path("app", "mosaico", "core", "web")
INSTALLED_WEB = Path("mosaico", "core", "web")
TEMPLATES = WEB / "templates"
STATIC = WEB / "static"
COMMENT = re.compile(r"\{#.*?#\}\n?", re.DOTALL)
# The line break after a block is no part of the page (`trim_blocks`).
BLOCK_END = re.compile(r"%\}\n(?=\S)")


def shorten_template(text: str) -> str:
    """A template that renders the same page, without comments and the line breaks that are not shown."""
    return BLOCK_END.sub("%}", COMMENT.sub("", text))


class PageFiles(BuildHookInterface[Any]):
    """Puts `templates.bz2` beside the folder of templates, which the wheel is without, and the minified files in
    the place of those that were written.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable installation reads the folder.
        if version == "editable":
            return
        files = sorted(Path(self.root, TEMPLATES).iterdir())
        sources = {file.name: shorten_template(file.read_text("utf-8")) for file in files}
        self._temporary = tempfile.TemporaryDirectory()
        bundle = Path(self._temporary.name, "templates.bz2")
        # Names and templates by turns. In JSON each quotation mark and line break would be two characters.
        parts = (part for item in sources.items() for part in item)
        bundle.write_bytes(bz2.compress("\0".join(parts).encode()))
        build_data["force_include"][str(bundle)] = f"{TEMPLATES.as_posix()}.bz2"
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
