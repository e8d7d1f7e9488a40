"""`mosaico agents`, `benchmarks`, `datasets` and `keys`."""

import json
from pathlib import Path

from tests.integration.cli.conftest import Shell
from tests.support.langfuse import run_fake_langfuse
from tests.support.service import JSON, Service, ndjson, pair
from tests.support.stored import DatabaseReader


def cells(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_agent__is_created_listed_shown_updated_and_deleted(
    mosaico: Shell, service: Service
) -> None:
    created = mosaico.ok(
        *("agents", "create", "--id", "agent-1", "--name", "Pelican"),
        *("--langfuse-url", "https://langfuse.example", "--langfuse-project", "birds"),
    )
    assert created.stdout == "agent-1\n"  # the answer alone; the news are on stderr
    assert "next: `mosaico runs start BENCHMARK agent-1`" in created.stderr

    titles, row = cells(mosaico.ok("agents", "list").stdout)
    assert titles == ["id", "name", "project", "secret", "created"]
    stored = service.get("/agents/agent-1")
    assert row == ["agent-1", "Pelican", "birds", "none", stored["createdAt"]]

    assert json.loads(mosaico.ok("agents", "list", "--format", "json").stdout) == {
        "items": [stored],
        "nextCursor": None,
    }
    assert json.loads(mosaico.ok("agents", "show", "agent-1", "--json").stdout) == stored
    assert ["langfuseProjectName", "birds"] in cells(mosaico.ok("agents", "show", "agent-1").stdout)

    assert (
        "would delete agent agent-1"
        in mosaico.ok("agents", "delete", "agent-1", "--dry-run").stderr
    )
    assert service.get("/agents/agent-1") == stored
    updated = mosaico.ok(
        "agents", "update", "agent-1", "--name", "Heron", "--clear", "langfuse-project"
    )
    assert (updated.stdout, updated.stderr) == (
        "",
        f"agent agent-1 is updated\npage: {mosaico.variables['MOSAICO_URL']}/agents/agent-1\n",
    )
    changed = service.get("/agents/agent-1")
    assert (changed["name"], changed["langfuseProjectName"]) == ("Heron", None)
    assert changed["langfuseUrl"] == "https://langfuse.example"
    mosaico.ok("agents", "delete", "agent-1", "--yes")
    assert service.get("/agents")["items"] == []


def test_agent__secret_key_is_read_from_a_file_or_stdin_and_never_shown(
    mosaico: Shell, service: Service, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a-very-secret-key\n")
    url = ("--langfuse-url", "https://langfuse.example")
    option = "--langfuse-secret-key-file"
    first = mosaico.ok("agents", "create", "--name", "A", *url, option, secret, "--json")
    second = mosaico.ok("agents", "create", "--name", "B", *url, option, "-", stdin="another-key")
    assert json.loads(first.stdout)["secretSet"] is True
    details = mosaico.ok("agents", "show", second.stdout.strip())
    for result in (first, second, details, mosaico.ok("agents", "list", "--json")):
        assert "a-very-secret-key" not in result.output
        assert "another-key" not in result.output
    assert [agent["secretSet"] for agent in service.get("/agents")["items"]] == [True, True]


def test_benchmark__is_created_from_options(mosaico: Shell, service: Service) -> None:
    created = mosaico.ok(
        *("benchmarks", "create", "--id", "bench-1", "--dataset", "support"),
        *("--metric", "ROUGE", "--metric", "ACCURACY", "--min-coverage", "0.5"),
        *(
            "--kpi",
            "quality=AVERAGE(ROUGE, ACCURACY)",
            "--kpi",
            "same = IF ROUGE >= 0 THEN 1 ELSE 0",
        ),
    )
    assert created.stdout == "bench-1\n"
    stored = service.get("/benchmarks/bench-1")
    assert [metric["key"] for metric in stored["metrics"]] == ["ROUGE", "ACCURACY"]
    assert {kpi["name"]: kpi["formula"] for kpi in stored["measures"]} == {
        "quality": "AVERAGE(ROUGE, ACCURACY)",
        "same": "IF ROUGE >= 0 THEN 1 ELSE 0",
    }
    assert stored["minCoverage"] == 0.5

    [titles, row] = cells(mosaico.ok("benchmarks", "list").stdout)
    assert dict(zip(titles, row, strict=True))["kpis"] == "quality, same"
    details = mosaico.ok("benchmarks", "show", "bench-1").stdout
    fields, kpis = details.split("\n\n")
    assert ["metrics", "ROUGE, ACCURACY"] in cells(fields)
    assert cells(kpis)[1][:2] == ["quality", "AVERAGE(ROUGE, ACCURACY)"]
    assert json.loads(mosaico.ok("benchmarks", "show", "bench-1", "--json").stdout) == stored

    mosaico.ok("benchmarks", "delete", "bench-1", "--yes")
    assert service.get("/benchmarks")["items"] == []


def test_delete__of_what_is_in_use_names_the_command_that_hides_it(
    mosaico: Shell, service: Service
) -> None:
    service.create_agent()
    service.create_benchmark(evaluates=["agent-001"])
    refused = mosaico("agents", "delete", "agent-001", "--yes")
    assert "PATCH" not in refused.stderr
    assert "hint: `mosaico agents update AGENT --archived`" in refused.stderr


def test_dataset__is_uploaded_listed_replaced_and_deleted(
    mosaico: Shell, service: Service, tmp_path: Path
) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_bytes(ndjson([pair(1), pair(2)]))
    names = ("--name", "support", "--run-name", "monday")
    uploaded = mosaico.ok("datasets", "upload", file, *names)
    [stored] = service.get("/local-datasets")["items"]
    assert uploaded.stdout == f"{stored['id']}\n"
    assert "traces stored: 2 (" in uploaded.stderr

    again = mosaico("datasets", "upload", file, *names)
    assert (again.exit_code, again.stdout) == (73, "")
    replaced = mosaico.ok(
        "datasets", "upload", "-", *names, "--replace", "--json", stdin=ndjson([pair(3)])
    )
    document = json.loads(replaced.stdout)
    assert document["traceCount"] == 1

    titles, row = cells(mosaico.ok("datasets", "list", "--name", "support").stdout)
    row_by_title = dict(zip(titles, row, strict=True))
    assert (row_by_title["name"], row_by_title["run name"], row_by_title["traces"]) == (
        "support",
        "monday",
        "1",
    )
    assert mosaico.ok("datasets", "list", "--name", "other", "--json").stdout == (
        '{"items": [], "nextCursor": null}\n'
    )
    mosaico.ok("datasets", "delete", document["id"], "--yes")
    assert service.get("/local-datasets")["items"] == []


def test_key__is_created_used_and_revoked(mosaico: Shell) -> None:
    created = mosaico.ok("keys", "create", "nightly job", "--role", "run")
    token = created.stdout.strip()
    assert token.startswith("mosaico_run_")
    assert "it is shown once" in created.stderr
    listed = json.loads(mosaico.ok("keys", "list", "--json").stdout)["items"]
    [key] = [item for item in listed if item["name"] == "nightly job"]
    assert token not in mosaico.ok("keys", "list").stdout

    runner = Shell(variables={**mosaico.variables, "MOSAICO_API_KEY": token})
    runner.ok("runs", "list")
    forbidden = runner("keys", "list")
    assert forbidden.exit_code == 77
    assert "hint: set MOSAICO_API_KEY to a key with that role" in forbidden.stderr

    assert mosaico("keys", "revoke", key["id"]).exit_code == 2
    assert "(nightly job, run)" in mosaico.ok("keys", "revoke", key["id"], "--dry-run").stderr
    runner.ok("agents", "list")
    mosaico.ok("keys", "revoke", key["id"], "--yes")
    states = [row[3] for row in cells(mosaico.ok("keys", "list").stdout)[1:]]
    assert sorted(states) == ["active", "revoked"]


def test_benchmark__baseline_is_pinned_and_unpinned_and_power_is_shown(
    mosaico: Shell, service: Service
) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY"], measures=[{"name": "right", "formula": "ACCURACY"}]
    )
    service.upload([pair(number, "yes", "no" if number < 5 else "yes") for number in range(20)])
    run = service.complete_run()
    pinned = mosaico.ok("benchmarks", "baseline", "bench-001", "--pin", run["id"])
    assert run["id"] in pinned.stdout
    assert run["id"] not in mosaico.ok("benchmarks", "baseline", "bench-001", "--unpin").stdout
    power = mosaico.ok("benchmarks", "power", "bench-001", "--drop", "0.1")
    assert "right" in power.stdout
    assert "with 80 % power" in power.stderr
    wrong = mosaico("benchmarks", "baseline", "bench-001", "--unpin", "--pin", run["id"])
    assert wrong.exit_code == 2


def test_agent__check_prints_the_server_or_what_is_wrong(mosaico: Shell, service: Service) -> None:
    with run_fake_langfuse() as langfuse:
        keys = {"langfuseUrl": langfuse.url, "langfusePublicKey": langfuse.public_key}
        service.create_agent(**keys, langfuseSecretKey=langfuse.secret_key)
        checked = cells(mosaico.ok("agents", "check", "agent-001").stdout)
        assert checked[:2] == [["source", "langfuse"], ["url", langfuse.url]]
        service.patch("/agents/agent-001", {"langfuseSecretKey": "wrong"})
        refused = mosaico("agents", "check", "agent-001", "--json")
        assert refused.exit_code == 3
        assert json.loads(refused.stdout)["errorCode"] == "LANGFUSE_AUTH"
        assert "error: LANGFUSE_AUTH: " in refused.stderr
    assert mosaico("agents", "check", "nobody").exit_code == 66


def test_run__is_deleted_after_a_question(mosaico: Shell, service: Service) -> None:
    service.create_agent()
    service.create_benchmark()
    service.upload([pair(number) for number in range(5)])
    run = service.complete_run()
    assert "would delete run" in mosaico.ok("runs", "delete", run["id"], "--dry-run").stderr
    assert service.get(f"/benchmark-runs/{run['id']}")["status"] == "COMPLETED"
    assert mosaico("runs", "delete", run["id"]).exit_code == 2, "nobody answers the question"
    mosaico.ok("runs", "delete", run["id"], "--yes")
    service.expect_problem(404, "GET", f"/benchmark-runs/{run['id']}")


def test_agent_versions__are_those_that_the_traces_record(mosaico: Shell, service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY"], measures=[{"id": "quality", "name": "quality", "formula": "ACCURACY"}]
    )
    for night, prompt in (("monday", "v14"), ("tuesday", "v15")):
        traces = [pair(n, "yes", "yes") | {"tags": [f"promptVersion:{prompt}"]} for n in range(6)]
        service.upload(traces, run_name=night)
        service.complete_run(runName=night)

    listed = mosaico.ok("agents", "versions", "agent-001", "--benchmark", "bench-001")
    titles, newest, before = cells(listed.stdout)
    assert titles == ["prompt", "model", "first run", "last run", "runs", "KPIs"]
    assert (newest[0], before[0]) == ("v15", "v14")
    assert newest[4] == "1"
    assert newest[5].startswith("quality 1")


def test_resources__are_found_by_their_names(mosaico: Shell, service: Service) -> None:
    service.create_agent("agent-001")
    service.create_benchmark("bench-001", metadata={"name": "nightly"})
    owners = {"benchmarkId": "bench-001", "agentId": "agent-001"}
    every_night = {"name": "every night", "cronExpression": "0 0 3 * * *", **owners}
    schedule = service.post("/schedule-configs", every_night)["id"]
    low: JSON = {
        "name": "quality low",
        "metric": "ROUGE",
        "condition": "LESS_THAN",
        "threshold": 0.5,
    }
    created = mosaico.ok(
        *("alerts", "rules", "create", "--name", low["name"], "--metric", "ROUGE"),
        *("--condition", "LESS_THAN", "--threshold", "0.5", "--benchmark", "nightly"),
    )
    rule = created.stdout.strip()
    assert service.get(f"/alert-configs/{rule}")["benchmarkId"] == "bench-001"

    address = mosaico.variables["MOSAICO_URL"]
    fires = mosaico.ok("schedules", "fires", "every night")
    assert fires.stderr == f"page: {address}/schedules/{schedule}\n"
    mosaico.ok("schedules", "disable", "every night")
    assert not service.get(f"/schedule-configs/{schedule}")["enabled"]
    shown = mosaico.ok("alerts", "rules", "show", "quality low")
    assert ["id", rule] in cells(shown.stdout)
    assert f"/alerts/{rule}\n" in shown.stderr
    listed = mosaico.ok("schedules", "list", "--benchmark", "nightly", "--agent", "Pelican")
    assert schedule in listed.stdout
    started = mosaico.ok("runs", "start", "nightly", "Pelican").stdout.strip()
    assert service.get(f"/benchmark-runs/{started}")["agentId"] == "agent-001"

    # An ID comes before a name.
    service.post("/alert-configs", {**low, **owners, "id": "other", "name": "quality low"})
    ambiguous = mosaico("alerts", "rules", "delete", "quality low", "--yes")
    assert ambiguous.exit_code == 2
    assert rule in ambiguous.stderr
    assert "other" in ambiguous.stderr
    service.post("/alert-configs", {**low, **owners, "id": "third", "name": "other"})
    mosaico.ok("alerts", "rules", "delete", "other", "--yes")
    assert {item["id"] for item in service.get("/alert-configs")["items"]} == {rule, "third"}
    for nothing in ("nothing of this name", "a/b", ".", ".."):
        assert mosaico("alerts", "rules", "show", nothing).exit_code == 66

    mosaico.ok("agents", "update", " Pelican ", "--archived")
    mosaico.ok("agents", "update", "Pelican", "--no-archived")
    service.create_agent("agent-002", name="Heron", archived=True)
    service.create_agent("agent-003", name="Heron")
    assert ["id", "agent-003"] in cells(mosaico.ok("agents", "show", "Heron").stdout)


def test_resource__is_found_by_its_name_among_any_number(mosaico: Shell, service: Service) -> None:
    service.create_agent("oldest")
    DatabaseReader(service.resources.db.url).execute(
        "INSERT INTO agents (id, name, archived, revision)"
        " SELECT 'agent-' || n, 'Heron ' || n, false, 1 FROM generate_series(1, 1100) AS n"
    )
    assert ["id", "oldest"] in cells(mosaico.ok("agents", "show", "Pelican").stdout)


def test_resources__are_named_in_filters_and_fields(
    mosaico: Shell, service: Service, tmp_path: Path
) -> None:
    service.create_agent("agent-001")
    service.create_benchmark("bench-001", metadata={"name": "nightly"})
    silence = mosaico.ok("alerts", "silences", "create", "--agent", "Pelican", "--hours", "1")
    matchers = service.get(f"/silences/{silence.stdout.strip()}")["matchers"]
    assert matchers["agentId"] == "agent-001"
    mistyped = mosaico("alerts", "silences", "create", "--agent", "Pelikan", "--hours", "1")
    assert mistyped.exit_code == 65
    assert len(service.get("/silences")["items"]) == 1
    weekly = mosaico.ok("benchmarks", "create", "--dataset", "support", "--agent", "Pelican")
    assert service.get(f"/benchmarks/{weekly.stdout.strip()}")["evaluates"] == ["agent-001"]
    key = mosaico.ok(*("keys", "create", "ci", "--role", "read", "--only", "nightly", "--json"))
    assert json.loads(key.stdout)["only"] == ["bench-001"]
    file = tmp_path / "traces.jsonl"
    file.write_bytes(ndjson([pair(1)]))
    names = ("--name", "support", "--run-name", "monday", "--agent", "Pelican")
    mosaico.ok("datasets", "upload", file, *names)
    assert [row["agentId"] for row in service.get("/local-datasets")["items"]] == ["agent-001"]
    filters = ("--benchmark", "nightly", "--agent", "Pelican")
    mosaico.ok("history", "list", *filters)
    mosaico.ok("history", "export", *filters)
    mosaico.ok("annotations", "export", "--benchmark", "nightly")
    assert "  nightly:" in mosaico.ok("export", "--benchmark", "nightly").stdout


def test_resource__is_not_named_by_an_empty_text(mosaico: Shell, service: Service) -> None:
    service.create_agent()
    for command in (("agents", "show"), ("agents", "delete"), ("runs", "show"), ("alerts", "why")):
        for nothing in ("", " "):
            assert mosaico(*command, nothing).exit_code == 2
