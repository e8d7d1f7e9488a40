"""Importing the public package costs nothing, and its modules load no more than they need."""

import subprocess
import sys

import pytest

import mosaico


def loaded_packages(statement: str) -> set[str]:
    """The top-level packages of a process after a statement."""
    program = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(completed.stdout.split())


def test_package__import_loads_nothing_of_the_application() -> None:
    assert not loaded_packages("import mosaico") & {"app", "pydantic", "httpx", "typer", "numpy"}


@pytest.mark.parametrize("module", ["metrics", "importers", "evaluators"])
def test_plugin_module__loads_neither_database_nor_numerical_libraries(module: str) -> None:
    heavy = {"sqlalchemy", "psycopg", "fastapi", "numpy", "scipy"}
    assert not loaded_packages(f"import mosaico.{module}") & heavy


def test_package__every_public_name_exists_and_is_listed() -> None:
    assert [name for name in mosaico.__all__ if not hasattr(mosaico, name)] == []
    assert {*mosaico.__all__} <= {*dir(mosaico)}


def test_package__unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'scores'"):
        _ = mosaico.scores  # type: ignore[attr-defined]
