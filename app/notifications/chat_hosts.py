"""Servers of the operator that accept the webhooks of Slack or Teams: Mattermost, relays."""

_own_hosts: set[str] = set()


def allow_chat_hosts(hosts: str) -> None:
    """Replace the allowed servers by those of a comma-separated list of host names."""
    _own_hosts.clear()
    _own_hosts.update(host.strip().lower() for host in hosts.split(",") if host.strip())


def is_own_chat_host(host: str) -> bool:
    """Return whether the operator allowed the formats of Slack and Teams for a server."""
    return host.lower() in _own_hosts
