"""Every statement that may change many rows has a bound."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from sqlalchemy import Table, UniqueConstraint

from mosaico.table_list import METADATA
from tests.support.bulk_statements import BATCHED, LIMITED, ONE_ROW, UNLIMITED
from tests.support.processes import ROOT
from tests.support.syntax import iter_nodes, names_of

# FOR UPDATE and NO KEY UPDATE are locks, and DO UPDATE is part of an INSERT.
STATEMENT: Final = re.compile(
    r"\b(?:(?<!FOR )(?<!DO )(?<!KEY )UPDATE \w|DELETE FROM|INSERT INTO|MERGE INTO|TRUNCATE \w|FROM STDIN)"
)
# Functions of SQLAlchemy and of `mosaico.core`, under whatever name a module imports them, and methods of sessions.
BUILDERS: Final = {"update", "delete", "insert"}
BULK_FUNCTIONS: Final = {
    "delete_all", "delete_batch", "copy_encoded_rows", "copy_encoded_file",
}  # fmt: skip
BULK_METHODS: Final = {
    "add_all", "executemany", "executescript", "batch_defer", "batch_defer_jobs",
    "bulk_insert_mappings", "bulk_save_objects", "bulk_update_mappings",
}  # fmt: skip
# What the text of a module with such a statement contains: parsing all modules takes seconds.
HINT: Final = re.compile(
    rf"{STATEMENT.pattern}|{'|'.join(BUILDERS | BULK_FUNCTIONS | BULK_METHODS)}"
)
# Those that make or run the statements of others, which are listed at their callers.
TOOLS: Final = {
    "mosaico.core.batch_delete.delete_all", "mosaico.core.batch_delete.delete_batch",
    "mosaico.core.bulk_copy._open_copy", "mosaico.core.db._build_insert",
}  # fmt: skip
MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 32 * 1024**2
# Tables of the job engine are not ours.
KEYS_OF_OTHERS: Final = {
    "alembic_version": [["version_num"]],
    "procrastinate_jobs": [["id"]],
    "procrastinate_workers": [["id"]],
}


class Place(NamedTuple):
    """A function, method or constant that contains a statement; its source with that of its private functions.

    With `is_batched` each use of the statement is in a loop over `batched`, or it is `delete_all`.
    """

    name: str
    source: str
    is_batched: bool


def iter_statements(source: str) -> Iterator[Place]:
    """The functions, methods and constants of a module that contain such a statement."""
    tree = ast.parse(source)
    imported = dict(_iter_imports(tree))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    docstrings = set(_iter_docstrings(tree))
    for owner, node in iter_nodes(tree):
        parts = (part for part in ast.walk(node) if id(part) not in docstrings)
        if any(_is_statement(part, imported) for part in parts):
            called = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            helpers = [functions[name] for name in called & functions.keys() if name[0] == "_"]
            source_of_node = "\n".join(map(ast.unparse, [node, *helpers]))
            yield from (
                Place(owner + name, source_of_node, _is_batched(name, node, functions, imported))
                for name in names_of(node) or [ast.unparse(node)]
            )


def _is_batched(
    name: str,
    node: ast.stmt,
    functions: Mapping[str, ast.FunctionDef],
    imported: dict[str, str],
) -> bool:
    """Whether a function sends its statements in batches, or each function that uses a constant sends that."""
    is_function = isinstance(node, ast.FunctionDef)
    uses, batched_uses = list[int](), set[int]()
    for function in [node] if is_function else functions.values():
        for part in ast.walk(function):
            is_constant = isinstance(part, ast.Name) and part.id == name
            if _is_statement(part, imported) if is_function else is_constant:
                uses.append(id(part))
            match part:
                case ast.For(iter=ast.Call(func=ast.Name(id="batched"))):
                    batched_uses.update(map(id, ast.walk(part)))
                case ast.Call(func=ast.Name(id="delete_all")):
                    batched_uses.add(id(part))
    return bool(uses) and batched_uses.issuperset(uses)


def _iter_docstrings(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body[:1]:
                case [ast.Expr(value=ast.Constant() as docstring)]:
                    yield id(docstring)


def _iter_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each name that a module imports, and the full name of what it is."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((name.asname or name.name, f"{module}.{name.name}") for name in names)
            case ast.Import(names=names):
                yield from (
                    (name.asname or name.name.partition(".")[0], name.name) for name in names
                )


def _is_statement(node: ast.AST, imported: dict[str, str]) -> bool:
    match node:
        case ast.Constant(value=str(value)):
            return STATEMENT.search(value) is not None
        case ast.Call(func=ast.Name(id=name)):
            return imported.get(name, "").rpartition(".")[2] in BUILDERS | BULK_FUNCTIONS
        case ast.Call(func=ast.Attribute(attr=name)) if name in BULK_METHODS | BULK_FUNCTIONS:
            return True
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in BUILDERS:
            text = ast.unparse(owner)
            module = imported.get(text.partition(".")[0], "")
            return module.startswith(("sqlalchemy", "mosaico.")) or "__table__" in text
    return False


@cache
def list_statements() -> dict[str, Place]:
    """Each place in the service with such a statement, by its full name."""
    statements = {}
    for path in sorted((ROOT / "app").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not HINT.search(text):
            continue
        module = ".".join(path.relative_to(ROOT / "app").with_suffix("").parts)
        for statement in iter_statements(text):
            statements[f"{module}.{statement.name}"] = statement
    return {name: statement for name, statement in statements.items() if name not in TOOLS}


def keys_of(table_name: str) -> list[list[str]]:
    """The columns of each key of a table."""
    if table_name in KEYS_OF_OTHERS:
        return KEYS_OF_OTHERS[table_name]
    table: Table = METADATA.tables[table_name]
    unique = [
        constraint for constraint in table.constraints if isinstance(constraint, UniqueConstraint)
    ]
    return [
        [column.name for column in table.primary_key.columns],
        *([column.name for column in constraint.columns] for constraint in unique),
    ]


def selects_one_row(source: str, table_name: str) -> bool:
    """Whether a statement compares each column of a key, or inserts the values of one row."""
    if re.search(r"INSERT INTO[^;]*\bVALUES \(", source):
        return True
    # Rows are passed as a list, whose name is a plural.
    if re.search(r"\binsert\(\w+\)\.values\((?!\w*s\))", source):
        return True
    return any(
        all(re.search(rf"\b{column}\b\s*==?\s", source) for column in key)
        for key in keys_of(table_name)
    )


def test_bulk_statements__each_is_in_one_table() -> None:
    tables = [*ONE_ROW, *LIMITED, *BATCHED, *UNLIMITED]

    # Name a new one in `tests/support/bulk_statements.py`.
    assert sorted(list_statements().keys() - {*tables}) == []
    assert sorted({*tables} - list_statements().keys()) == []
    assert len(tables) == len({*tables})


def test_bulk_statements__of_many_rows_are_sent_in_batches() -> None:
    statements = list_statements()
    assert [name for name in BATCHED if not statements[name].is_batched] == []


def test_bulk_statements__of_one_row_select_it_by_a_key() -> None:
    statements = list_statements()
    assert [
        name
        for name, table in ONE_ROW.items()
        if not selects_one_row(statements[name].source, table)
    ] == []


def test_bulk_statements__each_limit_is_a_small_constant() -> None:
    limits = {}
    for name, constant in LIMITED.items():
        module, _, attribute = constant.rpartition(".")
        limits[name] = (constant, getattr(import_module(module), attribute))
    too_large = {
        name: limit
        for name, (constant, limit) in limits.items()
        if not 0 < limit <= (MAX_BYTES if constant.endswith("BYTES") else MAX_ROWS)
    }
    assert too_large == {}
