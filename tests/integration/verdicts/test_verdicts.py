"""Runs beside their baselines: what is said of a drop, of chance, and of what cannot be compared."""

import pytest

from tests.integration.verdicts.conftest import Night, traces
from tests.support.service import Service

# 5 of 40 items fail on a good night: 35/40 = 0.875.
GOOD = range(5)


def test_the_first_run_has_no_verdict_and_says_why(service: Service, night: Night) -> None:
    run = night("monday", traces(GOOD))
    assert run["validity"] == "VALID"
    assert run["verdict"]["verdict"] is None
    assert run["verdict"]["reason"].startswith("first run")
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert kpi["verdict"]["verdict"] is None
    # Wilson for 35 of 40: (0.875 + z²/80 ± z·√(0.875·0.125/40 + z²/6400)) / (1 + z²/40).
    assert (kpi["intervalLow"], kpi["intervalHigh"]) == pytest.approx((0.7389, 0.9454), abs=1e-4)


def test_fifteen_items_that_fall_are_a_regression(service: Service, night: Night) -> None:
    first = night("monday", traces(GOOD))
    run = night("tuesday", traces(range(20)))
    assert run["verdict"]["verdict"] == "REGRESSED"
    assert run["verdict"]["baseline"] == {"mode": "PREVIOUS_VALID", "runIds": [first["id"]]}
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    # 20/40 after 35/40: 15 discordant items, all to the worse, p = 2 · 2^-15.
    assert kpi["verdict"]["verdict"] == "REGRESSED"
    assert kpi["verdict"]["effect"] == pytest.approx(-0.375)
    assert kpi["verdict"]["p"] < 0.001
    assert "more than chance" in kpi["verdict"]["explanation"]
    [metric] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert metric["verdict"]["verdict"] == "REGRESSED"
    assert metric["intervalLow"] < 0.5 < metric["intervalHigh"]
