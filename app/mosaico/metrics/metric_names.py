"""The metrics that users name for files of results."""

import json
import re
from collections.abc import Iterable

from mosaico.core.errors import Invalid
from mosaico.core.parameter_names import parameter_name
from mosaico.metrics.registry import default_refs, parse_ref, provider_for, ref_of_column
from mosaico.metrics.types import MetricRef

_KEY_OF_NAME = re.compile(r"[^\[{]*")
# Commas and colons in the name of a score or in a filter separate nothing: SCORE["a:b"], {lang="de"}.
_QUOTED = r"\[[^\]]*\]|\{[^}]*\}"
_METRIC = re.compile(rf"(?:{_QUOTED}|[^,\[{{])+")
_PART = re.compile(rf"(?:{_QUOTED}|[^:\[{{])+")


def parse_metrics(text: str) -> dict[str, MetricRef]:
    """The metrics of a comma-separated list such as `BLEU,ROUGE:useStemmer=true`, or of a JSON list
    as in a benchmark; by their names.

    Raises: `NotFound` for an unknown metric, `Invalid` for a malformed one.
    """
    if not text.lstrip().startswith("["):
        members = [member.strip() for member in _METRIC.findall(text) if member.strip()]
        return dict(map(_parse_name, members))
    refs = (_parse_member(member) for member in _parse_list(text))
    return {provider_for(ref).spec.key: ref for ref in refs}


def column_of_name(name: str) -> str:
    """The column of a metric by its name or an alias, in upper or lower case.

    Raises: `NotFound` for an unknown metric.
    """
    [ref] = default_refs([upper_key(name)])
    return provider_for(ref).spec.key


def _parse_name(text: str) -> tuple[str, MetricRef]:
    """`ROUGE`, or a name with options as `ROUGE:useStemmer=true`; numbers, `true` and `false` are
    those of JSON, any other value is a text.
    """
    name, *parts = _PART.findall(text)
    if not parts:
        return name, ref_of_column(column_of_name(name))
    options = {}
    for part in parts:
        option, equals, value = (word.strip() for word in part.partition("="))
        if not (option and equals and value):
            raise Invalid(
                f"{parameter_name('--metrics')} {text}: {part!r} does not have the form OPTION=VALUE"
            )
        options[option] = _parse_value(value)
    ref = parse_ref({"key": column_of_name(name), "options": options})
    return provider_for(ref).spec.key, ref


def _parse_value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _parse_member(member: object) -> MetricRef:
    """A name in the spelling of users, or an object with options."""
    if isinstance(member, str):
        return ref_of_column(column_of_name(member))
    return parse_ref(member)


def _parse_list(text: str) -> Iterable[object]:
    try:
        values = json.loads(text)
    except ValueError as error:
        name = parameter_name("--metrics")
        raise Invalid(f"{name} starts like a JSON list and is none: {error}") from error
    return values if isinstance(values, list) else [values]


def upper_key(name: str) -> str:
    """The name with its key in upper case; the name of a score and a filter stay as they are."""
    key = _KEY_OF_NAME.match(name)
    return name if key is None else key[0].upper() + name[key.end() :]
