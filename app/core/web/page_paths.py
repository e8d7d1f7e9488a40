"""The paths of web pages that other parts of the service link to, such as notifications."""

from urllib.parse import quote, urlencode


def comparison_page_path(baseline_id: str, run_id: str) -> str:
    """The page of a comparison of two runs."""
    return f"/compare?{urlencode({'base': baseline_id, 'run': run_id})}"


def run_page_path(run_id: str) -> str:
    """The page of a run, below the public URL of the service."""
    return f"/runs/{_segment(run_id)}"


def alert_page_path(alert_id: str) -> str:
    """The page of an alert."""
    return f"/alerts/events/{_segment(alert_id)}"


def incident_page_path(incident_id: str) -> str:
    """The page of an incident."""
    return f"/incidents/{_segment(incident_id)}"


def rule_page_path(rule_id: str) -> str:
    """The page of an alert rule."""
    return f"/alerts/{_segment(rule_id)}"


def schedule_page_path(schedule_id: str) -> str:
    """The page of a schedule."""
    return f"/schedules/{_segment(schedule_id)}"


def endpoint_page_path(endpoint_id: str) -> str:
    """The page of an endpoint."""
    return f"/endpoints/{_segment(endpoint_id)}"


def _segment(text: str) -> str:
    return quote(text, safe="")
