"""What is remembered of a server, and for how long."""

from app.traces.sources.langfuse.server_cache import TTL_S, ServerCache, ServerInfo

V4 = ServerInfo(api="v4", project_id="p-1")


def test_what_was_learnt_lasts_an_hour_for_that_key_alone() -> None:
    now = [0.0]
    servers = ServerCache(lambda: now[0])
    servers.put("https://a.example", "pk-1", V4)
    assert servers.get("https://a.example", "pk-2") is None
    now[0] = TTL_S - 1
    assert servers.get("https://a.example", "pk-1") == V4
    now[0] = TTL_S
    assert servers.get("https://a.example", "pk-1") is None


def test_what_turned_out_wrong_is_forgotten() -> None:
    servers = ServerCache()
    servers.put("https://a.example", "pk-1", V4)
    servers.evict("https://a.example", "pk-1")
    servers.evict("https://a.example", "pk-1")
    assert servers.get("https://a.example", "pk-1") is None
