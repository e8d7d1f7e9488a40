"""The parts of modules that tests read by their syntax."""

import ast
from collections.abc import Iterator


def iter_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The nodes of a module and of its classes, with the prefix of their names."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.", part) for part in node.body)
        else:
            yield "", node


def names_of(node: ast.stmt) -> list[str]:
    """The names that a function or an assignment defines; none of another statement."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [ast.unparse(target) for target in targets]
        case ast.AnnAssign(target=target):
            return [ast.unparse(target)]
    return []
