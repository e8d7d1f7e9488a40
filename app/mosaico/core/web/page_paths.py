"""The paths of web pages: those that other parts of the service link to, such as notifications, and the navigation."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode


def path_of(*segments: str) -> str:
    """A path of escaped segments: `path_of("runs", "a/b")` is `/runs/a%2Fb`."""
    return "/" + "/".join(map(_quote_segment, segments))


def _quote_segment(text: str) -> str:
    # A client would take `..` for the path above.
    return "%2E" * len(text) if text in (".", "..") else quote(text, safe="")


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


def comparison_page_path(
    baseline_ids: Sequence[str], run_id: str, judged: Sequence[str] = ()
) -> str:
    """The page that compares a run with the mean of others; `judged` are its KPIs and metrics to judge."""
    query = {"base": baseline_ids, "run": run_id, "judge": judged}
    return f"/compare?{urlencode(query, doseq=True)}"


# Pages whose entry of the navigation has another address.
SECTIONS: Final = {
    "/compare": "/runs",
    "/incidents": "/alerts",
    "/alert-history": "/alerts",
    "/deliveries": "/endpoints",
    "/silences": "/inbox",
    "/setup": "/schedules",
}


class NavItem(NamedTuple):
    """An entry of the navigation: its text, its address, what the page is for, whether it is in the main row, and for
    admins only.
    """

    text: str
    url: str
    help: str
    is_main: bool = True
    is_admin: bool = False


NAVIGATION: Final = (
    NavItem("Morning", "/", "What is new, ongoing, recovered and judged, the runs in progress and missed schedules."),
    NavItem("Fleet", "/fleet", "Every agent on every benchmark on one screen, the worst first, with its last 14 nights."),
    NavItem("Runs", "/runs", "All runs, with filters. Select two of them to compare them; download the list as CSV."),
    NavItem("Benchmarks", "/benchmarks", "What is measured: the test sets with their metrics and KPIs."),
    NavItem("Agents", "/agents", "The programs that are measured, and where their traces come from."),
    NavItem("Inbox", "/inbox", "Messages about alerts, failed runs and missed schedules. Acknowledge and silence them here."),
    NavItem("Alerts", "/alerts", "The rules that watch a KPI or metric, with their states and a backtest."),
    NavItem("Schedules", "/schedules", "When runs start by themselves, and whether they started."),
    NavItem("Notes", "/notes", "What people wrote about runs, items and incidents.", is_main=False),
    NavItem("Datasets", "/datasets", "Uploaded files of traces.", is_main=False),
    NavItem("Formulas", "/formulas", "Try the formula of a KPI on a run; nothing is saved.", is_main=False),
    NavItem("Endpoints", "/endpoints", "The recipients of messages, and whether messages reach them.", is_main=False),
    NavItem("Triggers", "/triggers", "Webhooks and events of Langfuse that start runs.", is_main=False),
    NavItem("API keys", "/keys", "Who may use the service, and in which role.", is_main=False, is_admin=True),
    NavItem("People", "/people", "Who has logged in, and in which role.", is_main=False, is_admin=True),
    NavItem("Audit log", "/audit", "Who changed what.", is_main=False, is_admin=True),
    NavItem("Providers", "/providers", "The metrics, channels and trace sources that are installed.", is_main=False),
    NavItem("System", "/system", "Whether the service works; what is wrong comes first, with its remedy.", is_main=False),
)  # fmt: skip


def find_section(path: str) -> NavItem | None:
    """The entry that a page belongs to by its address; None for Morning and others."""
    first = "/" + path.split("/")[1]
    section = SECTIONS.get(first, first)
    return next((item for item in NAVIGATION[1:] if item.url == section), None)
