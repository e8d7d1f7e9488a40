"""`mosaico alerts`."""

import json
from pathlib import Path

from tests.integration.cli.conftest import Shell
from tests.support.service import Service, pair


def test_alert_rule__is_created_tested_replayed_silenced_and_deleted(
    mosaico: Shell, service: Service, tmp_path: Path
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    service.upload([pair(1, "yes", "no")])
    rule = {
        "name": "wrong answers",
        "benchmarkId": "bench-001",
        "metric": "EXACT_MATCH",
        "condition": "LESS_THAN",
    }
    file = tmp_path / "rule.json"
    file.write_text(json.dumps(rule))
    created = mosaico.ok(
        "alerts", "rules", "create", "--file", file, "--threshold", "0.5", "--id", "r-1"
    )
    assert created.stdout == "r-1\n"
    run = service.complete_run()

    [alert] = json.loads(mosaico.ok("alerts", "list", "--run", run["id"], "--json").stdout)["items"]
    assert (alert["state"], alert["value"]) == ("FIRING", 0.0)
    for filters in (["--run", "latest"], ["--run", run["id"][:13], "--state", "firing"]):
        assert (
            len(mosaico.ok("alerts", "list", *filters, "--sort", "created").stdout.splitlines())
            == 2
        )
    assert len(mosaico.ok("alerts", "list", "--severity", "info").stdout.splitlines()) == 1
    details = mosaico.ok("alerts", "show", alert["id"]).stdout
    assert "EXACT_MATCH is 0.000, below the threshold of 0.500." in details
    for name in ("latest", alert["id"][:13]):
        assert f"/alerts/events/{alert['id']}\n" in mosaico.ok("alerts", "show", name).stderr
    note = "The tool was down."
    mosaico.ok("alerts", "ack", alert["id"], "--verdict", "noise", "--note", note, "--yes")
    acknowledged = json.loads(mosaico.ok("alerts", "show", alert["id"], "--json").stdout)
    assert (acknowledged["verdict"], acknowledged["note"]) == ("noise", note)
    rule_view = json.loads(mosaico.ok("alerts", "rules", "show", "r-1", "--json").stdout)
    assert rule_view["precision"]["noise"] == 1

    trial = mosaico.ok("alerts", "rules", "test", "r-1")
    assert (
        trial.stdout == "agent-001\tBREACH\tEXACT_MATCH is 0.000, below the threshold of 0.500.\n"
    )
    # The mean of 0 is not less than 0.
    file.write_text(json.dumps({**rule, "threshold": 0}))
    replayed = mosaico.ok("alerts", "rules", "backtest", "--file", file)
    assert "HEALTHY" in replayed.stdout
    assert replayed.stderr.startswith("1 runs: 1 evaluated, 0 warm-up")
    assert mosaico("alerts", "rules", "backtest").exit_code == 2

    silence = mosaico.ok(
        "alerts", "silences", "create", "--hours", "2", "--rule", "r-1"
    ).stdout.strip()
    assert silence in mosaico.ok("alerts", "silences", "list", "--active").stdout
    dry_run = mosaico.ok("alerts", "silences", "delete", silence[:13], "--dry-run")
    assert dry_run.stderr == f"would delete silence {silence}; nothing was changed\n"
    mosaico.ok("alerts", "silences", "update", silence, "--agent", "agent-001", "--clear", "rule")
    assert service.get(f"/silences/{silence}")["matchers"]["agentId"] == "agent-001"
    assert service.get(f"/silences/{silence}")["matchers"]["alertConfigId"] is None
    mosaico.ok("alerts", "silences", "delete", silence, "--yes")
    mosaico.ok("alerts", "rules", "disable", "r-1")
    assert "r-1" in mosaico.ok("alerts", "rules", "list", "--benchmark", "bench-001").stdout
    assert service.get("/alert-configs/r-1")["enabled"] is False
    mosaico.ok("alerts", "rules", "enable", "r-1")
    mosaico.ok("alerts", "rules", "delete", "r-1", "--yes")
    assert service.list_items("/alert-configs") == []
