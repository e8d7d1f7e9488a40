"""The kinds of objects in a project file, and the names of their fields; needs no schema of the API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import unquote


class ObjectKind(StrEnum):
    """A kind of object that a project file describes, in the order in which objects are created."""

    ENDPOINT = "endpoint"
    AGENT = "agent"
    BENCHMARK = "benchmark"
    KPI = "KPI"
    RULE = "rule"
    SCHEDULE = "schedule"


SECTIONS: Final[Mapping[str, ObjectKind]] = {
    "endpoints": ObjectKind.ENDPOINT,
    "agents": ObjectKind.AGENT,
    "benchmarks": ObjectKind.BENCHMARK,
}
"""The sections of a file."""

BENCHMARK_SECTIONS: Final[Mapping[str, ObjectKind]] = {
    "kpis": ObjectKind.KPI,
    "rules": ObjectKind.RULE,
    "schedules": ObjectKind.SCHEDULE,
}
"""The sections of a benchmark."""

SECTION_OF: Final = {kind: name for name, kind in {**SECTIONS, **BENCHMARK_SECTIONS}.items()}


class ObjectKey(NamedTuple):
    """The place of an object in a file; `benchmark` is the key of the benchmark that it belongs to."""

    kind: ObjectKind
    name: str
    benchmark: str | None = None

    @property
    def path(self) -> str:
        """The place as the file has it, such as `benchmarks/nightly/rules/quality-drop`.

        A slash in the name of a benchmark is `%2F`, or a part of another benchmark could have the same place.
        """
        if self.kind is ObjectKind.BENCHMARK:
            return f"benchmarks/{_quote(self.name)}"
        section = f"{SECTION_OF[self.kind]}/{self.name}"
        return f"benchmarks/{_quote(self.benchmark)}/{section}" if self.benchmark else section

    @classmethod
    def of_path(cls, kind: ObjectKind, path: str) -> "ObjectKey":
        """The object of a kind at a place that `path` gave."""
        section, _, name = path.partition("/")
        if kind is ObjectKind.BENCHMARK:
            return cls(kind, unquote(name))
        if section == SECTION_OF[kind]:
            return cls(kind, name)
        benchmark, _, part = name.split("/", 2)
        return cls(kind, part, unquote(benchmark))


def _quote(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileObject:
    """An object of a file: its fields as JSON with the names of the file, only those that it names.

    `variables` are the fields of which a part came from the environment, as the file writes them.
    """

    key: ObjectKey
    fields: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """The content of a file: the name to which its objects belong, and the objects."""

    name: str
    objects: tuple[FileObject, ...]

    def of_kind(self, kind: ObjectKind, benchmark: str | None = None) -> list[FileObject]:
        """The objects of a kind; of a benchmark, those that belong to it."""
        return [
            item
            for item in self.objects
            if item.key.kind is kind and (benchmark is None or item.key.benchmark == benchmark)
        ]
