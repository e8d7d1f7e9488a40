"""The metrics that users name for files of results."""

import json
import re
from collections.abc import Iterable

from app.core.errors import Invalid
from app.metrics.registry import default_refs, parse_ref, provider_for, ref_of_column
from app.metrics.types import MetricRef

_KEY_OF_NAME = re.compile(r"[^\[{]*")


def parse_metrics(text: str) -> dict[str, MetricRef]:
    """The metrics of a comma-separated list of names, or of a JSON list as in a benchmark, which may
    have options; by their names.

    Raises: `NotFound` for an unknown metric, `Invalid` for a malformed one.
    """
    if not text.lstrip().startswith("["):
        names = [name.strip() for name in text.split(",") if name.strip()]
        return {name: ref_of_column(column_of_name(name)) for name in names}
    refs = (_parse_member(member) for member in _parse_list(text))
    return {provider_for(ref).spec.key: ref for ref in refs}


def column_of_name(name: str) -> str:
    """The column of a metric by its name or an alias, in upper or lower case.

    Raises: `NotFound` for an unknown metric.
    """
    [ref] = default_refs([_upper_key(name)])
    return provider_for(ref).spec.key


def _parse_member(member: object) -> MetricRef:
    """A name in the spelling of users, or an object with options."""
    if isinstance(member, str):
        return ref_of_column(column_of_name(member))
    return parse_ref(member)


def _parse_list(text: str) -> Iterable[object]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise Invalid(f"--metrics starts like a JSON list and is none: {error}") from error
    return values if isinstance(values, list) else [values]


def _upper_key(name: str) -> str:
    """The name with its key in upper case; the name of a score and a filter stay as they are."""
    key = _KEY_OF_NAME.match(name)
    return name if key is None else key[0].upper() + name[key.end() :]
