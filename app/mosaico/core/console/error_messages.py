"""Errors of the API in the words of a command: its options and arguments instead of fields and requests."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mosaico.core.errors import AppError, without_request

# The prefix of parameters that are fields of a request schema; the rest leads from its body to the field.
FIELD_PREFIX = "body__"
# Parameters of written commands whose names differ from those of the API.
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "after": ("start",),
    "alertConfigId": ("rule",),
    "baseline": ("base",),
    "cronExpression": ("expression",),
    "dstPolicy": ("dst",),
    "field": ("fieldName",),
    "from": ("since",),
    "rule": ("file",),
    "runId": ("run", "pin"),
    "timezone": ("zone",),
    "to": ("until",),
    "traceWindow": ("since",),
    "window": ("since",),
}
# Quoted texts are data; other words in camel case or in backticks may be fields. `replace=true` is a flag.
_FIELD_WORD = re.compile(r"('[^']*'|\"[^\"]*\")|`(\w+)`|\b([a-z]\w*)=true\b|\b([a-z]+[A-Z]\w*)\b")
# In the remedy of a field: a user of a command sends nothing.
_SENT = re.compile(r"(?:^|(?<=[;,] )|(?<=\bor ))send\b(?! again)")
_REQUEST = re.compile(r"^[Tt]he request is not valid")
_INDEX = re.compile(r"\d+")

# The command that lists the resources of which one was not found, by error code.
LIST_COMMANDS: Mapping[str, str] = {
    "agent-not-found": "agents list",
    "alert-not-found": "alerts list",
    "incident-not-found": "incidents list",
    "alert-config-not-found": "alerts rules list",
    "benchmark-not-found": "benchmarks list",
    "dataset-not-found": "datasets list",
    "item-not-found": "items list DATASET",
    "upload-trace-not-found": "datasets list",
    "unknown-dataset": "items datasets",
    "version-not-found": "items versions DATASET",
    "delivery-not-found": "notify deliveries list",
    "endpoint-not-found": "notify endpoints list",
    "kpi-not-found": "benchmarks list",
    "notification-not-found": "inbox list",
    "unknown-annotation": "annotations list",
    "run-not-found": "runs list",
    "unknown-person": "people list",
    "schedule-not-found": "schedules list",
    "silence-not-found": "alerts silences list",
    "trace-not-found": "runs traces",
    "unknown-api-key": "keys list",
}
# What to do with commands, by error code.
REMEDIES: Mapping[str, str] = {
    "agent-in-use": "`mosaico agents update AGENT --archived` hides it and keeps its history",
    "benchmark-in-use": "`mosaico benchmarks update BENCHMARK --archived` hides it and keeps its history",
    "endpoint-disabled": "`mosaico notify endpoints enable ENDPOINT` enables it",
    "not-acknowledgeable": "`mosaico alerts list --state firing` lists the alerts to acknowledge",
    "precondition-failed": "repeat the command: the command reads the resource again",
    "run-is-baseline": "`mosaico benchmarks baseline BENCHMARK --unpin` unpins it",
    "schedule-still-running": "`mosaico runs start BENCHMARK AGENT` starts a parallel run",
    "too-many-requests": "repeat the command after a few seconds",
    "object-of-other-file": "another `mosaico apply` of this file runs; repeat the command after it",
    "unknown-metric": "`mosaico plugins` lists all metrics",
    "unknown-project-object": "`mosaico apply FILE --dry-run` shows the objects of a file",
}


class _Parameter(NamedTuple):
    """A parameter of a command: how users write it, its value, and whether it repeats."""

    label: str
    value: Any
    is_list: bool


def find_remedy(code: str) -> str | None:
    """What to do about an error of the API with commands, by its code; None without a remedy."""
    list_command = LIST_COMMANDS.get(code)
    listed = f"`mosaico {list_command}` lists the existing IDs" if list_command else None
    return REMEDIES.get(code, listed)


def in_words_of_command(
    error: AppError, params: Sequence[Any], values: Mapping[str, Any]
) -> AppError:
    """An error to print in place of another one, which names the parameters of a command.

    `params` and `values` are the parameters of its context and their values.
    """
    parameters = {
        tuple(param.name.removeprefix(FIELD_PREFIX).split("_"))
        if param.name.startswith(FIELD_PREFIX)
        else (_camel(param.name),): _Parameter(
            _label(param), values.get(param.name), bool(getattr(param, "multiple", False))
        )
        for param in params
        if param.name
    }
    # A new error: some classes of errors make their texts from other arguments.
    return AppError(
        _name_values(without_request(error.detail), parameters),
        code=error.error_code,
        errors=[
            replace(
                item,
                pointer=_name_pointer(item.pointer, parameters, values.get("file")),
                detail=_name_values(item.detail, parameters),
            )
            for item in error.errors
        ],
        **error.extra,
    )


def _name_pointer(
    pointer: str, parameters: Mapping[tuple[str, ...], _Parameter], file: object
) -> str:
    """The parameter of a JSON pointer or of a query parameter; without one, its field in words."""
    if not pointer.startswith("/"):
        parameter = _find((pointer,), parameters)
        return parameter.label if parameter else pointer
    path = tuple(
        step.replace("~1", "/").replace("~0", "~") for step in pointer.removeprefix("/").split("/")
    )
    for length in range(len(path), 0, -1):
        parameter = _find(path[:length], parameters)
        # A field of --file is not an option that the user wrote.
        if parameter and not (file and parameter.value in (None, ())):
            return _describe(parameter, path[length:])
    field = _format_path(path)
    return f"{file}: {field}" if file else field


def _describe(parameter: _Parameter, subpath: tuple[str, ...]) -> str:
    """`--kpi q=ROGUE` for an error in one of several values, as the user wrote it."""
    if subpath and parameter.is_list and _INDEX.fullmatch(subpath[0]):
        values = parameter.value or ()
        index = int(subpath[0])
        if index < len(values):
            written = str(values[index])
            # A value that is not JSON has no fields that its user knows.
            inner = (
                f" ({_format_path(subpath[1:])})" if subpath[1:] and written.startswith("{") else ""
            )
            return f"{parameter.label} {written}{inner}"
    return f"{parameter.label} ({_format_path(subpath)})" if subpath else parameter.label


def _name_values(text: str, parameters: Mapping[tuple[str, ...], _Parameter]) -> str:
    """Rewrite a message about the fields of a request for the options of a command."""
    text = _REQUEST.sub("some values are not valid", text)
    return _SENT.sub("give", _name_fields(text, parameters))


def _name_fields(text: str, parameters: Mapping[tuple[str, ...], _Parameter]) -> str:
    def label(match: re.Match[str]) -> str:
        quoted, *fields = match.groups()
        name = next(filter(None, fields), None)
        parameter = _find((name,), parameters) if name and not quoted else None
        return parameter.label if parameter else match[0]

    return _FIELD_WORD.sub(label, text)


def _find(
    path: tuple[str, ...], parameters: Mapping[tuple[str, ...], _Parameter]
) -> _Parameter | None:
    *parents, name = path
    names = (name, name.removesuffix("Id"), f"{name}Id", *_PARAMETERS.get(name, ()))
    return next(filter(None, (parameters.get((*parents, other)) for other in names)), None)


def _label(param: Any) -> str:
    """`--kpi` of an option, the metavar of an argument."""
    if param.param_type_name == "option":
        return max(map(str, param.opts), key=len)
    return str(param.metavar or param.name.upper())


def _format_path(path: Sequence[str]) -> str:
    """A path as `measures[0].formula`."""
    text = "".join(f"[{step}]" if _INDEX.fullmatch(step) else f".{step}" for step in path)
    return text.removeprefix(".")


def _camel(name: str) -> str:
    first, *further_words = name.strip("_").split("_")
    return first + "".join(map(str.capitalize, further_words))
