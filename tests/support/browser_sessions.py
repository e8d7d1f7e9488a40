"""Browser sessions for tests: a client without a key, logins, and sessions that end."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

import httpx
from sqlalchemy import text

from tests.support.processes import until
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S

HTML = {"Accept": "text/html"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def key_of(service: Service, role: str = "admin") -> str:
    return str(service.post("/keys", {"name": f"a {role}", "role": role})["token"])


def listens(service: Service) -> bool:
    """Whether the service listens for notifications; it wakes every stream when it begins."""
    with service.resources.db.read() as session:
        count = session.scalar(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mosaico-events'"
                " AND datname = current_database() AND state = 'idle' AND query LIKE 'LISTEN%'"
            )
        )
    return bool(count)


def log_in(browser: httpx.Client, key: str, **form: str) -> httpx.Response:
    return browser.post("/login", data={"key": key, **form})


@contextmanager
def open_browser(service: Service) -> Iterator[httpx.Client]:
    """A client without a key, which keeps cookies and asks for pages, of a service that listens already."""
    until(lambda: listens(service))
    headers = {**HTML, "Sec-Fetch-Site": "same-origin"}
    url = service.client.base_url
    with httpx.Client(
        base_url=url, headers=headers, trust_env=False, verify=False, timeout=LIVENESS_S
    ) as client:
        yield client


def end_session(service: Service) -> None:
    with service.resources.db.begin() as session:
        session.execute(text("UPDATE browser_sessions SET expires_at = now() - interval '1 hour'"))


def send_ended(browser: httpx.Client, path: str, **form: Any) -> httpx.Response:
    """The answer to a form after the end of the session, which a process may remember for a second."""
    responses: list[httpx.Response] = []

    def is_refused() -> bool:
        responses.append(browser.post(path, **form))
        return responses[-1].status_code == 401

    until(is_refused)
    return responses[-1]


def hidden_fields(html: str) -> dict[str, str]:
    """The values of the hidden inputs of a page."""
    inputs = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', html)
    return {unescape(name): unescape(value) for name, value in inputs}
