"""Both harnesses against servers that answer and refuse as the providers document."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from mosaico.core.console.terminal import CommandGroup
from mosaico.harness.bash.cli import cli as bash_cli
from mosaico.harness.mcp.cli.ot_bench import cli as mcp_cli
from tests.support import documented_models as documented
from tests.support.model_server import Plan, RawReply, ReceivedRequest, model_server
from tests.support.references import Reference

# The SDKs take seconds to import: one worker imports them for all these tests.
pytestmark = pytest.mark.xdist_group("sdks of models")

anthropic_types = Reference("anthropic.types")
message_params = Reference("anthropic.types.message_create_params")
chat_types = Reference("openai.types.chat")
chat_params = Reference("openai.types.chat.completion_create_params")
response_types = Reference("openai.types.responses")
response_params = Reference("openai.types.responses.response_create_params")

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


class Ran(NamedTuple):
    """A finished command: its exit code, what it printed, and its result file."""

    exit_code: int
    output: str
    result: str


def types_of(path: str) -> tuple[Any, Any]:
    """The types of a request and a response in the SDK."""
    if path.endswith("/messages"):
        return message_params.MessageCreateParamsNonStreaming, anthropic_types.Message
    if path.endswith("/responses"):
        return response_params.ResponseCreateParamsNonStreaming, response_types.Response
    return chat_params.CompletionCreateParamsNonStreaming, chat_types.ChatCompletion


def checked(plan: Plan) -> Plan:
    """The plan; its requests and responses must have the types of the SDK."""

    def play(request: ReceivedRequest) -> Any:
        sent_type, response_type = types_of(request.path)
        TypeAdapter(sent_type).validate_python(request.body)
        reply = plan(request)
        if isinstance(reply, RawReply) and reply.status == 200:
            TypeAdapter(response_type).validate_json(reply.body)
        return reply

    return play


def run_command(cli: CommandGroup, arguments: list[str], results: Path) -> Ran:
    done = CliRunner().invoke(cli, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    files = [path for path in results.glob("*.json") if path.is_file()]
    return Ran(done.exit_code, done.output, files[0].read_text() if files else "")


def run_bash(folder: Path, model: list[str], *, judge: str | None = None) -> Ran:
    dataset = folder / "tasks.jsonl"
    expectations = [{"check": "stdout_contains:hello" if judge is None else "llm_judge:good?"}]
    if judge is not None:
        model = [*model, "--judge-model", judge]
    dataset.write_text(
        json.dumps({"id": "t", "category": "c", "prompt": "p", "expectations": expectations})
    )
    results = folder / "bash"
    return run_command(bash_cli, ["run", str(dataset), *model, "--save", str(results)], results)


def run_mcp(folder: Path, model: list[str], *, judge: str | None = None) -> Ran:
    bench = folder / "bench.yaml"
    evaluate = {"expected": "Done."} if judge is None else {"prompt": "{response}", "model": judge}
    task = {"name": "a:b:c", "prompt": "p", "evaluate": evaluate}
    bench.write_text(json.dumps({"scenarios": [{"name": "s", "tasks": [task]}]}))
    results = folder / "mcp"
    results.mkdir(exist_ok=True)
    output = str(results / "result.json")
    return run_command(mcp_cli, ["run", str(bench), *model, "--output", output], results)


RUNS = pytest.mark.parametrize("run", [run_bash, run_mcp])
Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in KEYS:
        monkeypatch.setenv(name, "key")


@RUNS
@pytest.mark.parametrize(
    ("plan", "model", "kept"),
    [
        (documented.gemini(), "gemini-3-pro", "thought_signature"),
        (documented.deepseek(), "deepseek-v4", "reasoning_content"),
        (documented.deepseek(), "kimi-k3", "reasoning_content"),
        (documented.open_router(), "google/gemini-4-pro", "reasoning.encrypted"),
    ],
)
def test_chat__what_the_provider_sent_is_sent_back(
    run: Run, plan: Plan, model: str, kept: str, tmp_path: Path
) -> None:
    with model_server(checked(plan)) as server:
        options = ["--provider", "openai", "--base-url", server.openai_url, "--model", model]
        done = run(tmp_path, options)
    assert done.exit_code == 0, done.output
    assert kept in done.result
    [call] = server.requests[1].body["messages"][-2]["tool_calls"]
    assert call["function"]["arguments"] == documented.ARGUMENTS


@RUNS
@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
def test_gpt__tools_with_reasoning_use_responses_and_get_their_items_back(
    run: Run, provider: str, tmp_path: Path
) -> None:
    with model_server(checked(documented.gpt())) as server:
        options = ["--provider", provider, "--base-url", server.openai_url]
        done = run(tmp_path, [*options, "--model", "gpt-5.6-terra", "--reasoning-effort", "max"])
    assert done.exit_code == 0, done.output
    assert {request.path for request in server.requests} == {"/v1/responses"}
    is_replaced = provider == "openai"
    assert ("the API openai-responses, which is called" in done.output) == is_replaced
    assert {request.body["store"] for request in server.requests} == {False}
    assert "Z0FBQUFB" in done.result


@RUNS
@pytest.mark.parametrize(
    ("options", "body"),
    [
        (["--thinking", "adaptive"], {"thinking": {"type": "adaptive"}}),
        (
            ["--thinking", "adaptive", "--reasoning-effort", "xhigh"],
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
        ),
        # Above 21,333 the SDK wants a stream where no timeout is set.
        (["--max-output-tokens", "64000"], {"max_tokens": 64_000}),
        ([], {}),
    ],
)
def test_claude__thoughts_are_sent_back_before_the_call(
    run: Run, options: list[str], body: dict[str, Any], tmp_path: Path
) -> None:
    with model_server(checked(documented.claude())) as server:
        named = ["--provider", "anthropic", "--base-url", server.url, "--model", "claude-opus-5"]
        done = run(tmp_path, [*named, *options])
    assert done.exit_code == 0, done.output
    assert documented.SIGNATURE in done.result
    for request in server.requests:
        sent = {name: request.body[name] for name in request.body if name in body}
        assert sent == body


@RUNS
@pytest.mark.parametrize(
    ("provider", "model", "options", "named"),
    [
        ("anthropic", "claude-opus-5", ["--temperature", "0"], "temperature"),
        ("anthropic", "some-model", ["--temperature", "0"], "temperature"),
        ("anthropic", "claude-opus-4-7", ["--thinking-tokens", "2048"], "thinking tokens"),
        ("anthropic", "claude-haiku-4-5", ["--thinking", "adaptive"], "thinking adaptive"),
        ("anthropic", "claude-fable-5", ["--thinking", "disabled"], "thinking disabled"),
        ("anthropic", "claude-haiku-4-5", ["--reasoning-effort", "max"], "reasoning effort max"),
        ("openai", "openai/gpt-5.6-sol", ["--temperature", "0.2"], "temperature"),
        ("openai", "gpt-4.1", ["--reasoning-effort", "low"], "reasoning effort"),
        ("openai", "gpt-5.5", ["--seed", "1"], "seed"),
        ("openai", "deepseek-v4", ["--temperature", "0.2"], "temperature"),
        ("openai", "m", ["--prompt-cache", "5m"], "prompt cache"),
        ("openai", "m", ["--thinking", "adaptive"], "thinking"),
    ],
)
def test_option__that_a_model_does_not_take_is_an_error_before_the_first_request(
    run: Run, provider: str, model: str, options: list[str], named: str, tmp_path: Path
) -> None:
    with model_server(documented.gpt()) as server:
        address = server.url if provider == "anthropic" else server.openai_url
        names = ["--provider", provider, "--base-url", address, "--model", model]
        done = run(tmp_path, [*names, *options])
    assert (done.exit_code, server.requests) == (2, [])
    assert named in done.output.replace("\n", " ")
    assert model in done.output


@RUNS
def test_temperature__is_sent_to_a_model_that_takes_it(run: Run, tmp_path: Path) -> None:
    with model_server(checked(documented.gemini())) as server:
        options = ["--provider", "openai", "--base-url", server.openai_url, "--model", "gemini-3"]
        done = run(tmp_path, [*options, "--temperature", "0.2"])
    assert done.exit_code == 0, done.output
    assert [request.body["temperature"] for request in server.requests] == [0.2, 0.2]


@RUNS
def test_prompt_cache__marks_the_system_message_and_the_end(run: Run, tmp_path: Path) -> None:
    with model_server(checked(documented.claude())) as server:
        named = ["--provider", "anthropic", "--base-url", server.url, "--model", "claude-opus-5"]
        done = run(tmp_path, [*named, "--prompt-cache", "1h"])
    assert done.exit_code == 0, done.output
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert [request.body["cache_control"] for request in server.requests] == [mark, mark]
    systems = [request.body["system"] for request in server.requests if request.body["system"]]
    assert all(system[-1]["cache_control"] == mark for system in systems)


@RUNS
def test_cache__sends_each_request_once(run: Run, tmp_path: Path) -> None:
    """With signatures too: the second run plays the stored turns, and asks no server."""
    with model_server(documented.gemini()) as server:
        options = ["--provider", "openai", "--base-url", server.openai_url, "--model", "gemini-3"]
        cached = [*options, "--cache", str(tmp_path / "cache")]
        first, again = tmp_path / "first", tmp_path / "again"
        first.mkdir()
        again.mkdir()
        assert run(first, cached).exit_code == 0
        sent = len(server.requests)
        done = run(again, [*cached, "--only-cached"])
        assert (done.exit_code, len(server.requests), sent) == (0, 2, 2)
        assert documented.SIGNATURE in done.result
        # Another trial is another answer, and is not in the cache.
        missing = run(again, [*cached, "--only-cached", "--trials", "2"])
    assert (missing.exit_code, len(server.requests)) == (3, 2)
    assert "not in the cache" in missing.output


@RUNS
def test_cache__is_used_for_the_judge_too(run: Run, tmp_path: Path) -> None:
    """With --only-cached no request at all is sent."""
    score = documented.chat_document({"content": '{"score": 1, "reason": "good"}'}, "stop")
    with model_server(lambda _: documented.answer(score)) as server:
        options = ["--provider", "openai", "--base-url", server.openai_url, "--model", "m"]
        cached = [*options, "--cache", str(tmp_path / "cache")]
        run(tmp_path, cached, judge="j")
        assert len(server.requests) == 2
        again = run(tmp_path, [*cached, "--only-cached"], judge="j")
    assert len(server.requests) == 2
    assert "not in the cache" not in again.output


@RUNS
def test_only_cached__without_a_cache_is_an_error(run: Run, tmp_path: Path) -> None:
    done = run(tmp_path, ["--provider", "openai", "--model", "m", "--only-cached"])
    assert done.exit_code == 2
    assert "--cache" in done.output


def usage_of(provider: str) -> tuple[Plan, str]:
    """A server that reports 1,100 input tokens, 1,024 of them from its cache, and 10 output tokens."""
    if provider == "anthropic":
        usage: dict[str, Any] = {
            "input_tokens": 46,
            "cache_read_input_tokens": 1024,
            "cache_creation_input_tokens": 30,
            "output_tokens": 10,
        }
        text = [{"type": "text", "text": "Done."}]
        document = documented.message_document(text, "end_turn", usage)
    elif provider == "openai":
        usage = {
            "prompt_tokens": 1100,
            "completion_tokens": 10,
            "total_tokens": 1110,
            "prompt_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 30},
        }
        document = documented.chat_document({"content": "Done."}, "stop", usage)
    else:
        usage = {
            "input_tokens": 1100,
            "output_tokens": 10,
            "total_tokens": 1110,
            "input_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 30},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        part = {"type": "output_text", "text": "Done.", "annotations": []}
        item = {**documented.COMMENTARY_ITEM, "content": [part]}
        document = documented.response_document([item], usage)
    return (lambda _: documented.answer(document)), json.dumps(usage)


@RUNS
@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
def test_cached_tokens__are_shown_and_have_their_price(
    run: Run, provider: str, tmp_path: Path
) -> None:
    """46 tokens at 10, 1,024 at 1, 30 at 12.5 and 10 at 50 dollars per million: 0.002359 dollars."""
    prices = tmp_path / "prices.json"
    price = {"input": 10, "cached_input": 1, "cache_write": 12.5, "output": 50}
    prices.write_text(json.dumps({"m": price}))
    plan, _ = usage_of(provider)
    with model_server(checked(plan)) as server:
        address = server.url if provider == "anthropic" else server.openai_url
        named = ["--provider", provider, "--base-url", address, "--model", "m"]
        done = run(tmp_path, [*named, "--prices", str(prices)])
    assert "1100 input (1024 from a cache, 30 written to it), 10 output" in done.output
    assert "$0.0024" in done.output
    assert "0.002359" in done.result


@RUNS
def test_run_usd__request_that_may_exceed_it_is_not_sent(run: Run, tmp_path: Path) -> None:
    """An answer may take 1,000 tokens at 50 dollars per million, which is 5 cents."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"m": {"input": 10, "output": 50}}))
    plan, _ = usage_of("openai")
    with model_server(plan) as server:
        named = ["--provider", "openai", "--base-url", server.openai_url, "--model", "m"]
        limits = ["--prices", str(prices), "--max-output-tokens", "1000", "--run-usd", "0.04"]
        done = run(tmp_path, [*named, *limits])
    assert (done.exit_code, server.requests) == (3, [])
    assert "the next request may cost" in done.output.replace("\n", " ")
