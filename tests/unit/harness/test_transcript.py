"""Transcripts: what they show, how large they get, and that no secret is left in them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.masking import secret_masker
from mosaico.harness.reports.transcript import transcript_html, transcript_lines
from mosaico.harness.transcript import (
    MAX_TEXT_CHARS,
    MAX_TRANSCRIPT_CHARS,
    Transcript,
    TranscriptMessage,
    TranscriptRequest,
    TranscriptToolCall,
    build_transcript,
    document_of,
    map_texts,
    parse_transcript,
)
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)

CONVERSATION = (
    user_message("How many files?"),
    ChatMessage(
        role=MessageRole.ASSISTANT,
        content=(
            TextBlock(text="I look."),
            ToolUseBlock(id="1", name="bash", input={"commands": "ls"}),
            ToolUseBlock(id="2", name="bash", input={"commands": "cat x"}),
        ),
    ),
    ChatMessage(
        role=MessageRole.TOOL_RESULT,
        content=(
            ToolResultBlock(tool_use_id="1", content="a b"),
            ToolResultBlock(tool_use_id="2", content="STDERR: no x\nExit code: 1", is_error=True),
        ),
    ),
    ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="Two."),)),
)
RECORDED = (
    TranscriptToolCall(
        tool="bash", arguments={"commands": "ls"}, stdout="a b", stderr="", exit_code=0
    ),
    TranscriptToolCall(
        tool="bash",
        arguments={"commands": "cat x"},
        stdout="",
        stderr="no x",
        exit_code=1,
        is_error=True,
        duration_ms=12.0,
    ),
)


def call(**fields: Any) -> TranscriptToolCall:
    return TranscriptToolCall(tool="bash", **fields)


def test_build_transcript__shows_recorded_calls_between_the_messages() -> None:
    requests = [TranscriptRequest(input_tokens=10, output_tokens=5, latency_ms=7.0, retries=1)]
    transcript = build_transcript(CONVERSATION, RECORDED, system="Be brief.", requests=requests)
    assert transcript.steps == (
        TranscriptMessage(role="system", text="Be brief."),
        TranscriptMessage(role="user", text="How many files?"),
        TranscriptMessage(role="assistant", text="I look.", request=requests[0]),
        *RECORDED,
        TranscriptMessage(role="assistant", text="Two."),
    )


def test_build_transcript__calls_without_a_record_are_shown_as_the_model_saw_them() -> None:
    calls = [
        step
        for step in build_transcript(CONVERSATION, RECORDED[:1]).steps
        if isinstance(step, TranscriptToolCall)
    ]
    assert [(call.command, call.output, call.is_error) for call in calls] == [
        ("ls", "a b", False),
        ("cat x", "STDERR: no x\nExit code: 1", True),
    ]


def test_build_transcript__shows_what_the_model_thought() -> None:
    thought = ThinkingBlock(text="Two files?", wire={"signature": "s"})
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(thought, TextBlock(text="Two.")))
    transcript = build_transcript([message])
    assert transcript.steps == (
        TranscriptMessage(role="assistant", text="Two.", thinking="Two files?"),
    )
    assert list(transcript_lines(transcript))[1:] == ["    (thinking) Two files?", "    Two."]


def test_document__is_camel_case_json_without_empty_fields_and_can_be_read_again() -> None:
    transcript = build_transcript(CONVERSATION, RECORDED)
    document = document_of(transcript)
    assert document["version"] == 1
    assert document["steps"][3] == {
        "kind": "toolCall",
        "tool": "bash",
        "arguments": {"commands": "cat x"},
        "stdout": "",
        "stderr": "no x",
        "exitCode": 1,
        "isError": True,
        "durationMs": 12.0,
    }
    assert parse_transcript(document) == transcript


def test_document__long_text_keeps_its_beginning_and_its_end() -> None:
    text = "a" * MAX_TEXT_CHARS + "z" * 10
    document = document_of(Transcript(steps=(call(stdout=text),)))
    stored = document["steps"][0]["stdout"]
    assert stored.startswith("aaaa")
    assert stored.endswith("z" * 10)
    assert "[10 characters omitted]" in stored


def test_document__above_the_limit_the_middle_is_omitted_and_counted() -> None:
    # Nearly three times the limit of 1 MiB, in texts that are too short to be cut.
    steps = tuple(call(output=str(number) + "x" * 30_000) for number in range(100))
    document = document_of(Transcript(steps=steps))
    outputs = [step["output"].split("x")[0] for step in document["steps"]]
    assert outputs[0] == "0"
    assert outputs[-1] == "99"
    assert document["omittedSteps"] == 100 - len(outputs) > 0


# 60 texts of at most 32 KiB each are nearly twice the limit.
@given(st.lists(st.sampled_from([0, 1, 5_000, 40_000]).map("x".__mul__), max_size=60))
def test_document__never_exceeds_the_limit_and_loses_nothing_uncounted(texts: list[str]) -> None:
    transcript = Transcript(
        steps=tuple(TranscriptMessage(role="assistant", text=text) for text in texts)
    )
    document = document_of(transcript)
    assert len(document["steps"]) + document["omittedSteps"] == len(texts)
    assert sum(len(step["text"]) for step in document["steps"]) <= MAX_TRANSCRIPT_CHARS


def test_map_texts__masks_secrets_in_every_text_and_argument() -> None:
    secret = "sk-12345"
    transcript = Transcript(
        steps=(
            TranscriptMessage(role="user", text=f"use {secret}"),
            call(arguments={"commands": [{"deep": secret}]}, stdout=secret, stderr=secret),
            call(output=f"Bearer {secret}"),
        )
    )
    masked = map_texts(transcript, secret_masker([f"Bearer {secret}"]))
    assert secret not in repr(masked)
    assert repr(masked).count("***") == 5


def test_map_texts__secret_that_is_a_word_of_the_format_leaves_a_valid_transcript() -> None:
    """Roles, kinds, keys and tools are no texts."""
    transcript = Transcript(
        steps=(
            TranscriptMessage(role="user", text="I am user", thinking="user?"),
            call(arguments={"user": ["user", 1]}, output="user"),
        )
    )
    masked = map_texts(transcript, secret_masker(["user", "message", "toolCall", "bash"]))
    assert masked.steps == (
        TranscriptMessage(role="user", text="I am ***", thinking="***?"),
        call(arguments={"user": ["***", 1]}, output="***"),
    )
    assert parse_transcript(document_of(masked)) == masked


@pytest.mark.parametrize(("secret", "text"), [("abc", "abcd"), ("", "abcd"), ("  ", "a  b")])
def test_secret_masker__leaves_words_that_are_too_short_to_be_secrets(
    secret: str, text: str
) -> None:
    assert secret_masker([secret])(text) == text


def test_transcript_lines__show_commands_streams_and_facts_without_control_characters() -> None:
    request = TranscriptRequest(
        input_tokens=10, output_tokens=5, latency_ms=4200.0, retries=2, waited_ms=3000.0
    )
    transcript = Transcript(
        steps=(
            TranscriptMessage(role="assistant", text="\x1b[2Jhi", request=request),
            *RECORDED,
            call(arguments={"q": 1}, is_error=True),
        ),
        omitted_steps=3,
        gap_at=2,
    )
    assert list(transcript_lines(transcript)) == [
        "assistant, 10 input and 5 output tokens, 4.2 s, 2 retries, 3.0 s waiting",
        "    \\x1b[2Jhi",
        "tool bash, exit code 0",
        "    $ ls",
        "    a b",
        "[3 steps omitted: the transcript exceeds its size limit]",
        "tool bash, exit code 1, 0.0 s",
        "    $ cat x",
        "    stderr: no x",
        "tool bash, no answer",
        '    {"q": 1}',
    ]


def test_transcript_html__escapes_every_text() -> None:
    evil = "<script>alert(1)</script>"
    transcript = Transcript(
        steps=(
            TranscriptMessage(role="user", text=evil),
            call(arguments={"commands": evil}, stdout=evil, stderr=evil),
        )
    )
    page = "".join(transcript_html(transcript))
    assert "<script" not in page
    # The message, the command and both streams.
    assert page.count("&lt;script") == 4
