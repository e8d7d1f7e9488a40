"""Whatever is wrong in a file of a tool: it is read, or an error says why. A row never vanishes without a line."""

import copy
import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaico.core.errors import AppError
from tests.contracts.test_importers import FILES
from tests.support.import_files import import_path
from tests.support.tool_results import TOOL_FILES, json_file, json_lines

TEXT_FILES: Final = sorted({*FILES} - {"xlsx", "parquet", "inspect"})
ODD_VALUES: Final[tuple[Any, ...]] = (
    None, [], {}, "", " ", "x", 0, -1, 1.5, True, float("nan"), float("inf"), 10**30, 10**400, [None], [1, "a"],
    {"a": 1}, {"a": {"b": [1]}}, [[[]]], "{", "{'a': 1}", "1,5", "12%", "\ud800", "2026-01-01",
    [{"role": "user", "content": "hi"}], {"role": "assistant", "content": None},
    {"error": {"message": "x"}}, [{"name": None, "score": {}}],
)  # fmt: skip
Places = tuple[str | int, ...]


def parse(content: bytes) -> tuple[str, Any]:
    """The form of a file, and its content as one value."""
    text = content.decode()
    try:
        return "json", json.loads(text)
    except ValueError:
        pass
    try:
        return "lines", [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return "csv", list(csv.DictReader(io.StringIO(text)))


def write(form: str, value: Any) -> bytes:
    if form == "json":
        return json_file(value)
    rows = value if isinstance(value, list) else [value]
    if form == "lines":
        return json_lines(*rows)
    cells = [row for row in rows if isinstance(row, dict)] or [{"a": 1}]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in cells for name in row)))
    writer.writeheader()
    writer.writerows(cells)
    return text.getvalue().encode("utf-8", "replace")


def places(value: Any, path: Places = ()) -> Iterator[Places]:
    yield path
    members: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for name, member in members:
        yield from places(member, (*path, name))


def replace(value: Any, path: Places, new: Any) -> Any:
    """The value with another member; without it for an `Ellipsis`."""
    if not path:
        return value if new is ... else new
    parent = value
    for name in path[:-1]:
        parent = parent[name]
    if new is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = new
    return value


@pytest.mark.parametrize("name", TEXT_FILES)
@settings(
    # Other ones in each run, for each of fifty tools; `make prove` makes 250.
    max_examples=settings().max_examples // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_importer__mutated_file_is_read_or_an_error_says_why(
    name: str, tmp_path: Path, data: st.DataObject
) -> None:
    form, value = parse(FILES[name]())
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([*places(value)]))
        new = data.draw(st.sampled_from([*ODD_VALUES, ...]))
        value = replace(copy.deepcopy(value), path, copy.deepcopy(new) if new is not ... else new)
    file = tmp_path / "results"
    file.write_bytes(write(form, value))
    try:
        traces = import_path(file).traces
    except AppError:
        return
    for trace in traces:
        assert trace.item_id
        texts = (trace.input, trace.output, trace.expected_output, trace.error, *trace.tags)
        assert all(text is None or isinstance(text, str) for text in texts)
        assert all(abs(score) < float("inf") for score in trace.scores.values())


@pytest.mark.parametrize("name", TEXT_FILES)
def test_importer__file_that_ends_early_is_read_or_an_error_says_why(
    name: str, tmp_path: Path
) -> None:
    content = FILES[name]()
    file = tmp_path / "results"
    for end in range(0, len(content), max(1, len(content) // 15)):
        file.write_bytes(content[:end])
        try:
            import_path(file)
        except AppError:
            continue


# These importers make one result of several rows, or name several results in one object.
_GROUPED: Final = frozenset({"mt-bench", "openai-evals-log"})
# Their rows number their trials themselves.
_NUMBERED: Final = frozenset({"phoenix", "tau-bench", "helm", "helm-stats"})
ROWS: Final = {
    name: (form, rows)
    for name, content in TOOL_FILES.items()
    for form, rows in [parse(content())]
    if isinstance(rows, list) and name not in _GROUPED
}


@pytest.mark.parametrize("name", ROWS)
def test_importer__each_row_is_one_result(name: str, tmp_path: Path) -> None:
    form, rows = ROWS[name]
    repeated = [row for row in rows for _ in range(3)]
    file = tmp_path / "results"
    file.write_bytes(write(form, repeated))
    imported = import_path(file)
    assert len(imported.traces) == len(repeated)
    if name not in _NUMBERED:
        # The same item again is a trial of its own, and this is said.
        trials = {(trace.item_id, trace.trial) for trace in imported.traces}
        assert len(trials) == len(repeated)
        assert any("are its trials" in note for note in imported.notes)


def test_lm_eval__a_document_twice_is_several_files_in_one(tmp_path: Path) -> None:
    sample = {
        "doc_id": 0,
        "doc": {},
        "target": "2",
        "filter": "none",
        "resps": [["3"]],
        "filtered_resps": ["3"],
        "metrics": ["exact_match"],
        "exact_match": 0.0,
    }
    file = tmp_path / "samples.jsonl"
    file.write_bytes(json_lines(sample, sample))
    with pytest.raises(AppError, match="twice"):
        import_path(file)
