"""A project file: what is read from it, and where its errors are."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mosaico.core.errors import AppError
from mosaico.project_file.kinds import ObjectKey, ObjectKind
from mosaico.project_file.reading import parse_project_file, read_benchmark
from mosaico.project_file.schema import json_schema

FILE = """name: support
endpoints:
  team-slack: {channel: slack, recipient: "${SLACK_URL}", dailySummary: true}
agents:
  support-bot:
    langfusePublicKey: pk-1
    langfuseSecretKey: ${LANGFUSE_SECRET_KEY}
  spare:
benchmarks:
  nightly:
    agents: [support-bot]
    datasetRef: support-questions
    metrics: [rouge, {key: BLEU, options: {smooth: exp}}]
    kpis:
      quality: {formula: "AVERAGE(ROUGE, BLEU)", minEffect: 0.02, gate: true}
    rules:
      quality-drop: {condition: REGRESSED, kpi: quality, endpoints: [team-slack]}
    schedules:
      every-night: {agent: support-bot, cronExpression: "0 0 3 * * *", timezone: Europe/Madrid}
"""
ENVIRONMENT = {
    "SLACK_URL": "https://hooks.slack.com/services/T0/B0/secret",
    "LANGFUSE_SECRET_KEY": "sk-1",
}


def read(text: str, environment: Mapping[str, str] = ENVIRONMENT) -> dict[str, dict[str, Any]]:
    content = parse_project_file(text.encode(), environment, "mosaico.yaml")
    return {item.key.path: dict(item.fields) for item in content.objects}


def errors_of(text: str, environment: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """The details of the errors of a text, by their line."""
    with pytest.raises(AppError) as raised:
        parse_project_file(text.encode(), environment, "mosaico.yaml")
    return {item.pointer.split(":")[1]: item.detail for item in raised.value.errors}


def test_file__has_the_named_fields_of_each_object_as_the_api_writes_them() -> None:
    objects = read(FILE)
    assert objects == {
        "endpoints/team-slack": {
            "channel": "SLACK",
            "recipient": "https://hooks.slack.com/services/T0/B0/secret",
            "dailySummary": True,
        },
        "agents/support-bot": {"langfusePublicKey": "pk-1", "langfuseSecretKey": "sk-1"},
        "agents/spare": {},
        "benchmarks/nightly": {
            "agents": ["support-bot"],
            "datasetRef": "support-questions",
            "metrics": [
                {"key": "ROUGE", "options": {}},
                {"key": "BLEU", "options": {"smooth": "exp"}},
            ],
        },
        "benchmarks/nightly/kpis/quality": {
            "formula": "AVERAGE(ROUGE, BLEU)", "minEffect": 0.02, "gate": True,
        },
        "benchmarks/nightly/rules/quality-drop": {
            "condition": "REGRESSED", "kpi": "quality", "endpoints": ["team-slack"],
        },
        "benchmarks/nightly/schedules/every-night": {
            "agent": "support-bot", "cronExpression": "0 0 3 * * *", "timezone": "Europe/Madrid",
        },
    }  # fmt: skip


def test_file__names_the_fields_that_come_from_the_environment() -> None:
    content = parse_project_file(FILE.encode(), ENVIRONMENT, "mosaico.yaml")
    variables = {item.key: dict(item.variables) for item in content.objects if item.variables}
    assert variables == {
        ObjectKey(ObjectKind.ENDPOINT, "team-slack"): {"recipient": "${SLACK_URL}"},
        ObjectKey(ObjectKind.AGENT, "support-bot"): {"langfuseSecretKey": "${LANGFUSE_SECRET_KEY}"},
    }


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("datasetRef:", "datasetReff:", "12", "datasetRef"),
        ("cronExpression", "cron", "19", "cronExpression"),
        ("kpi: quality", "kpl: quality", "17", "kpi"),
        ("minEffect: 0.02", "minEffect: -1", "15", "greater than 0"),
        ("[support-bot]", "[support-bott]", "11", "support-bot"),
        ("[team-slack]", "[team-mail]", "17", "team-slack"),
        ("agent: support-bot", "agent: other", "19", "agents"),
        ("${SLACK_URL}", "${SLACK_ADDRESS}", "3", "SLACK_ADDRESS"),
        ("${SLACK_URL}", "https://hooks.slack.com/services/T0/B0/x", "3", "environment"),
        ("${LANGFUSE_SECRET_KEY}", "sk-literal", "7", "environment"),
        ("${LANGFUSE_SECRET_KEY}", "$${NAME}", "7", "environment"),
        ('"${SLACK_URL}"', "${SLACK_URL}", "3", "quotes"),
        ("name: support\n", "", "1", "name"),
        ("  spare:", "  spare: {revision: 3}", "8", "revision"),
        ("  spare:", '  "spare ":', "8", "white space"),
        ("  spare:", "  support-bot:", "8", "line 5"),
        ("benchmarks:\n", "benchmark:\n", "9", "benchmarks"),
    ],
)  # fmt: skip
def test_error__has_the_line_and_the_remedy(old: str, new: str, line: str, words: str) -> None:
    errors = errors_of(FILE.replace(old, new, 1))
    assert words in errors[line]


def test_literal_secret__is_refused_in_a_part_too_and_never_shown() -> None:
    text = FILE.replace("  spare:", "  spare: {source: {kind: phoenix, secret_key: sk-literal}}")
    errors = errors_of(text)
    assert "environment" in errors["8"]
    assert "sk-literal" not in str(errors)


def test_endpoints__with_one_recipient_are_an_error() -> None:
    text = FILE.replace(
        "agents:\n", "  other: {channel: SLACK, recipient: '${SLACK_URL}'}\nagents:\n", 1
    )
    assert "team-slack" in errors_of(text)["4"]


def test_error__does_not_show_the_value_of_a_variable() -> None:
    text = FILE.replace("[support-bot]", '["${AGENT}"]')
    errors = errors_of(text, {**ENVIRONMENT, "AGENT": "sk-value"})
    assert "sk-value" not in str(errors)


def test_reference__may_come_from_a_variable() -> None:
    text = FILE.replace("[support-bot]", '["${AGENT}"]')
    objects = read(text, {**ENVIRONMENT, "AGENT": "support-bot"})
    assert objects["benchmarks/nightly"]["agents"] == ["support-bot"]


def test_dollar__is_text_where_no_brace_follows_and_two_write_a_literal() -> None:
    text = FILE.replace("  spare:", "  spare: {description: 'costs $5, see $${HOME}'}")
    assert read(text)["agents/spare"] == {"description": "costs $5, see ${HOME}"}


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "name: [x]", "x"])
def test_text__that_is_no_project_file__is_an_error_with_a_position(text: str) -> None:
    assert errors_of(text)


def test_benchmark__is_read_for_judging_without_the_variables_of_agents(tmp_path: Path) -> None:
    path = tmp_path / "mosaico.yaml"
    path.write_text(FILE)
    benchmark = read_benchmark(path, {}, None)
    assert benchmark.key.name == "nightly"
    assert benchmark.fields["measures"] == [
        {"name": "quality", "formula": "AVERAGE(ROUGE, BLEU)", "minEffect": 0.02, "gate": True}
    ]
    assert [metric["key"] for metric in benchmark.fields["metrics"]] == ["ROUGE", "BLEU"]


def test_benchmark__of_several_is_chosen_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mosaico.yaml"
    path.write_text("name: x\nbenchmarks: {first: {}, second: {metrics: [F1_SCORE]}}\n")
    assert read_benchmark(path, {}, "second").key.name == "second"
    with pytest.raises(AppError, match="first, second"):
        read_benchmark(path, {}, None)
    with pytest.raises(AppError, match="Did you mean second"):
        read_benchmark(path, {}, "secnd")


def test_schema__accepts_what_the_reader_accepts_and_completes_its_fields() -> None:
    schema = json_schema()
    validator = Draft202012Validator(json.loads(json.dumps(schema)))
    validator.validate(yaml.safe_load(FILE))
    wrong = yaml.safe_load(FILE.replace("datasetRef:", "datasetReff:"))
    assert not validator.is_valid(wrong)
    agent = schema["$defs"]["AgentEntry"]["properties"]
    assert {"langfuseSecretKey", "source", "otelServiceName"} <= agent.keys()
    assert not {"id", "revision", "llangfuseSecretKey"} & agent.keys()
