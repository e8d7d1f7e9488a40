"""Log records of refusals."""

from structlog.testing import capture_logs

from mosaico.core.web.refusal_log import RefusalLog


def test_refusal_log__one_record_per_reason_and_interval() -> None:
    refusals = RefusalLog("connection refused")
    with capture_logs() as records:
        for _ in range(1000):
            refusals.record("malformed request", "127.0.0.1")
        refusals.record("too many connections", "127.0.0.1")
    assert [(record["event"], record["reason"], record["count"]) for record in records] == [
        ("connection refused", "malformed request", 1),
        ("connection refused", "too many connections", 1),
    ]
