"""SQL text names tables of its own or of a lower layer only.

Import-linter sees imports. A table name inside a string reaches into another domain unseen, and a
rename of its column there breaks the query at run time only.
"""

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from mosaico import table_list  # noqa: F401 - registers every model
from mosaico.core.db import Base

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "app" / "mosaico"
TABLE_NAME = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO|TABLE)\s+(?:ONLY\s+)?\"?([a-z_]+)\"?")


@functools.cache
def layer_ranks() -> dict[str, int]:
    """The height of each top-level package or module of `mosaico`, 0 for the lowest layer."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(
        contract["layers"] for contract in contracts["contracts"] if contract["id"] == "layers"
    )
    return {
        name.strip(" ()"): rank
        for rank, layer in enumerate(reversed(layers))
        for name in layer.split("|")
    }


def domain_of(module: str) -> str:
    return module.split(".")[1]


@functools.cache
def table_domains() -> dict[str, str]:
    return {
        str(mapper.local_table): domain_of(mapper.class_.__module__)
        for mapper in Base.registry.mappers
    }


def sql_tables(source: str) -> Iterator[str]:
    """The names after FROM, JOIN, UPDATE and INTO in the strings of a module."""
    if not TABLE_NAME.search(source):
        return  # parsing all modules takes seconds
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from TABLE_NAME.findall(node.value)


def foreign_tables(path: Path) -> set[str]:
    """The tables that a module names in SQL although their models are in a higher or sibling layer."""
    ranks, domains = layer_ranks(), table_domains()
    domain = path.relative_to(APP).parts[0].removesuffix(".py")
    return {
        table
        for table in sql_tables(path.read_text())
        if table in domains
        and domains[table] != domain
        and ranks[domains[table]] >= ranks.get(domain, len(ranks))
    }


def test_sql_text__no_table_of_a_higher_or_sibling_layer() -> None:
    violations = {
        path.relative_to(ROOT).as_posix(): names
        for path in sorted(APP.rglob("*.py"))
        if (names := foreign_tables(path))
    }
    assert violations == {}
