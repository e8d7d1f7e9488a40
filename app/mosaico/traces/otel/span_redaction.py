"""Removes from received spans what benchmarks do not want stored, before it is known which benchmark reads them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mosaico.traces.otel.facts import ITEM_ATTRIBUTES, attributes_of_fact
from mosaico.traces.otel.spans import RejectedSpan, Span
from mosaico.traces.redaction import RedactionRules, Redactor


def redact_spans(
    spans: Iterable[Span | RejectedSpan], rules: RedactionRules | None
) -> Iterator[Span | RejectedSpan]:
    """The spans without what the rules remove, in their attributes, events, resource, name and status."""
    if rules is None:
        yield from spans
        return
    redactor = Redactor(_with_conventions(rules))
    resource, redacted_resource = None, {}
    for span in spans:
        if isinstance(span, RejectedSpan):
            yield span
            continue
        # Most spans share it, and readers of their facts look whether it is the same object.
        if span.resource is not resource:
            resource, redacted_resource = span.resource, _redact(redactor, span.resource)
        yield span._replace(
            name=redactor.text(span.name),
            status_message=redactor.text(span.status_message),
            attributes=_redact(redactor, span.attributes),
            events=tuple(
                event._replace(attributes=_redact(redactor, event.attributes))
                for event in span.events
            ),
            resource=redacted_resource,
        )


def _with_conventions(rules: RedactionRules) -> RedactionRules:
    """The rules with the names that conventions give to an attribute of traces, such as `user`."""
    names = (name for path in rules.paths for name in (path, *attributes_of_fact(path)))
    return rules.model_copy(update={"paths": list(dict.fromkeys(names))})


def _redact(redactor: Redactor, attributes: Mapping[str, Any]) -> dict[str, Any]:
    # The names of datasets, runs and items stay: they connect spans with runs.
    kept = {name: attributes[name] for name in ITEM_ATTRIBUTES if name in attributes}
    return {**redactor.value(attributes), **kept}
