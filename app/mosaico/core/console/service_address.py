"""The address of the service, and the API key for it."""

import ipaddress
import os
from typing import NamedTuple

import httpx

from mosaico.core.errors import Misconfigured
from mosaico.core.public_url import find_public_url
from mosaico.core.secret_files import ADMIN_KEY_FILE, read_secret_file
from mosaico.core.settings import Settings, base_url, load_settings


class ServiceAddress(NamedTuple):
    """URL of the service, the API key for it, and the source of that key."""

    url: str
    key: str | None
    key_source: str


def find_service() -> ServiceAddress:
    """The address of the service and the API key to send.

    The key is MOSAICO_API_KEY. Without it, the administrator's key is used, but only for a service
    on this machine: it is never sent anywhere else.
    Raises: `UnsafeSecretFile`, `Misconfigured`.
    """
    # The address of a request, copied from Swagger or a log, is as good.
    url = os.environ.get("MOSAICO_URL", "").strip().rstrip("/").removesuffix("/api/v1")
    key = os.environ.get("MOSAICO_API_KEY", "").strip()
    # Both given: the settings are not read, and a command works without any configuration of the
    # service.
    if not (url and key):
        settings = load_settings()
        url = url or base_url(settings)
    _check_url(url)
    if key:
        return ServiceAddress(url, key, "MOSAICO_API_KEY")
    # A wrong MOSAICO_URL must not send the administrator's key to a foreign server.
    if not _is_loopback(url):
        return ServiceAddress(url, None, "none, because MOSAICO_API_KEY is not set")
    return _local_admin_address(url, settings)


def find_pages_url(service_url: str) -> str:
    """The base of the addresses of pages that people open: MOSAICO_PUBLIC_URL, if it is set."""
    return find_public_url() or service_url


def _local_admin_address(url: str, settings: Settings) -> ServiceAddress:
    configured = settings.admin_key.get_secret_value().strip() if settings.admin_key else ""
    if configured:
        return ServiceAddress(url, configured, "MOSAICO_ADMIN_KEY")
    path = settings.data_dir / ADMIN_KEY_FILE
    key = read_secret_file(path)
    return ServiceAddress(url, key, str(path) if key else f"none, because {path} does not exist")


def _check_url(url: str) -> None:
    try:
        parsed = httpx.URL(url)
        # A password in the URL would appear in messages and in the process list.
        is_valid = parsed.scheme in ("http", "https") and bool(parsed.host) and not parsed.userinfo
    except httpx.InvalidURL:
        is_valid = False
    if not is_valid:
        raise Misconfigured(
            "MOSAICO_URL is not a valid HTTP address",
            hint="write it as http://127.0.0.1:8080, or unset it",
        )


def _is_loopback(url: str) -> bool:
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
