"""`mosaico apply` and `mosaico export` over the real API."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from mosaico.cli import cli
from tests.support.service import Service

pytestmark = pytest.mark.usefixtures("cheap_digests")
SECRETS = {
    "SLACK_URL": "https://hooks.slack.com/services/T0/B0/first-secret",
    "LANGFUSE_KEY": "sk-lf-first",
    "RUN_URL": "https://agent.example/run/first-secret",
}
FILE = """name: support
endpoints:
  team-slack: {channel: slack, recipient: "${SLACK_URL}", dailySummary: true}
  ops: {channel: email, recipient: ops@example.org}
agents:
  support-bot:
    description: Answers customers.
    langfusePublicKey: pk-1
    langfuseSecretKey: ${LANGFUSE_KEY}
    runUrl: ${RUN_URL}
  Second bot:
    otelServiceName: second
benchmarks:
  nightly:
    agents: [support-bot, Second bot]
    source: local
    datasetRef: support-questions
    metrics: [ROUGE, BLEU]
    kpis:
      quality: {formula: "AVERAGE(ROUGE, BLEU)", minEffect: 0.02, gate: true}
      overlap: {formula: ROUGE}
    rules:
      quality-drop: {condition: REGRESSED, kpi: quality, endpoints: [team-slack, ops]}
      low: {condition: LESS_THAN, metric: ROUGE, threshold: 0.2, agent: Second bot}
    schedules:
      every-night: {agent: support-bot, cronExpression: "0 0 3 * * *", timezone: Europe/Madrid}
"""


def run(service: Service, *words: object, environment: Mapping[str, str] = SECRETS) -> Result:
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    variables = {"MOSAICO_URL": str(service.client.base_url).rstrip("/"), "MOSAICO_API_KEY": key}
    return CliRunner().invoke(cli, [*map(str, words)], env={**variables, **environment})


def apply(
    service: Service, text: str, *options: str, environment: Mapping[str, str] = SECRETS
) -> dict[str, Any]:
    """The document of an apply that succeeds or finds conflicts, with its exit code."""
    Path("mosaico.yaml").write_text(text)
    result = run(service, "apply", "mosaico.yaml", "--json", *options, environment=environment)
    assert result.exit_code in (0, 3, 73), result.output
    return {**json.loads(result.stdout), "exit": result.exit_code}


def done(document: Mapping[str, Any]) -> dict[str, str]:
    return {step["path"]: step["action"] for step in document["steps"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snapshot(service: Service) -> dict[str, Any]:
    paths = ("/endpoints", "/agents", "/benchmarks", "/alert-configs", "/schedule-configs")
    moving = {"states", "record", "precision"}
    return {
        path: [
            {k: v for k, v in item.items() if k not in moving} for item in service.list_items(path)
        ]
        for path in paths
    }


def test_apply__creates_everything_and_a_second_one_has_nothing_to_do(service: Service) -> None:
    first = apply(service, FILE)
    assert set(done(first).values()) == {"create"}
    assert len(first["steps"]) == 10
    assert all(step["done"] for step in first["steps"])
    assert "secret" not in json.dumps(first)
    benchmark = service.get("/benchmarks/nightly")
    bots = {agent["name"]: agent["id"] for agent in service.list_items("/agents")}
    assert set(benchmark["evaluates"]) == set(bots.values())
    assert {kpi["name"] for kpi in benchmark["measures"]} == {"quality", "overlap"}
    [rule] = [r for r in service.list_items("/alert-configs") if r["name"] == "quality-drop"]
    assert set(rule["channels"]) == {"IN_APP", "SLACK", "EMAIL"}
    [schedule] = service.list_items("/schedule-configs")
    assert (schedule["agentId"], schedule["timezone"]) == (bots["support-bot"], "Europe/Madrid")

    before = snapshot(service)
    second = apply(service, FILE)
    assert (second["steps"], second["conflicts"], second["unchanged"]) == ([], [], 10)
    assert snapshot(service) == before
    assert run(service, "apply", "--dry-run").exit_code == 0


def test_order__of_objects_does_not_matter(service: Service) -> None:
    apply(service, FILE)
    content = yaml.safe_load(FILE)
    turned = {key: _reversed(content[key]) for key in reversed(content)}
    assert apply(service, yaml.safe_dump(turned, sort_keys=False))["steps"] == []


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return value


def test_dry_run__shows_the_difference_changes_nothing_and_says_so_by_its_code(
    service: Service,
) -> None:
    planned = apply(service, FILE, "--dry-run")
    assert planned["exit"] == 3
    assert len(planned["steps"]) == 10
    assert service.list_items("/agents") == []
    apply(service, FILE)
    changed = FILE.replace("Answers customers.", "Answers everybody.")
    [step] = apply(service, changed, "--dry-run")["steps"]
    assert (step["path"], step["action"]) == ("agents/support-bot", "change")
    assert step["changes"] == [
        {"field": "description", "old": "Answers customers.", "new": "Answers everybody."}
    ]
    text = run(service, "apply", "--dry-run")
    assert "Answers customers." in text.stdout
    assert "Answers everybody." in text.stdout


def test_change__of_each_kind_is_applied_and_a_field_that_is_given_up_gets_its_default(
    service: Service,
) -> None:
    apply(service, FILE)
    changed = (
        FILE.replace("Answers customers.", "Answers everybody.")
        .replace("datasetRef: support-questions", "datasetRef: other-questions")
        .replace("minEffect: 0.02, ", "")
        .replace("threshold: 0.2", "threshold: 0.3")
        .replace("0 0 3 * * *", "0 0 4 * * *")
        .replace("recipient: ops@example.org", "recipient: ops@example.org, dailySummary: true")
    )
    steps = done(apply(service, changed))
    assert steps == {
        "endpoints/ops": "change",
        "agents/support-bot": "change",
        "benchmarks/nightly": "change",
        "benchmarks/nightly/kpis/quality": "change",
        "benchmarks/nightly/rules/low": "change",
        "benchmarks/nightly/schedules/every-night": "change",
    }
    benchmark = service.get("/benchmarks/nightly")
    assert benchmark["datasetRef"] == "other-questions"
    quality = next(kpi for kpi in benchmark["measures"] if kpi["name"] == "quality")
    assert (quality["minEffect"], quality["gate"]) == (None, True)
    assert apply(service, changed)["steps"] == []


def test_secret__that_changes_in_the_environment_is_sent_and_never_shown(service: Service) -> None:
    apply(service, FILE)
    new = {**SECRETS, "LANGFUSE_KEY": "sk-lf-second"}
    shown = run(service, "apply", "--dry-run", environment=new)
    assert "langfuseSecretKey: set → ${LANGFUSE_KEY}" in shown.stdout
    [step] = apply(service, FILE, environment=new)["steps"]
    assert step["path"] == "agents/support-bot"
    assert [change["field"] for change in step["changes"]] == ["langfuseSecretKey"]
    assert "sk-lf" not in json.dumps(step)
    assert apply(service, FILE, environment=new)["steps"] == []
    stored = json.dumps(service.list_items("/project-objects"))
    assert not any(secret in stored for secret in new.values())


def test_recipient__that_changes_is_another_endpoint_and_the_former_is_left_over(
    service: Service,
) -> None:
    """Both are shown as the same text, because they end with the same four characters."""
    apply(service, FILE)
    new = {**SECRETS, "SLACK_URL": "https://hooks.slack.com/services/T0/B0/second-secret"}
    document = apply(service, FILE, environment=new)
    assert done(document) == {
        "endpoints/team-slack": "create",
        "benchmarks/nightly/rules/quality-drop": "change",
    }
    assert [leftover["path"] for leftover in document["leftovers"]] == ["endpoints/team-slack"]
    apply(service, FILE, "--prune", environment=new)
    slack = [e for e in service.list_items("/endpoints") if e["channel"] == "SLACK"]
    assert sorted(endpoint["dailySummary"] for endpoint in slack) == [False, True]
    again = apply(service, FILE, "--prune", environment=new)
    assert (again["steps"], again["leftovers"]) == ([], [])


def test_edit_on_a_page__is_a_conflict_with_its_author_and_not_overwritten(
    service: Service,
) -> None:
    apply(service, FILE)
    service.patch("/benchmarks/nightly", {"datasetRef": "of-a-page", "taskDef": "of a page"})
    changed = FILE.replace("support-questions", "other-questions")
    document = apply(service, changed)
    assert (document["exit"], document["steps"]) == (73, [])
    [conflict] = document["conflicts"]
    assert (conflict["path"], conflict["reason"]) == ("benchmarks/nightly", "edited")
    assert conflict["changes"] == [
        {"field": "datasetRef", "old": "of-a-page", "new": "other-questions"}
    ]
    [entry, *_] = service.list_items("/audit", resourceType="benchmarks", resourceId="nightly")
    assert entry["at"] in conflict["editor"]
    assert service.get("/benchmarks/nightly")["datasetRef"] == "of-a-page"
    # Of the same file, too: it says what the service should have.
    assert apply(service, FILE)["exit"] == 73
    # The file takes the value of the page, or replaces it; a field that it does not name stays.
    assert apply(service, FILE.replace("support-questions", "of-a-page"))["exit"] == 0
    service.patch("/benchmarks/nightly", {"datasetRef": "again"})
    assert apply(service, FILE, "--overwrite")["exit"] == 0
    benchmark = service.get("/benchmarks/nightly")
    assert (benchmark["datasetRef"], benchmark["taskDef"]) == ("support-questions", "of a page")


def test_object_that_was_disabled_on_a_page__is_a_conflict(service: Service) -> None:
    apply(service, FILE)
    [schedule] = service.list_items("/schedule-configs")
    service.patch(f"/schedule-configs/{schedule['id']}", {"enabled": False})
    [conflict] = apply(service, FILE)["conflicts"]
    assert conflict["changes"] == [{"field": "enabled", "old": False, "new": True}]


def test_object_that_was_deleted_on_a_page__is_a_conflict_until_it_is_overwritten(
    service: Service,
) -> None:
    apply(service, FILE)
    [schedule] = service.list_items("/schedule-configs")
    service.delete(f"/schedule-configs/{schedule['id']}")
    [conflict] = apply(service, FILE)["conflicts"]
    assert conflict["reason"] == "deleted"
    assert done(apply(service, FILE, "--overwrite")) == {
        "benchmarks/nightly/schedules/every-night": "create"
    }
    assert apply(service, FILE)["steps"] == []


def test_object_of_somebody_else__of_the_same_name_is_a_conflict_until_it_is_adopted(
    service: Service,
) -> None:
    service.create_agent("support-bot", description="of a page")
    document = apply(service, FILE)
    [conflict] = document["conflicts"]
    assert (conflict["path"], conflict["reason"], conflict["owner"]) == (
        "agents/support-bot", "exists", None,
    )  # fmt: skip
    assert service.get("/agents/support-bot")["description"] == "of a page"
    assert service.list_items("/benchmarks") == []
    assert done(apply(service, FILE, "--adopt"))["agents/support-bot"] == "change"
    assert service.get("/agents/support-bot")["description"] == "Answers customers."
    other = FILE.replace("name: support\n", "name: other\n")
    conflicts = apply(service, other)["conflicts"]
    assert {conflict["owner"] for conflict in conflicts} == {"support"}
    # Both files may send to the same endpoints.
    assert not any(conflict["path"].startswith("endpoints/") for conflict in conflicts)


def test_prune__archives_and_disables_what_the_file_no_longer_names(service: Service) -> None:
    apply(service, FILE)
    smaller = yaml.safe_load(FILE)
    del smaller["agents"]["Second bot"]
    smaller["benchmarks"]["nightly"]["agents"] = ["support-bot"]
    del smaller["benchmarks"]["nightly"]["rules"]["low"]
    del smaller["benchmarks"]["nightly"]["kpis"]["overlap"]
    del smaller["benchmarks"]["nightly"]["schedules"]
    text = yaml.safe_dump(smaller)
    kept = apply(service, text)
    assert done(kept) == {"benchmarks/nightly": "change"}
    assert len(kept["leftovers"]) == 4
    assert done(apply(service, text, "--prune")) == {
        "benchmarks/nightly/schedules/every-night": "prune",
        "benchmarks/nightly/rules/low": "prune",
        "benchmarks/nightly/kpis/overlap": "prune",
        "agents/Second bot": "prune",
    }
    assert [agent["name"] for agent in service.list_items("/agents")] == ["support-bot"]
    [schedule] = service.list_items("/schedule-configs")
    assert not schedule["enabled"]
    again = apply(service, text, "--prune")
    assert (again["steps"], again["leftovers"]) == ([], [])
    # What the file names again is in use again.
    restored = apply(service, FILE)
    assert restored["conflicts"] == []
    assert len(service.list_items("/agents")) == 2
    assert service.list_items("/schedule-configs")[0]["enabled"]
    assert apply(service, FILE)["steps"] == []


def test_prune__of_a_whole_benchmark_archives_it_and_keeps_its_runs(service: Service) -> None:
    apply(service, FILE)
    apply(service, "name: support\n", "--prune")
    assert service.list_items("/benchmarks") == []
    archived = service.get("/benchmarks/nightly")
    assert archived["archived"]
    assert len(archived["measures"]) == 2
    assert not any(rule["enabled"] for rule in service.list_items("/alert-configs"))
    assert apply(service, FILE)["conflicts"] == []
    assert not service.get("/benchmarks/nightly")["archived"]


def test_failure__in_the_middle_leaves_what_was_and_the_next_apply_continues(
    service: Service,
) -> None:
    broken = FILE.replace("metric: ROUGE, threshold", "metric: ROGUE, threshold")
    Path("mosaico.yaml").write_text(broken)
    result = run(service, "apply", "--json")
    assert result.exit_code == 65
    problem = json.loads(result.stderr)
    assert "benchmarks/nightly/rules/low" in problem["detail"]
    assert "benchmarks/nightly/kpis/quality" in problem["done"]
    assert "benchmarks/nightly/schedules/every-night" in problem["notDone"]
    assert service.list_items("/schedule-configs") == []
    continued = apply(service, FILE)
    assert set(done(continued)) == set(problem["notDone"])
    assert apply(service, FILE)["steps"] == []


def test_apply_that_was_killed_after_a_creation__continues_with_its_own_object(
    service: Service,
) -> None:
    """Between the creation and the record of it, only the announcement is there."""
    announced = {"file": "support", "path": "agents/support-bot", "kind": "agent"}
    service.post("/project-objects", {**announced, "objectId": "support-bot"})
    service.create_agent("support-bot", description="Answers customers.")
    document = apply(service, FILE)
    assert document["conflicts"] == []
    assert apply(service, FILE)["steps"] == []


def test_export__applied_to_an_empty_service_gives_the_same_export(
    service: Service, module_service: Service
) -> None:
    apply(service, FILE)
    service.post("/endpoints", {"channel": "EMAIL", "recipient": "team@example.org"})
    service.create_benchmark(
        "by-hand", metadata={"name": "By hand", "owner": "${team}"}, evaluates=["support-bot"]
    )
    first = run(service, "export")
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith("# yaml-language-server: $schema=http")
    assert "secret" not in first.stdout
    names = {
        line.split("${")[1].split("}")[0] for line in first.stdout.splitlines() if " ${" in line
    }
    environment = dict.fromkeys(names, "https://hooks.slack.com/services/T0/B0/other")
    applied = apply(module_service, first.stdout, environment=environment)
    assert applied["conflicts"] == []
    second = run(module_service, "export")
    assert without_first_line(second.stdout) == without_first_line(first.stdout)
    assert module_service.get("/benchmarks/nightly")["datasetRef"] == "support-questions"
    [by_hand] = [b for b in module_service.list_items("/benchmarks") if b["id"] != "nightly"]
    assert by_hand["metadata"] == {"name": "By hand", "owner": "${team}"}


def without_first_line(text: str) -> str:
    return text.partition("\n")[2]


def test_export__of_one_benchmark_has_its_agents_and_endpoints_only(service: Service) -> None:
    apply(service, FILE)
    service.create_agent("alone")
    service.create_benchmark("other")
    content = yaml.safe_load(run(service, "export", "--benchmark", "nightly").stdout)
    assert set(content["benchmarks"]) == {"nightly"}
    assert set(content["agents"]) == {"support-bot", "Second bot"}
    assert set(content["endpoints"]) == {"team-slack", "ops"}
    assert run(service, "export", "--benchmark", "nothing").exit_code == 66


def test_schema__is_served_without_a_key(service: Service) -> None:
    from mosaico.project_file.schema import json_schema

    answer = service.client.get("/schemas/mosaico.json", headers={"Authorization": ""})
    assert answer.json() == json_schema()


def test_apply__with_a_key_that_may_not_is_refused_before_anything(service: Service) -> None:
    key = service.post("/keys", {"name": "reader", "role": "read"})["token"]
    Path("mosaico.yaml").write_text(FILE)
    result = run(service, "apply", environment={**SECRETS, "MOSAICO_API_KEY": key})
    assert result.exit_code == 77
    assert service.list_items("/agents") == []


def test_page__example_is_applied_to_an_empty_service(service: Service) -> None:
    page = Path(__file__).parents[3] / "docs" / "project-file.md"
    example = page.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    environment = {
        "SLACK_WEBHOOK_URL": SECRETS["SLACK_URL"],
        "LANGFUSE_SECRET_KEY": SECRETS["LANGFUSE_KEY"],
    }
    assert len(apply(service, example, environment=environment)["steps"]) == 6
    assert apply(service, example, environment=environment)["steps"] == []
