"""The cache of server information."""

from mosaico.traces.sources.langfuse.catalog import TTL_S, ServerCache, ServerInfo

V4 = ServerInfo(api="v4", project_id="p-1")


def test_server_cache__entry_is_per_key_and_expires_after_an_hour() -> None:
    now = [0.0]
    servers = ServerCache(lambda: now[0])
    servers.put("https://a.example", "pk-1", V4)
    assert servers.get("https://a.example", "pk-2") is None
    now[0] = TTL_S - 1
    assert servers.get("https://a.example", "pk-1") == V4
    now[0] = TTL_S
    assert servers.get("https://a.example", "pk-1") is None
