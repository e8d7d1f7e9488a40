"""Result files: the whole report as YAML or JSON, and the journal of a run that goes on."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, NoReturn

import yaml
from pydantic import TypeAdapter, ValidationError

from app.core.console.input_files import open_input
from app.core.errors import AppError, ErrorItem
from app.core.strict_json import parse_finite_json
from app.harness.mcp.reports.figures import result_word
from app.harness.mcp.types import McpReport, ServerFacts, TaskResult

MAX_BYTES: Final = 512 * 1024 * 1024
MAX_DEPTH: Final = 200  # of arguments and schemas, and what stands around them
SHOWN: Final = 10
JOURNAL: Final = ".partial.jsonl"
FORMAT: Final = "ot-bench/1"

_REPORT: Final = TypeAdapter(McpReport)
_RESULT: Final = TypeAdapter(TaskResult)
_FACTS: Final = TypeAdapter(ServerFacts)
_SERVER: Final = "server"
_FastDumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_FastLoader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Dumper(_FastDumper):  # type: ignore[misc]
    """Writes every value out, however often it is used."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


class BadResult(AppError):
    """A file is no result of ot-bench; name one that `ot-bench run --output` wrote."""

    code = "bad-bench-result"
    status = 422
    exit_code = 2


def document_of(report: McpReport) -> dict[str, Any]:
    """The report as plain data: attempts by file, scenario and model, each with its figures."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for each in report.results:
        groups.setdefault((each.file, each.scenario, each.model), []).append(_task(each))
    return {
        "format": FORMAT,
        "timestamp": report.timestamp,
        "planned": report.planned,
        "interrupted": report.interrupted,
        "settings": report.settings,
        "servers": [asdict(server) for server in report.servers],
        "results": [
            {
                "file": file,
                "scenario": scenario,
                "model": model,
                "timestamp": report.timestamp,
                "tasks": tasks,
            }
            for (file, scenario, model), tasks in groups.items()
        ],
    }


def json_text(report: McpReport) -> str:
    return json.dumps(document_of(report), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def yaml_text(report: McpReport) -> str:
    plain = json.loads(json_text(report).encode("utf-8", "replace"))
    text: str = yaml.dump(plain, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000)
    return text


def write_report(report: McpReport, path: Path) -> None:
    """Write the file, JSON when its name ends so and else YAML, whole at any moment."""
    text = json_text(report) if path.suffix == ".json" else yaml_text(report)
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(
        "w", encoding="utf-8", errors="replace", dir=path.parent, delete=False
    ) as file:
        file.write(text)
    Path(file.name).replace(path)


def read_report(path: Path) -> McpReport:
    """The run that a file holds, or the journal beside it: that of a run which broke off later.

    Raises: UnreadableInput when there is no such file, BadResult when it holds something else.
    """
    journal = journal_of(path)
    if journal.exists():
        path = journal
    with open_input(path) as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise BadResult(f"{path} is larger than {MAX_BYTES} bytes")
    if path.name.endswith(JOURNAL):
        return _checked(lambda: _of_journal(raw), str(path))
    return _checked(lambda: _of_document(_parsed(raw)), str(path))


def report_of(document: Any, name: str) -> McpReport:
    """The run that a parsed file holds; `name` is what errors call it. Raises: BadResult."""
    return _checked(lambda: _of_document(document), name)


def is_report(document: Any) -> bool:
    """Whether a parsed file says that it is a result of ot-bench."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def journal_of(path: Path) -> Path:
    return path if path.name.endswith(JOURNAL) else path.with_name(path.name + JOURNAL)


def result_of(path: Path) -> Path:
    """The result that a journal is kept for; any other file is one itself."""
    return path.with_name(path.name.removesuffix(JOURNAL))


def _checked(read: Callable[[], McpReport], name: str) -> McpReport:
    try:
        return read()
    except ValidationError as error:
        raise BadResult(
            f"{name} is no result of ot-bench",
            errors=[
                ErrorItem(pointer="/" + "/".join(map(str, each["loc"])), detail=each["msg"])
                for each in error.errors(include_url=False, include_input=False)[:SHOWN]
            ],
            hint="name a file that `ot-bench run --output` wrote",
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadResult(
            f"{name} is no result of ot-bench: {error}",
            hint="name a file that `ot-bench run --output` wrote",
        ) from None


class Journal:
    """Keeps each result the moment it is there, one a line, until the whole file is written."""

    def __init__(self, path: Path, begun: McpReport) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = journal_of(path)
        draft = self._path.with_name(f".{self._path.name}")
        draft.write_text(_line(asdict(begun)), encoding="utf-8", errors="replace")
        draft.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8", errors="replace")

    def add(self, result: TaskResult) -> None:
        self._write(asdict(result))

    def meet(self, server: ServerFacts) -> None:
        """Keep what a server is; one that changed is there again."""
        self._write({_SERVER: asdict(server)})

    def discard(self) -> None:
        """The whole file is there: forget the journal."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> bool:
        """Write nothing more; tells whether it is still there to go on with."""
        self._file.close()
        return self._path.exists()

    def _write(self, value: dict[str, Any]) -> None:
        self._file.write(_line(value))
        self._file.flush()


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _task(result: TaskResult) -> dict[str, Any]:
    value = asdict(result)
    name = value.pop("task")
    del value["file"], value["scenario"]
    return {
        "name": name,
        "result": result_word(result),
        "metrics": {
            "input_tokens": result.input_tokens,
            "output_tokens": result.output_tokens,
            "llm_calls": len(result.llm_calls),
            "tool_calls": len(result.tool_calls),
            "tools_used": sorted({f"{each.server}/{each.tool}" for each in result.tool_calls}),
            "duration_s": result.duration_ms / 1000,
            "cost_usd": result.cost_usd,
            "base_context": result.base_context,
            "context_growth_avg": result.context_growth_avg,
            "natural_stop": result.natural_stop,
        },
        **value,
    }


def _of_document(document: dict[str, Any]) -> McpReport:
    results = [
        {**task, "task": task["name"], "file": group["file"], "scenario": group["scenario"]}
        for group in document["results"]
        for task in group["tasks"]
    ]
    return _REPORT.validate_python({**document, "results": results})


def _of_journal(raw: bytes) -> McpReport:
    """A last line that was cut off by a crash is passed over."""
    head, *lines = raw.split(b"\n")
    begun = _REPORT.validate_python({**json.loads(head), "interrupted": True})
    values = [json.loads(line) for line in lines[:-1]]
    results = [_RESULT.validate_python(value) for value in values if _SERVER not in value]
    met = [_FACTS.validate_python(value[_SERVER]) for value in values if _SERVER in value]
    servers = {(each.file, each.name): each for each in (*begun.servers, *met)}
    return replace(begun, results=(*begun.results, *results), servers=tuple(servers.values()))


def _parsed(raw: bytes) -> Any:
    text = raw.decode("utf-8")
    if text.lstrip().startswith("{"):
        return parse_finite_json(text)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_FastLoader):
            if isinstance(event, yaml.AliasEvent):
                _refuse("an alias")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                _refuse(f"more than {MAX_DEPTH} levels")
        return yaml.load(text, Loader=_FastLoader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from None


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"{what} has no place in a result")
