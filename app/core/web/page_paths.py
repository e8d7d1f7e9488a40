"""The paths of web pages that other parts of the service link to, such as notifications."""

from functools import partial
from typing import Final
from urllib.parse import quote, urlencode


def path_of(*segments: str) -> str:
    """A path of escaped segments: `path_of("runs", "a/b")` is `/runs/a%2Fb`."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


# The page of one of each, by its ID.
run_page_path: Final = partial(path_of, "runs")
alert_page_path: Final = partial(path_of, "alerts", "events")
incident_page_path: Final = partial(path_of, "incidents")
rule_page_path: Final = partial(path_of, "alerts")
schedule_page_path: Final = partial(path_of, "schedules")
endpoint_page_path: Final = partial(path_of, "endpoints")


def page_parameter(name: str) -> str:
    """What a filter of the API is called on pages: `agent` for `agentId`, `rule` for `alertConfigId`."""
    return "rule" if name == "alertConfigId" else name.removesuffix("Id")


def trace_page_path(run_id: str, trace_id: str) -> str:
    """The page of a trace of a run."""
    return path_of("runs", run_id, "traces", trace_id)


def comparison_page_path(baseline_id: str, run_id: str) -> str:
    """The page of a comparison of two runs."""
    return f"/compare?{urlencode({'base': baseline_id, 'run': run_id})}"
