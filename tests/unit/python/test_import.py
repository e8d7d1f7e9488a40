"""Importing the public package costs nothing, and its modules load no more than they need."""

import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import mosaico
import mosaico.formula
import mosaico.plugins
from tests.support.waiting import LIVENESS_S


def loaded_packages(statement: str) -> set[str]:
    """The top-level packages of a process after a statement."""
    program = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    completed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIVENESS_S,
    )
    return set(completed.stdout.split())


def test_package__import_loads_nothing_of_the_application() -> None:
    assert not loaded_packages("import mosaico") & {"pydantic", "httpx", "typer", "numpy"}


def test_plugins__load_neither_database_nor_numerical_libraries() -> None:
    names = "MetricSpec, Trace, Importer, read_table, Check, Evaluator"
    heavy = {"sqlalchemy", "psycopg", "fastapi", "numpy"}
    assert not loaded_packages(f"from mosaico.plugins import {names}") & heavy


@pytest.mark.parametrize("module", [mosaico, mosaico.plugins, mosaico.formula])
def test_package__every_public_name_exists_and_is_listed(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert {*module.__all__} <= {*dir(module)}


@pytest.mark.parametrize("package", [mosaico, mosaico.formula])
def test_package__no_public_name_is_a_submodule(package: ModuleType) -> None:
    """The first import of such a module would replace the public object."""
    submodules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not submodules & {*package.__all__}


def test_package__unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'scores'"):
        _ = mosaico.scores  # type: ignore[attr-defined]
