"""Every command that asks the service prints the address of a page with its result."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_code_rules import ROOT

# They print the address in a function that they call, or what they were about is gone.
WITHOUT_AN_ADDRESS = {
    "add_delete", "demo", "purge_texts", "start_run", "_start_from",
    # They only read what another part of the command needs.
    "_upload_name", "load_items",
}  # fmt: skip


def functions_that_ask(path: Path) -> Iterator[tuple[str, bool]]:
    """The outermost functions of a file that ask the service, and whether they name the address of its pages."""
    text = path.read_text("utf-8")
    if "open_api(" not in text:
        return  # parsing all modules takes seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            source = ast.unparse(node)
            if "with open_api(" in source or ", open_api(" in source:
                yield node.name, "pages_url" in source


def test_commands__print_the_address_of_a_page() -> None:
    asking = [entry for path in (ROOT / "app").rglob("*.py") for entry in functions_that_ask(path)]
    assert len(asking) > 30
    silent = {name for name, has_address in asking if not has_address}
    # `run` is within one of the others.
    assert silent - {"run"} == WITHOUT_AN_ADDRESS
