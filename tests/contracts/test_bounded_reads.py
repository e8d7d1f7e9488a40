"""Every statement that may read many rows has a bound that its source shows, or a reason in a table."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

import pytest

from benchmarks.bulk.read_statements import (
    COMPUTATIONS,
    LIMITED,
    OF_KEYS,
    OF_ONE_OWNER,
    PARTS,
    SERVER_STATE,
)
from benchmarks.bulk.reads import READS
from benchmarks.bulk.statements import BATCHED, MEASURED, ONE_ROW
from benchmarks.bulk.statements import LIMITED as LIMITED_WRITES
from tests.support.processes import ROOT
from tests.support.syntax import iter_nodes, names_of

SELECT: Final = re.compile(r"\bSELECT\b|\bRETURNING\b")
# Functions of SQLAlchemy that begin a statement.
BUILDERS: Final = frozenset({"select", "exists"})
# A limit, a page, or a loop over batches.
BOUND: Final = re.compile(r"\blimit\(|\bLIMIT\b|\bselect_(sorted_)?page\(|\bbatched\(")
# A key that a parameter gives, and not the key of another table in a join.
KEY: Final = re.compile(r"\b(?:id|seq|digest) (?:== (?![A-Z_])|= [:%])")
MAX_ROWS: Final = 10_000
TABLES: Final = (OF_KEYS, OF_ONE_OWNER, COMPUTATIONS, PARTS, SERVER_STATE, LIMITED)


class Read(NamedTuple):
    """A function, method or constant that reads rows, and its source without its docstring."""

    name: str
    source: str

    @property
    def is_bounded(self) -> bool:
        """Return whether the source shows a limit, a page, batches, or one row by its key."""
        is_one = KEY.search(self.source) is not None and "in_(" not in self.source
        return is_one or BOUND.search(self.source) is not None


def iter_reads(source: str) -> Iterator[Read]:
    """The places of a module that read rows."""
    for prefix, node in iter_nodes(ast.parse(source)):
        names = names_of(node)
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if names and any(map(_is_read, ast.walk(node))):
            yield from (Read(prefix + name, ast.unparse(node)) for name in names)


def _is_read(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(value)):
            return SELECT.search(value) is not None
        case ast.Call(func=ast.Name(id=name)):
            return name in BUILDERS
    return False


@cache
def list_unbounded() -> frozenset[str]:
    """The full names of the places whose source shows no bound, without those that are measured as writes."""
    written = {*MEASURED, *ONE_ROW, *LIMITED_WRITES, *BATCHED}
    names = set()
    for path in sorted((ROOT / "app").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "app").with_suffix("").parts)
        for read in iter_reads(path.read_text(encoding="utf-8")):
            if not read.is_bounded:
                names.add(f"{module}.{read.name}")
    return frozenset(names - written)


@pytest.mark.parametrize(
    ("source", "is_bounded"),
    [
        ("def read(s): return s.scalars(select(Run))", False),
        ("def read(s): return s.scalars(select(Run).where(Run.id.in_(ids)))", False),
        ("def read(s): return s.scalars(select(Run).limit(7))", True),
        ("def read(s): return s.scalar(select(Run).where(Run.id == 7))", True),
        ("def read(s):\n    'SELECT, and no LIMIT'\n    return select(Run)", False),
        ("_READ = text('SELECT * FROM runs')", False),
        ("_READ = text('SELECT * FROM runs LIMIT 7')", True),
        ("_READ = text('SELECT * FROM runs WHERE id = :id')", True),
        ("_READ = text('SELECT * FROM runs JOIN agents ON agents.id = runs.agent_id')", False),
        ("_READ = text('SELECT * FROM runs WHERE seq = ANY(:runs)')", False),
        ("def read(s): return s.scalars(select(Run).join(Agent, Agent.id == Run.agent_id))", False),
    ],
)
def test_iter_reads__knows_a_bound(source: str, is_bounded: bool) -> None:
    [read] = iter_reads(source)
    assert read.is_bounded is is_bounded


def test_iter_reads__finds_statements_only() -> None:
    source = '"""SELECT in a docstring."""\nNAME = "a"\ndef read(): return names.select(1)'
    assert list(iter_reads(source)) == []


def test_reads__each_without_a_limit_is_in_one_table() -> None:
    tables = [name for table in TABLES for name in table]

    # Give a new one a limit, or name it with its reason in `benchmarks/bulk/read_statements.py`.
    assert sorted(list_unbounded() - {*tables}) == []
    assert sorted({*tables} - list_unbounded()) == []
    assert len(tables) == len({*tables})


def test_reads__each_limit_is_a_small_constant() -> None:
    limits = {}
    for name, constant in LIMITED.items():
        module, _, attribute = constant.rpartition(".")
        limits[name] = getattr(import_module(module), attribute)
    assert {name: limit for name, limit in limits.items() if not 0 < limit <= MAX_ROWS} == {}


def test_reads__each_has_a_reason() -> None:
    assert [name for table in TABLES for name, reason in table.items() if not reason.strip()] == []


def test_reads__benchmark_measures_some() -> None:
    assert len(READS) > 20
