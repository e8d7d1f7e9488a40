"""Results of EvalPlus (`…_eval_results.json`): several solutions of each task; one passes if it passes the base and the plus tests.

Source: evalplus 0.3.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table


def recognizes_evalplus(file: ImportFile) -> bool:
    """Return whether a document has solutions by task."""
    if file.container is not Container.JSON:
        return False
    tasks = object_of(object_of(file.document).get("eval"))
    return any(
        "base_status" in solution
        for of_task in tasks.values()
        for solution in objects_of(of_task)[:1]
    )


def read_evalplus(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a document, one for each solution."""
    table = ToolTable(
        columns={"item": "task_id", "output": "solution"},
        compute=read_solution,
        used=("base_*", "plus_*"),
        direction=lambda _: "higher",
    )
    return read_tool_table(file, mapping, table, _solutions(file))


def _solutions(file: ImportFile) -> Iterator[TableRow]:
    tasks = object_of(object_of(file.document).get("eval"))
    for task, solutions in tasks.items():
        for number, solution in enumerate(objects_of(solutions), start=1):
            yield TableRow(f"{task}, solution {number}", {**solution, "task_id": task})


def read_solution(row: Cells) -> Mapping[str, Any]:
    """The fields of a solution; a file of the base tests alone has no plus status."""
    base, plus = row.get("base_status"), row.get("plus_status")
    scores = {"base": float(base == "pass")}
    if plus is not None:
        scores["plus"] = float(plus == "pass")
    return {"passed": min(scores.values()), "scores": scores}


IMPORTERS.register(
    "evalplus",
    Importer(summary="results of EvalPlus", recognizes=recognizes_evalplus, read=read_evalplus),
)
