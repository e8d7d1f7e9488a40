"""The names of IANA time zones."""

from functools import cache
from zoneinfo import available_timezones


@cache
def zone_names() -> frozenset[str]:
    """The names that mean the same zone on each machine."""
    # `localtime` is the zone of the machine, and `Factory` means that none was chosen.
    return frozenset(available_timezones()) - {"localtime", "Factory"} | {"UTC"}
