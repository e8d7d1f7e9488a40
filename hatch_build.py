"""Builds the wheel: the templates of the pages are one file without comments, which compresses to two thirds of the many,
and their style sheets and scripts are minified.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WEB = Path("app", "core", "web")
TEMPLATES = WEB / "templates"
STATIC = WEB / "static"
COMMENT = re.compile(r"\{#.*?#\}\n?", re.DOTALL)


class PageFiles(BuildHookInterface[Any]):
    """Puts `templates.json` beside the folder of templates, which the wheel is without, and the minified files in
    the place of those that were written.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable installation reads the folder.
        if version == "editable":
            return
        files = sorted(Path(self.root, TEMPLATES).iterdir())
        sources = {file.name: COMMENT.sub("", file.read_text("utf-8")) for file in files}
        # Parts before pages, pages with facts and lists together, and the short before the long ones: a text compresses
        # to less after similar ones.
        marks = ("{% extends", "facts", "pages(")
        order = sorted(
            sources,
            key=lambda name: ([mark in sources[name] for mark in marks], len(sources[name])),
        )
        self._temporary = tempfile.TemporaryDirectory()
        bundle = Path(self._temporary.name, "templates.json")
        ordered = {name: sources[name] for name in order}
        bundle.write_text(json.dumps(ordered, ensure_ascii=False), "utf-8")
        build_data["force_include"][str(bundle)] = f"{TEMPLATES.as_posix()}.json"
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
