"""Which alerts a silence covers."""

from typing import Any

import pytest

from mosaico.alerts.silence_matchers import SilenceMatchers
from tests.support.fake_alerts import FakeAlert


@pytest.mark.parametrize(
    ("matchers", "is_match"),
    [
        ({"alertConfigId": "rule-1"}, True),
        ({"name": "quality*", "agentId": "agent-001"}, True),
        ({"name": "quality*", "agentId": "other"}, False),
        # Names of rules are case-sensitive, as their IDs.
        ({"name": "Quality*"}, False),
        ({"severity": "WARNING"}, False),
        ({"severity": None, "benchmarkId": "bench-001"}, True),
    ],
)
def test_silence_matchers__all_given_fields_must_match(
    matchers: dict[str, Any], is_match: bool
) -> None:
    assert SilenceMatchers.model_validate(matchers).match(FakeAlert()) is is_match
