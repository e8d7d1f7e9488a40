"""Writes the objects of a service as the text of a project file. Pure.

Fields with default values are left out. Secrets are variables of the environment, because the service does not show
them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import yaml

from mosaico.core.edits import is_same_json
from mosaico.core.text import map_json_texts
from mosaico.core.url_syntax import is_redacted
from mosaico.project_file.kinds import BENCHMARK_SECTIONS, ObjectKey, ObjectKind
from mosaico.project_file.steps import ObjectNames, ServiceState, StoredObject, key_of
from mosaico.project_file.vocabulary import JSON, default_of, editable_fields

_VARIABLES_NOTE: Final = "Secrets are variables of the environment: the service does not show them."
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9]+")
# An agent without keys of Langfuse shows the server of the service.
_LANGFUSE_FIELDS: Final = ("langfuseProjectName", "langfuseUrl", "langfusePublicKey")


def export_text(
    state: ServiceState, name: str, benchmark_ids: Sequence[str], first_line: str
) -> str:
    """The text of a file with the objects of a service that are in use; of some benchmarks, what they need."""
    chosen = _choose_objects(state, benchmark_ids)
    writer = _Writer(chosen, _find_names(state, chosen))
    document = {"name": name, **writer.sections()}
    text = yaml.dump(
        document,
        Dumper=_ProjectDumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=False,
    )
    note = f"# {_VARIABLES_NOTE}\n" if writer.has_secrets else ""
    return f"{first_line}\n{note}{text}"


def file_name_of(state: ServiceState) -> str:
    """The name of the only file that the objects of a service belong to; otherwise `mosaico`."""
    files = {record.file for record in state.records}
    return files.pop() if len(files) == 1 else "mosaico"


class _ProjectDumper(yaml.SafeDumper):
    """Writes what the reader of project files takes: no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of the library
        return True

    def represent_text(self, text: str) -> yaml.Node:
        """Quotes what the reader would take for a number, such as 1e5: it reads YAML 1.2, and the library writes 1.1."""
        style = "'" if text[:1] in _BEFORE_NUMBERS else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BEFORE_NUMBERS: Final = tuple("+-.0123456789")
_ProjectDumper.add_representer(str, _ProjectDumper.represent_text)


def _choose_objects(state: ServiceState, benchmark_ids: Sequence[str]) -> list[StoredObject]:
    """The objects in use; archived ones are history."""
    in_use = [item for item in state.objects if not item.fields.get("archived")]
    benchmarks = {
        item.id
        for item in in_use
        if item.kind is ObjectKind.BENCHMARK and (not benchmark_ids or item.id in benchmark_ids)
    }
    parts = [
        item
        for item in in_use
        if item.benchmark_id in benchmarks
        or (item.kind is ObjectKind.BENCHMARK and item.id in benchmarks)
    ]
    # An archived agent, too, is part of what a benchmark evaluates.
    agents = {agent for item in parts for agent in item.fields.get("agents", ())}
    agents |= {item.fields["agent"] for item in parts if item.fields.get("agent")}
    recipients = {text for item in parts for text in item.fields.get("recipients", ())}
    needed: Mapping[ObjectKind, Callable[[StoredObject], bool]] = {
        ObjectKind.AGENT: lambda item: item.id in agents,
        ObjectKind.ENDPOINT: lambda item: item.fields["recipient"] in recipients,
    }
    others = [
        item
        for item in state.objects
        if item.kind in needed
        and (needed[item.kind](item) or (not benchmark_ids and not item.fields.get("archived")))
    ]
    return [*others, *parts]


def _find_names(state: ServiceState, chosen: Sequence[StoredObject]) -> ObjectNames:
    """A key for each object: that of its file, otherwise its name; where two have one name, the ID is added."""
    records = {(record.kind, record.object_id): record for record in state.records}
    names = ObjectNames()
    for item in sorted(chosen, key=lambda one: list(ObjectKind).index(one.kind)):
        record = records.get((item.kind, item.id))
        benchmark = (
            names.name_of(ObjectKind.BENCHMARK, item.benchmark_id) if item.benchmark_id else None
        )
        name = key_of(record).name if record is not None else _own_name(item)
        key = ObjectKey(item.kind, name, benchmark)
        if key in names.ids:
            suffix = len(names.ids) if item.kind is ObjectKind.ENDPOINT else item.id
            key = ObjectKey(item.kind, f"{name} {suffix}", benchmark)
        names.add(key, item.id)
    return names


def _own_name(item: StoredObject) -> str:
    return (
        str(item.fields["channel"]).lower()
        if item.kind is ObjectKind.ENDPOINT
        else str(item.fields["name"])
    )


class _Writer:
    """The fields of each object as a file has them."""

    def __init__(self, objects: Sequence[StoredObject], names: ObjectNames) -> None:
        self._names = names
        self._objects = sorted(objects, key=lambda item: names.keys[item.kind, item.id].path)
        self._endpoints = [item for item in self._objects if item.kind is ObjectKind.ENDPOINT]
        self.has_secrets = False

    def sections(self) -> JSON:
        """The sections of the file, without empty ones."""
        sections = {
            "endpoints": self._mapping(ObjectKind.ENDPOINT),
            "agents": self._mapping(ObjectKind.AGENT),
            "benchmarks": {
                self._key(item).name: self._fields(item) | self._parts(item)
                for item in self._objects
                if item.kind is ObjectKind.BENCHMARK
            },
        }
        return {name: section for name, section in sections.items() if section}

    def _parts(self, benchmark: StoredObject) -> JSON:
        parts = {
            section: self._mapping(kind, benchmark.id)
            for section, kind in BENCHMARK_SECTIONS.items()
        }
        return {name: part for name, part in parts.items() if part}

    def _mapping(self, kind: ObjectKind, benchmark_id: str | None = None) -> JSON:
        return {
            self._key(item).name: self._fields(item)
            for item in self._objects
            if item.kind is kind and item.benchmark_id == benchmark_id
        }

    def _key(self, item: StoredObject) -> ObjectKey:
        return self._names.keys[item.kind, item.id]

    def _fields(self, item: StoredObject) -> JSON:
        key = self._key(item)
        shown = _written_texts(dict(self._names.in_words_of_file(item.fields)))
        match item.kind:
            case ObjectKind.ENDPOINT:
                shown["recipient"] = self._recipient(key, str(shown["recipient"]))
            case ObjectKind.AGENT:
                shown |= self._credentials(key, shown)
            case ObjectKind.RULE:
                shown |= self._targets(shown)
                # What follows from the condition.
                if shown["keepFiringForRuns"] == (0 if shown["condition"] == "REGRESSED" else 1):
                    del shown["keepFiringForRuns"]
            case ObjectKind.BENCHMARK:
                shown["metadata"] = {
                    **shown["metadata"],
                    **({"name": shown["name"]} if shown["name"] != key.name else {}),
                }
        if item.kind in (ObjectKind.BENCHMARK, ObjectKind.KPI) or shown.get("name") == key.name:
            shown.pop("name", None)
        order = [*editable_fields(item.kind), "endpoints"]
        fields = {
            name: shown[name]
            for name in order
            if name in shown and not _is_default(item.kind, name, shown[name])
        }
        if "metrics" in fields:
            metrics = fields["metrics"]
            fields["metrics"] = [one if one["options"] else one["key"] for one in metrics]
        return fields

    def _recipient(self, key: ObjectKey, recipient: str) -> str:
        return self._variable(key, "recipient") if is_redacted(recipient) else recipient

    def _credentials(self, key: ObjectKey, shown: Mapping[str, Any]) -> JSON:
        """The trace source of an agent: the `langfuse…` fields of Langfuse, `source` of another tool."""
        fields: JSON = {"langfuseSecretKey": None}
        source = shown["source"]
        is_langfuse = source is not None and source["kind"] == "langfuse"
        if source is not None and not is_langfuse:
            fields["source"] = {
                name: value
                for name, value in source.items()
                if value is not None and name != "secretSet"
            }
            if source["secretSet"]:
                fields["source"]["secretKey"] = self._variable(key, "sourceSecretKey")
        else:
            fields["source"] = None
        if not is_langfuse:
            fields |= dict.fromkeys(_LANGFUSE_FIELDS)
        elif shown["langfuseSecretKey"]:
            fields["langfuseSecretKey"] = self._variable(key, "langfuseSecretKey")
        if shown["runUrl"] is not None:
            fields["runUrl"] = self._variable(key, "runUrl")
        return fields

    def _targets(self, shown: Mapping[str, Any]) -> JSON:
        """The channels and recipients of a rule, as names of endpoints where they have one."""
        channels, endpoints, others = list(shown["channels"]), [], []
        for recipient in shown["recipients"]:
            matches = [
                item
                for item in self._endpoints
                if item.fields["channel"] in channels and item.fields["recipient"] == recipient
            ]
            endpoints += [self._key(item).name for item in matches]
            others += [] if matches else [recipient]
        used = {self._names.ids[ObjectKey(ObjectKind.ENDPOINT, name)] for name in endpoints}
        own = [
            channel
            for channel in channels
            if channel not in {i.fields["channel"] for i in self._endpoints if i.id in used}
        ]
        return {"channels": own, "recipients": others, "endpoints": endpoints}

    def _variable(self, key: ObjectKey, field: str) -> str:
        self.has_secrets = True
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", field)
        name = _NOT_A_NAME.sub("_", f"{key.name}_{words}").strip("_").upper()
        return f"${{{name if not name[0].isdigit() else f'_{name}'}}}"


def _written_texts(fields: JSON) -> JSON:
    """The fields as texts of a file: no text is a variable, and parts have no members without a value."""
    escaped: JSON = map_json_texts(fields, lambda text: text.replace("${", "$${"))
    return {
        name: value if name == "metadata" else _without_nothing(value)
        for name, value in escaped.items()
    }


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value


def _is_default(kind: ObjectKind, name: str, value: Any) -> bool:
    default = [] if name == "endpoints" else default_of(kind, name)
    return is_same_json(default, value)
