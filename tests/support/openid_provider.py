"""Starts a real OpenID Connect provider for a test, and fills its forms as a person would."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from mosaico.core.encryption import Secret
from mosaico.core.login_settings import LoginSettings, OpenIdSettings, parse_role_rules
from mosaico.main import create_app
from tests.support.browser_sessions import HTML
from tests.support.cached_tools import python_programs
from tests.support.http import serving
from tests.support.service import Service

# Canaille, in an environment of its own: its libraries are not those of the product.
LOCKED = Path(__file__).with_name("openid_tools") / "requirements.txt"
PROGRAM = Path(__file__).with_name("openid_program.py")
CLIENT_ID, CLIENT_SECRET = "mosaico", "the secret of tests"
RULES = "ben@example.org=read, group:admins=admin"
SAME_SITE = {**HTML, "Sec-Fetch-Site": "same-origin"}


@contextmanager
def served(service: Service, login: LoginSettings, **options: Any) -> Iterator[httpx.Client]:
    """A browser of the same service with these ways to log in."""
    app = create_app(replace(service.resources, login=login), **options)
    with serving(app) as client:
        client.headers.update(SAME_SITE)
        yield client


def provider_settings(issuer: str, rules: str = RULES) -> LoginSettings:
    provider = OpenIdSettings(
        issuer=issuer,
        client_id=CLIENT_ID,
        client_secret=Secret(CLIENT_SECRET),
        scopes="openid email profile groups",
    )
    return LoginSettings(provider=provider, rules=parse_role_rules(rules))


@contextmanager
def running_provider(port: int, service: str) -> Iterator[str]:
    """The issuer of a provider on this port, which sends browsers back to the service."""
    # -P: the folder of the program has modules with the names of the standard library.
    command = [str(python_programs(LOCKED) / "python"), "-P", str(PROGRAM), str(port), service]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"listens")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def log_in_at_provider(address: str, person: str) -> str:
    """Follow the pages of the provider from the address to which the service leads; returns the way back."""
    with httpx.Client(trust_env=False, verify=False) as browser:
        response = browser.get(address)
        for _ in range(8):
            if response.is_redirect:
                target = urljoin(str(response.url), response.headers["location"])
                if urlsplit(target).path == "/login/callback":
                    return target
                response = browser.get(target)
            else:
                response = browser.post(response.url, data=filled_form(response.text, person))
        raise AssertionError(f"the provider led nowhere: {response.url}\n{response.text[:2000]}")


def filled_form(page: str, person: str) -> dict[str, str]:
    """The fields of the last form of a page: hidden ones as they are, name and password of the person, and consent."""
    fields = {
        unescape(name): unescape(value)
        for name, value in re.findall(r'name="([^"]+)"[^>]*?value="([^"]*)"', page)
        if name != "answer"
    }
    names = set(re.findall(r'name="([^"]+)"', page))
    answers = {"login": person, "password": f"password of {person}", "answer": "accept"}
    return {**fields, **{name: answers[name] for name in names & answers.keys()}}
