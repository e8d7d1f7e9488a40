"""`python -m benchmarks large start` runs its imports as a text, which no type checker reads."""

import ast
import importlib

from benchmarks.large.start import IMPORT


def test_start_program__imports_names_that_exist() -> None:
    imports = [node for node in ast.walk(ast.parse(IMPORT)) if isinstance(node, ast.ImportFrom)]
    missing = [
        f"{node.module}.{name.name}"
        for node in imports
        for name in node.names
        if not hasattr(importlib.import_module(node.module or ""), name.name)
    ]
    assert imports
    assert missing == []
