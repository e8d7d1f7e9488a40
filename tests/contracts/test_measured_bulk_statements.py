"""Every statement that may change many rows is measured at a million rows, or has a bound."""

import ast
import re
from collections.abc import Iterator

from benchmarks import bulk
from benchmarks.bulk_statements import BOUNDED, MEASURED, PURGE
from tests.support.processes import ROOT

STATEMENT = re.compile(r"\b(?:(?<!FOR )(?<!DO )(?<!KEY )UPDATE \w|DELETE FROM|INSERT INTO)")
BUILDERS = {"update", "delete", "delete_batch"}
# To parse a file without one of these words would find nothing.
MENTION = re.compile(rf"{STATEMENT.pattern}|\b(?:{'|'.join(BUILDERS)})\(")
TIMINGS = {
    *(PURGE.format(name) for name in bulk.ALL_PURGES),
    *(f"{method} {path}" for method, path in bulk.REQUESTS),
    bulk.DROP_DELIVERIES, bulk.HOLD_OR_RESTART, bulk.END_LINKS, bulk.RESTORE_PURGED, bulk.RESCUE,
    bulk.MISSED_SCHEDULES, bulk.ROTATION, bulk.DROP_LOST, bulk.DUE_DELIVERIES, bulk.WRITE_TRIALS,
    # Rows of `benchmarks lists` and `benchmarks schedules`.
    "L2 read-all", "S1",
}  # fmt: skip


def is_statement(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(value)):
            return STATEMENT.search(value) is not None
        case ast.Call(func=ast.Name(id=name)):
            return name in BUILDERS
    return False


def names_of(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [ast.unparse(target) for target in targets]
        case ast.AnnAssign(target=target):
            return [ast.unparse(target)]
    return []


def iter_statements(source: str) -> Iterator[str]:
    """The names of the functions and constants of a module that contain such a statement."""
    if not MENTION.search(source):
        return
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in tree.body:
        if any(is_statement(part) and id(part) not in docstrings for part in ast.walk(node)):
            yield from names_of(node)


def list_statements() -> set[str]:
    places = set()
    for path in sorted((ROOT / "app").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        places |= {f"{module}.{name}" for name in iter_statements(path.read_text(encoding="utf-8"))}
    return places


def test_iter_statements__finds_each_kind() -> None:
    source = '''
"""UPDATE runs in a docstring."""
_SET = text("UPDATE runs SET x = 1")
_LOCK = text("SELECT 1 FROM runs FOR UPDATE OF runs")
def drop(session): session.execute(delete(Run).where(Run.id == 1))
def purge(session): return delete_batch(session, Run, Run.id > 1)
def read(session): return session.scalars(select(Run))
'''
    assert list(iter_statements(source)) == ["_SET", "drop", "purge"]


def test_bulk_statements__each_is_measured_or_bounded() -> None:
    named, found = set(MEASURED) | set(BOUNDED), list_statements()

    # Name a new one in `benchmarks/bulk_statements.py`: with its timing in `benchmarks bulk`, or its bound.
    assert sorted(found - named) == []
    assert sorted(named - found) == []
    assert MEASURED.keys() & BOUNDED.keys() == set()


def test_bulk_statements__each_timing_is_printed() -> None:
    assert sorted(set(MEASURED.values()) - TIMINGS) == []
