"""Builds the wheel: the templates of the pages are one file, which compresses to two thirds of the many."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TEMPLATES = Path("app", "core", "web", "templates")


class TemplateBundle(BuildHookInterface[Any]):
    """Puts `templates.json` beside the folder of templates, which the wheel is without."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable installation reads the folder.
        if version == "editable":
            return
        folder = Path(self.root, TEMPLATES)
        sources = {file.name: file.read_text("utf-8") for file in sorted(folder.iterdir())}
        self._temporary = tempfile.TemporaryDirectory()
        bundle = Path(self._temporary.name, "templates.json")
        bundle.write_text(json.dumps(sources, ensure_ascii=False), "utf-8")
        build_data["force_include"][str(bundle)] = f"{TEMPLATES.as_posix()}.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != "editable":
            self._temporary.cleanup()
