"""Result files of ot-bench: the report as YAML or JSON, and the journal of an unfinished run."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml
from pydantic import TypeAdapter

from mosaico.harness.mcp.report_view import result_word
from mosaico.harness.mcp.types import McpReport, ServerFacts, TaskResult
from mosaico.harness.result_file import (
    Journal,
    document_text,
    is_journal,
    newest_of,
    parse_journal,
    read_result_bytes,
    read_validated,
    write_result,
)
from mosaico.llm.conversation import MessageRole

MAX_DEPTH: Final = 200  # nesting of a YAML file: tool arguments and schemas may be deep
FORMAT: Final = "ot-bench/1"
PROGRAM: Final = "ot-bench"
HINT: Final = "name a file that `ot-bench run --output` wrote"

_REPORT: Final = TypeAdapter(McpReport)
_RESULT: Final = TypeAdapter(TaskResult)
_FACTS: Final = TypeAdapter(ServerFacts)
_SERVER: Final = "server"
_FastDumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_FastLoader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Dumper(_FastDumper):  # type: ignore[misc]
    """Writes repeated values in full: the reader refuses aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def report_document(report: McpReport) -> dict[str, Any]:
    """The report as a JSON document: attempts grouped by file, scenario and model."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for result in report.results:
        key = (result.file, result.scenario, result.model)
        groups.setdefault(key, []).append(_task_document(result))
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


def json_report(report: McpReport) -> str:
    """The report as the text of a JSON result file."""
    return document_text(report_document(report))


def yaml_report(report: McpReport) -> str:
    """The report as the text of a YAML result file."""
    # Through JSON: tuples and enums become plain lists and strings, lone surrogates become "?".
    plain = json.loads(json_report(report).encode("utf-8", "replace"))
    text: str = yaml.dump(plain, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000)
    return text


def write_report(report: McpReport, path: Path) -> None:
    """Write the result file atomically: JSON when its name ends in .json, else YAML."""
    write_result(path, json_report(report) if path.suffix == ".json" else yaml_report(report))


def read_report(path: Path) -> McpReport:
    """The run in a file, or in its journal when the run is unfinished.

    Raises: UnreadableInput when there is no such file, InvalidResultFile.
    """
    path = newest_of(path)
    raw = read_result_bytes(path)
    return read_validated(
        lambda: _report_of_journal(raw) if is_journal(path) else _load_report(_parse(raw)),
        name=str(path),
        program=PROGRAM,
        hint=HINT,
    )


def load_report(document: Any, *, name: str) -> McpReport:
    """The run in a parsed document; `name` is the file in error messages. Raises: InvalidResultFile."""
    return read_validated(lambda: _load_report(document), name=name, program=PROGRAM, hint=HINT)


def is_report(document: Any) -> bool:
    """Return whether a parsed document declares itself a result of ot-bench."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def add_result(journal: Journal, result: TaskResult) -> None:
    """Append a result to the journal of a run."""
    journal.add(_compact(result))


def add_server(journal: Journal, server: ServerFacts) -> None:
    """Append the facts of a server; later facts of the same server replace earlier ones."""
    journal.add({_SERVER: asdict(server)})


def _task_document(result: TaskResult) -> dict[str, Any]:
    fields = _compact(result)
    name = fields.pop("task")
    del fields["file"], fields["scenario"]
    return {
        "name": name,
        "result": result_word(result),
        "metrics": {
            "input_tokens": result.input_tokens,
            "output_tokens": result.output_tokens,
            "cached_tokens": result.cached_tokens,
            "cache_write_tokens": result.cache_write_tokens,
            "llm_calls": len(result.llm_calls),
            "tool_calls": len(result.tool_calls),
            "tools_used": sorted({f"{call.server}/{call.tool}" for call in result.tool_calls}),
            "duration_s": result.duration_ms / 1000,
            "cost_usd": result.cost_usd,
            "base_context": result.base_context,
            "context_growth_avg": result.context_growth_avg,
            "natural_stop": result.natural_stop,
        },
        **fields,
    }


def _compact(result: TaskResult) -> dict[str, Any]:
    """The fields of a result, in which a text of a tool is stored once.

    The messages hold the results of tools, and the response of a direct task is one.
    """
    fields = asdict(result)
    for call, text in _repeated_texts(fields):
        if call["text"] == text:
            call["text"] = None
    return fields


def _expand(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with the texts that `_compact` left out."""
    for call, text in _repeated_texts(fields):
        if call["text"] is None:
            call["text"] = text
    return fields


def _repeated_texts(fields: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Return the tool calls, each with the text that other parts may repeat."""
    blocks = (
        block["content"]
        for message in fields.get("messages") or ()
        if message["role"] == MessageRole.TOOL_RESULT
        for block in message["content"]
    )
    texts = blocks if fields.get("messages") else iter([fields.get("response")])
    return zip(fields.get("tool_calls") or (), texts, strict=False)


def _load_report(document: dict[str, Any]) -> McpReport:
    results = [
        _expand(
            {**task, "task": task["name"], "file": group["file"], "scenario": group["scenario"]}
        )
        for group in document["results"]
        for task in group["tasks"]
    ]
    return _REPORT.validate_python({**document, "results": results})


def _report_of_journal(raw: bytes) -> McpReport:
    head, entries = parse_journal(raw)
    report = _REPORT.validate_python({**head, "interrupted": True})
    results = [_RESULT.validate_python(_expand(entry)) for entry in entries if _SERVER not in entry]
    recorded_servers = [
        _FACTS.validate_python(entry[_SERVER]) for entry in entries if _SERVER in entry
    ]
    servers = {
        (server.file, server.name): server for server in (*report.servers, *recorded_servers)
    }
    return replace(report, results=(*report.results, *results), servers=tuple(servers.values()))


def _parse(raw: bytes) -> Any:
    text = raw.decode("utf-8")
    if text.lstrip().startswith("{"):
        return json.loads(text, parse_constant=_refuse)
    try:
        _require_plain_yaml(text)
        return yaml.load(text, Loader=_FastLoader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from None


def _require_plain_yaml(text: str) -> None:
    """Refuse aliases and deep nesting: both can make a small file expand without bounds."""
    depth = 0
    for event in yaml.parse(text, Loader=_FastLoader):
        if isinstance(event, yaml.AliasEvent):
            _refuse("an alias")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            _refuse(f"nesting of more than {MAX_DEPTH} levels")


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"a result file cannot contain {what}")
