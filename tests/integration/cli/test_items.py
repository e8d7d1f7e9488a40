"""`mosaico items`: an item that is changed keeps what the command does not name."""

import json
from pathlib import Path
from typing import Any

from tests.integration.cli.conftest import Shell

FULL = {
    "id": "gift", "input": "May I return it?", "expectedAny": ["yes", "sure"], "tags": ["post"],
    "attributes": {"user": "ada"},
}  # fmt: skip


def test_items_add__keeps_what_it_does_not_name(mosaico: Shell, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text(json.dumps(FULL) + "\n")
    mosaico.ok("items", "import", "support", file)

    def add(*options: str) -> Any:
        mosaico.ok("items", "add", "support", "--id", "gift", "--input", "May I?", *options)
        exported = mosaico.ok("items", "export", "support", tmp_path / "out.jsonl")
        assert exported.exit_code == 0
        exported_item = json.loads((tmp_path / "out.jsonl").read_text())
        return {name: value for name, value in exported_item.items() if value}

    assert add() == {**FULL, "input": "May I?"}
    assert add("--expected", "no") == {
        "id": "gift", "input": "May I?", "expectedOutput": "no", "tags": ["post"],
        "attributes": {"user": "ada"},
    }  # fmt: skip
