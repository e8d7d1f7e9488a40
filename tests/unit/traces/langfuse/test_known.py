"""What is remembered of a server, and for how long."""

from app.traces.sources.langfuse.server_cache import LASTS_S, Known, KnownServers

V4 = Known(api="v4", project_id="p-1")


def test_what_was_learnt_lasts_an_hour_for_that_key_alone() -> None:
    now = [0.0]
    servers = KnownServers(lambda: now[0])
    servers.keep("https://a.example", "pk-1", V4)
    assert servers.find("https://a.example", "pk-2") is None
    now[0] = LASTS_S - 1
    assert servers.find("https://a.example", "pk-1") == V4
    now[0] = LASTS_S
    assert servers.find("https://a.example", "pk-1") is None


def test_what_turned_out_wrong_is_forgotten() -> None:
    servers = KnownServers()
    servers.keep("https://a.example", "pk-1", V4)
    servers.forget("https://a.example", "pk-1")
    servers.forget("https://a.example", "pk-1")
    assert servers.find("https://a.example", "pk-1") is None
