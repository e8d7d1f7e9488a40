"""The metrics that the options of a gate name."""

import re

from app.metrics.registry import default_refs, provider_for

_KEY_OF_NAME = re.compile(r"[^\[{]*")


def column_of_name(name: str) -> str:
    """The column of a metric by its name or an alias, in upper or lower case.

    Raises: `NotFound` for an unknown metric, `Invalid` for one that needs options.
    """
    [ref] = default_refs([_upper_key(name)])
    return provider_for(ref).spec.key


def _upper_key(name: str) -> str:
    """The name with its key in upper case; the name of a score and a filter stay as they are."""
    key = _KEY_OF_NAME.match(name)
    return name if key is None else key[0].upper() + name[key.end() :]
