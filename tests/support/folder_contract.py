"""The import-linter contract of `pyproject.toml` that keeps the modules of a folder below its subfolders."""

from collections.abc import Iterator
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class ModulesBelowSubfolders(Contract):
    """The modules of a folder do not import from its subfolders, which build on them. A root package is
    free: its modules are entry points. `exceptions` are the subfolders that a folder may import.
    """

    exceptions: Any = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        wrong_imports = sorted(self._wrong_imports(graph))
        return ContractCheck(kept=not wrong_imports, metadata={"wrong_imports": wrong_imports})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for module, imported in check.metadata["wrong_imports"]:
            output.print_error(f"{module} imports {imported}, which is in a subfolder")

    def _wrong_imports(self, graph: ImportGraph) -> Iterator[tuple[str, str]]:
        modules = {module for module in graph.modules if not graph.is_module_squashed(module)}
        folders = {module for module in modules if graph.find_children(module)}
        subfolders = {folder for folder in folders if "." in folder} - set(self.exceptions or ())
        for module in modules:
            folder = module if module in folders else module.rpartition(".")[0]
            for imported in graph.find_modules_directly_imported_by(module):
                name = imported.removeprefix(f"{folder}.").partition(".")[0]
                if "." in folder and f"{folder}.{name}" in subfolders and imported != name:
                    yield module, imported
