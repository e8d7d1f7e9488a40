"""Reads the facts of a whole trace from its spans: its experiment, and the fields of filters."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from mosaico.core.text import replace_unstorable
from mosaico.traces.messages import parse_value
from mosaico.traces.otel.conventions import attribute_names
from mosaico.traces.otel.spans import Span

MAX_FACT_CHARS: Final = 512
MAX_METADATA: Final = 64

# The first attribute of a list that is set counts.
_DATASET: Final = ("mosaico.dataset", "langfuse.experiment.dataset.id")
_RUN: Final = ("mosaico.run", "langfuse.experiment.name")
_ITEM: Final = ("mosaico.item_id", "langfuse.experiment.item.id")
_EXPERIMENT_NAME: Final = "langfuse.observation.metadata.experiment_name"
_TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "name": ("langfuse.trace.name",),
    "user": attribute_names("user"),
    "session": attribute_names("session"),
    "environment": (
        "langfuse.environment",
        "deployment.environment.name",
        "deployment.environment",
    ),
    "release": ("langfuse.release",),
    "version": ("langfuse.version", "service.version"),
}
_TAGS: Final = ("langfuse.trace.tags", "langfuse.tags", "tag.tags")
FACT_PREFIXES: Final = ("langfuse.trace.metadata.", "mosaico.metadata.")
_METADATA_DOCUMENTS: Final = ("metadata", "langfuse.experiment.item.metadata")
SERVICE: Final = "service.name"
ITEM_ATTRIBUTES: Final = (*_DATASET, *_RUN, *_ITEM, _EXPERIMENT_NAME)
FACT_NAMES: Final = frozenset(
    (
        *chain(*_TEXTS.values(), _DATASET, _RUN, _ITEM, _TAGS, _METADATA_DOCUMENTS),
        _EXPERIMENT_NAME,
        SERVICE,
    )
)


def attributes_of_fact(name: str) -> Sequence[str]:
    """The attributes of spans that state an attribute of traces, such as `user`; none for any other name."""
    return _TEXTS.get(name, ())


class ItemKey(NamedTuple):
    """The experiment item that a span belongs to."""

    dataset: str
    run_name: str
    item_id: str


class SpanFacts(NamedTuple):
    """The item of a span, if it names dataset, run and item, and its other attributes of the trace.
    `texts` are its values of `name`, `user`, `session`, `environment`, `release`, `version`.
    """

    item: ItemKey | None = None
    texts: Mapping[str, str] = MappingProxyType({})
    tags: Sequence[str] = ()
    metadata: Mapping[str, str] = MappingProxyType({})

    def document(self) -> dict[str, object]:
        """The stated facts as they are stored; the filters of production traces read them."""
        lists = {"tags": list(self.tags), "metadata": dict(self.metadata)}
        return {**self.texts, **{name: fact for name, fact in lists.items() if fact}}


class FactReader:
    """Reads the facts of spans; keeps those of the last resource, which most spans share."""

    def __init__(self) -> None:
        self._resource: Mapping[str, Any] | None = None
        self._shared: Mapping[str, Any] = {}
        self._shared_facts = SpanFacts()

    def read(self, span: Span) -> SpanFacts:
        """The facts of a span; an attribute of its own counts before that of its resource."""
        if span.resource is not self._resource:
            self._resource = span.resource
            self._shared = dict(_relevant(span.resource))
            self._shared_facts = _read_facts(self._shared)
        own = dict(_relevant(span.attributes))
        result = _read_facts({**self._shared, **own}) if own else self._shared_facts
        if span.parent_id is None and span.name and "name" not in result.texts:
            return result._replace(texts={**result.texts, "name": _short_text(span.name)})
        return result


def _relevant(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in attributes.items():
        if value is not None and (name in FACT_NAMES or name.startswith(FACT_PREFIXES)):
            yield name, value


def _read_facts(stated: Mapping[str, Any]) -> SpanFacts:
    texts = {
        fact: text
        for fact, names in _TEXTS.items()
        if (text := _first_text(stated, names)) is not None
    }
    return SpanFacts(_read_item(stated), texts, _tags(stated), _metadata(stated))


def _read_item(stated: Mapping[str, Any]) -> ItemKey | None:
    dataset = _first_text(stated, _DATASET) or _embedded_text(stated.get(_EXPERIMENT_NAME))
    run_name, item_id = _first_text(stated, _RUN), _first_text(stated, _ITEM)
    if dataset and run_name and item_id:
        return ItemKey(dataset, run_name, item_id)
    return None


def merge_facts(facts_of_spans: Iterable[SpanFacts]) -> SpanFacts:
    """The facts of a trace: the first span that states one counts, and tags are joined."""
    texts: dict[str, str] = {}
    tags: dict[str, None] = {}
    metadata: dict[str, str] = {}
    for facts in facts_of_spans:
        tags |= dict.fromkeys(facts.tags)
        # Frameworks describe each step in the metadata of its span; those of the root come first.
        if not metadata.keys() - {SERVICE}:
            metadata = {**facts.metadata, **metadata}
        texts = {**facts.texts, **texts}
    return SpanFacts(texts=texts, tags=list(tags), metadata=metadata)


def _first_text(stated: Mapping[str, Any], names: Iterable[str]) -> str | None:
    for name in names:
        if name in stated and (text := _embedded_text(stated[name])):
            return text
    return None


def _short_text(value: Any) -> str:
    """A value as a text that is short enough for an index."""
    text = value if isinstance(value, str) else json.dumps(value)
    return replace_unstorable(text[:MAX_FACT_CHARS])


def _tags(stated: Mapping[str, Any]) -> list[str]:
    for name in _TAGS:
        value = parse_value(stated.get(name))
        if isinstance(value, list):
            return [_short_text(tag) for tag in value if isinstance(tag, str)]
    return []


def _metadata(stated: Mapping[str, Any]) -> dict[str, str]:
    metadata: dict[str, str] = {}
    for name, value in stated.items():
        if name == SERVICE:
            metadata[name] = _short_text(value)
        elif name in _METADATA_DOCUMENTS:
            document = parse_value(value)
            if isinstance(document, Mapping):
                metadata |= {_short_text(key): _short_text(part) for key, part in document.items()}
        else:
            prefix = next(filter(name.startswith, FACT_PREFIXES), None)
            if prefix is not None:
                metadata[_short_text(name.removeprefix(prefix))] = _embedded_text(value) or ""
    return dict(list(metadata.items())[:MAX_METADATA])


def _embedded_text(value: Any) -> str | None:
    """The text in a JSON string, as the Langfuse SDK and MLflow write texts; other values as they are."""
    return None if value is None else _short_text(parse_value(value))
