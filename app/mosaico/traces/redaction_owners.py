"""Port of those who say what is removed from texts that arrive before the benchmark that reads them is known.

Benchmarks are a higher layer than traces, so they register themselves here.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy.orm import Session

from mosaico.traces.redaction import RedactionRules, merge_rules


class Arrival(NamedTuple):
    """What arrives: the traces of an uploaded dataset, or spans, whose trace source is `source`."""

    source: str
    dataset: str | None = None


FindRules: TypeAlias = Callable[[Session, Arrival], Sequence[RedactionRules]]
RULE_OWNERS: Final[list[FindRules]] = []


def rules_of_upload(session: Session, dataset: str) -> RedactionRules | None:
    """The rules of all that read a dataset; None without any."""
    return _find_rules(session, Arrival("local", dataset))


def rules_of_spans(session: Session) -> RedactionRules | None:
    """The rules of all that read spans: one span does not say which dataset its trace belongs to."""
    return _find_rules(session, Arrival("otel"))


def _find_rules(session: Session, arrival: Arrival) -> RedactionRules | None:
    return merge_rules(rules for find in RULE_OWNERS for rules in find(session, arrival))
