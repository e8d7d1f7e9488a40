"""Benchmark files: parsing, errors with positions, expansion of variables."""

import pytest

from mosaico.harness.lint import LintSeverity
from mosaico.harness.mcp.config import (
    McpBenchmark,
    benchmark_schema,
    split_prompts,
)
from mosaico.harness.mcp.loader import (
    LoadedFile,
    require_valid,
)
from mosaico.harness.mcp.yaml_parser import MAX_BYTES, InvalidYaml, SourcePosition, parse_yaml
from tests.support.mcp_files import SCENARIO, bench, errors, inspected, task
from tests.support.texts import assert_names

pytestmark = pytest.mark.usefixtures("loaded_evaluators")


def warnings(file: LoadedFile) -> list[str]:
    return [finding.text for finding in file.findings if finding.severity is LintSeverity.WARNING]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # YAML 1.1 reads `no` as false, 012 as 10, 1:30 as 90, 1_000 as 1000, and a date.
        ("no", "no"),
        ("012", 12),
        ("1:30", "1:30"),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("~", None),
        ("", None),
        ("True", True),
        ("'true'", "true"),
        ("2026-11-22", "2026-11-22"),
        ("1_000", "1_000"),
        ("+7", 7),
    ],
)
def test_yaml_parser__plain_scalars_follow_core_schema(text: str, value: object) -> None:
    read = parse_yaml(f"a: {text}\n".encode()).value["a"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        (b"a: &x 1\nb: 2", SourcePosition(1, 4), "aliases"),
        (b"a: *x", SourcePosition(1, 4), "aliases"),
        (b"a: 1\nb: 2\na: 3", SourcePosition(3, 1), "the key 'a' is already on line 1"),
        (b"a: !!python/name:os.system x", SourcePosition(1, 4), "tag"),
        (b"a: [1,\n  2", SourcePosition(2, 4), "expected ',' or ']'"),
        (b"a: 1\n---\nb: 2\n", SourcePosition(2, 1), "single document"),
        (b"a:\n  b: .nan", SourcePosition(2, 6), "not a JSON number"),
        (b"? [a]\n: 1", SourcePosition(1, 3), "a key must be a text"),
        (b"a: 1\nb: \xff", SourcePosition(2, 1), "not UTF-8"),
        (b"a\nb: \x00", SourcePosition(2, 1), "character"),
        # One level above the limit. A lone surrogate is no valid
        # UTF-8, so Postgres cannot store it.
        (b"[" * 65 + b"]" * 65, SourcePosition(1, 65), "more than 64 levels"),
        (b'a: "x\\uD800y"', SourcePosition(1, 4), "a lone surrogate"),
        (b'"\\uDC00": 1', SourcePosition(1, 1), "a lone surrogate"),
        (b"#" * (MAX_BYTES + 1), SourcePosition(1, 1), "larger than"),
    ],
)
def test_yaml_parser__rejected_text_is_reported_with_position(
    text: bytes, position: SourcePosition, message: str
) -> None:
    with pytest.raises(InvalidYaml) as raised:
        parse_yaml(text)
    assert raised.value.position == position
    assert message in raised.value.text


def test_benchmark__defaults_are_those_of_the_specification() -> None:
    benchmark = bench(inspected(SCENARIO))
    assert benchmark.defaults.timeout == 120
    assert benchmark.defaults.model == "openai/gpt-5-mini"
    assert benchmark.defaults.system_prompt is None


def test_loader__unknown_key_is_reported_with_position_and_suggestion() -> None:
    file = inspected(task("prompt: hi\ntag: [compare]"))
    assert errors(file) == ["b.yaml:6:9 unknown key 'tag'. Did you mean tags?"]


def test_loader__all_errors_of_a_file_are_reported_together() -> None:
    file = inspected(
        "servers:\n  a:\n    type: stdio\n    comand: x\n  b:\n    type: http\n    url: ftp://x\n"
        "scenarios:\n  - name: s\n    tasks: []\n"
    )
    positions = [error.split()[0] for error in errors(file)]
    assert positions == ["b.yaml:4:5", "b.yaml:7:10", "b.yaml:10:12"]


@pytest.mark.parametrize("url", ["http:///mcp", "http://127.0.0.1:99999/mcp", "http://a:b/mcp"])
def test_http_server__url_without_host_or_with_invalid_port_is_an_error(url: str) -> None:
    server = f"servers:\n  web:\n    type: http\n    url: {url}\n"
    [error] = errors(inspected(server + task("prompt: hi")))
    assert error.startswith("b.yaml:4:10 servers/web/url: write a URL")


def test_lint__undefined_server_or_evaluator_is_an_error() -> None:
    file = inspected("servers:\n  time:\n    type: stdio\n    command: x\n" + task(
        "prompt: hi\nserver: [tme]\nevaluate: accuracy"
    ))  # fmt: skip
    assert errors(file) == [
        "b.yaml:10:17 unknown server 'tme'. Did you mean time?",
        "b.yaml:11:19 unknown evaluator 'accuracy'.",
    ]


def test_lint__direct_task_needs_tool_and_server() -> None:
    [tool, server] = errors(inspected(task("type: direct")))
    assert "add the key tool" in tool
    assert "needs a server" in server


def test_split_prompts__only_a_whole_line_is_a_delimiter() -> None:
    # The spaces, the tab and the carriage return come from editors of Windows and indented YAML.
    text = "Say ---PROMPT--- aloud.\n  ---PROMPT---\t\r\nAgain.\n---PROMPT---"
    assert split_prompts(text) == ("Say ---PROMPT--- aloud.", "Again.")


def test_lint__flaw_of_a_task_refuses_that_task_only() -> None:
    text = """
defaults: {direct: {server: tme}}
servers: {time: {type: stdio, command: x}}
evaluators: {judge: {prompt: "{response}"}, unused: {}}
scenarios:
  - name: s
    tasks:
      - {name: "a:fine", prompt: "hi"}
      - {name: "a:server", prompt: "hi", server: tme}
      - {name: "a:evaluator", prompt: "hi", evaluate: accuracy}
      - {name: "a:judge", prompt: "hi", evaluate: judge}
      - {name: "a:inline", prompt: "hi", evaluate: {regex: "("}}
      - {name: "a:default", type: direct, tool: t}
      - {name: "a:own", type: direct, tool: t, server: time}
"""
    file = inspected(text)
    require_valid([file])
    refusals = {index.task: reason for index, reason in file.refusals.items()}
    # The unused evaluator has no model either, and refuses no task.
    assert sorted(refusals) == [1, 2, 3, 4, 5]
    assert refusals[1] == refusals[5] == "unknown server 'tme'. Did you mean time?"
    assert refusals[2] == "unknown evaluator 'accuracy'."
    assert refusals[3] == "a judge prompt needs a model; add model"
    assert refusals[4].startswith("the pattern '(' is invalid")


def test_loader__errors_are_in_our_own_words() -> None:
    """Pydantic would say: Input tag 'sse' found using 'type' does not match any expected tag."""
    text = """
servers:
  a: {type: sse, url: x}
  b: {command: x}
  c d: {type: http, url: "ftp://x"}
  e: {type: stdio, command: "", args: x, timeout: -1}
scenarios:
  - name: s
    tasks:
      - {name: "a:a", prompt: p, server: 5}
      - {name: "a:b", type: drect}
      - {name: "a:c", prompt: p, server: ["a b"]}
      - {name: "a:d", prompt: 5, evaluate: {scale: 10}}
      - 7
"""
    texts = [error.split(" ", 1)[1] for error in errors(inspected(text))]
    reasons = dict(text.split(": ", 1) for text in texts)
    remedies = {
        "servers/a": "stdio or http",
        "servers/b": "write stdio or http",
        "servers/c d": "at most 40 letters",
        "servers/c d/url": "http://127.0.0.1:8931/mcp",
        "servers/e/command": "not be empty",
        "servers/e/args": "must be a list",
        "servers/e/timeout": "greater than 0",
        "scenarios/0/tasks/0/server": "a text or a list",
        "scenarios/0/tasks/1": "harness or direct",
        "scenarios/0/tasks/2/server/0": "at most 40 letters",
        "scenarios/0/tasks/3/prompt": "must be a text",
        "scenarios/0/tasks/3/evaluate/scale": "1 or 100",
        "scenarios/0/tasks/4": "must be a mapping",
    }
    assert list(reasons) == list(remedies)
    for place, remedy in remedies.items():
        assert_names(reasons[place], remedy)


def test_lint__prompt_of_delimiters_only_is_an_error() -> None:
    file = inspected(task("prompt: |\n  ---PROMPT---\n\n  ---PROMPT---"))
    assert errors(file) == ["b.yaml:5:17 the prompt contains no text; add some"]


def test_lint__duplicate_names_are_errors() -> None:
    twice = "      - name: compare:base\n        prompt: hi\n"
    file = inspected(f"scenarios:\n  - name: s\n    tasks:\n{twice}{twice}")
    assert errors(file) == ["b.yaml:6:15 another task is already named 'compare:base'"]


def test_lint__names_and_tags_against_conventions_are_warnings() -> None:
    file = inspected("scenarios:\n  - name: s\n    tasks:\n      - name: Base\n"
                     "        prompt: hi\n        tags: [compare, bse]\n")  # fmt: skip
    assert file.errors == []
    assert warnings(file) == [
        "the name 'Base' does not have the form category:subcategory:detail",
        "the tag 'bse' is not in the taxonomy. Did you mean base?",
    ]


def test_benchmark_schema__has_every_key_and_no_other() -> None:
    schema = benchmark_schema()
    assert set(schema["properties"]) == set(McpBenchmark.model_fields)
    assert {definition["additionalProperties"] for definition in schema["$defs"].values()
            if definition.get("type") == "object"} == {False}  # fmt: skip
