"""What rules remove from texts: matches of patterns, and values at paths, in every field of a trace."""

import json
import re

import pytest
from pydantic import ValidationError

from mosaico.harness import text_search
from mosaico.harness.transcript import Transcript, TranscriptMessage, TranscriptToolCall
from mosaico.traces.otel.span_redaction import redact_spans
from mosaico.traces.otel.spans import RejectedSpan, Span, SpanEvent
from mosaico.traces.redaction import (
    MARK,
    RedactionRules,
    Redactor,
    SlowRedaction,
    count_marked_texts,
    merge_rules,
)
from mosaico.traces.types import ToolCall, Trace

MAIL = r"[\w.]+@[\w.]+\.\w+"


def redactor(*patterns: str, paths: tuple[str, ...] = ()) -> Redactor:
    return Redactor(RedactionRules(patterns=list(patterns), paths=list(paths)))


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("write to ada@example.org, please", f"write to {MARK}, please"),
        ("ä😀 ada@example.org é", f"ä😀 {MARK} é"),
        ("a@b.cd x@y.zw", f"{MARK} {MARK}"),
        ("nobody", "nobody"),
        ("", ""),
        # A surrogate without its pair survives.
        ("\ud800 a@b.cd", f"\ud800 {MARK}"),
        # Escaped in JSON, and JSON inside of JSON.
        (json.dumps({"to": "a\u0040b.cd"}), json.dumps({"to": MARK}, ensure_ascii=False)),
        (r'{"to": "a\u0040b.cd"}', f'{{"to": "{MARK}"}}'),
        (r'{"x": "{\"to\": \"a\\u0040b.cd\"}"}', f'{{"x": "{{\\"to\\": \\"{MARK}\\"}}"}}'),
        ("{not JSON a@b.cd", f"{{not JSON {MARK}"),
    ],
)
def test_text__has_marks_in_the_place_of_matches(text: str, redacted: str) -> None:
    rules = redactor(MAIL)
    assert rules.text(text) == redacted
    assert rules.text(redacted) == redacted


def test_text__of_deep_json_is_still_searched() -> None:
    assert MARK in redactor(MAIL).text("[" * 100_000 + '"a@b.cd"')


def test_text__that_is_too_deep_for_its_paths_is_removed() -> None:
    deep = "[" * 3000 + '{"user": "ada"}' + "]" * 3000
    assert redactor(paths=("user",)).text(deep) == MARK
    assert redactor(MAIL).text(deep) == deep
    # Each of many brackets begins what ends nowhere.
    endless = "[" * 500 + '"x", ' * 1000
    assert redactor(paths=("user",)).text(endless) == MARK
    assert redactor(MAIL).text(endless) == endless


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ('It said {"user": "ada"}.', f'It said {{"user": "{MARK}"}}.'),
        ('```json\n{"user": "ada"}\n```', f'```json\n{{"user": "{MARK}"}}\n```'),
        ('{"user": "a"}\n{"user": "b"}', f'{{"user": "{MARK}"}}\n{{"user": "{MARK}"}}'),
        ('\ufeff{"user": "ada"}', f'\ufeff{{"user": "{MARK}"}}'),
        (r'sent "{\"user\": \"ada\"}"', f'sent "{{\\"user\\": \\"{MARK}\\"}}"'),
        (r'[1] "\"{\\\"user\\\": 1}\""', rf'[1] "\"{{\\\"user\\\": \\\"{MARK}\\\"}}\""'),
        ('said "{"user": "ada"}"', f'said "{{"user": "{MARK}"}}"'),
        ('5" or {"user": "ada"}', f'5" or {{"user": "{MARK}"}}'),
        ('{"user": "ada", "user": "bob"}', f'{{"user": "{MARK}"}}'),
        ('{"n": %s, "user": "ada"}' % ("1" * 5000), f'{{"n": "{"1" * 5000}", "user": "{MARK}"}}'),
        ("if (x) { return [a, b] }", "if (x) { return [a, b] }"),
        ('{"open": {"n": [1, {"user": "a"}', f'{{"open": {{"n": [1, {{"user": "{MARK}"}}'),
    ],
)
def test_paths__are_found_in_json_around_which_are_other_words(text: str, redacted: str) -> None:
    assert redactor(paths=("user",)).text(text) == redacted


def test_text__with_a_repeated_name_has_no_value_of_it() -> None:
    assert "b.cd" not in redactor(MAIL).text(r'{"a": "a\u0040b.cd", "a": "x"}')


@pytest.mark.parametrize("patterns", [("example", MAIL), (MAIL, "example")])
def test_patterns__whose_matches_overlap_remove_both(patterns: tuple[str, ...]) -> None:
    assert redactor(*patterns).text("to ada@example.org now") == f"to {MARK} now"


@pytest.mark.parametrize(
    "patterns",
    [
        (r"\Qa@b", "cd"),
        ("(?P<x>a)@b", "(?P<x>c)d"),
        ("A@B(?i)|a@b", "cd"),
        (*(f"{number:03}" for number in range(48)), "a@b", "cd"),
    ],
)
def test_patterns__are_found_each_where_they_cannot_be_joined(patterns: tuple[str, ...]) -> None:
    rules = redactor(*patterns)
    assert rules.text("x a@b y") == f"x {MARK} y"
    assert rules.text("x cd y") == f"x {MARK} y"
    assert rules.text("x y") == "x y"


def test_pattern__of_a_border_removes_nothing() -> None:
    assert redactor(r"\b").text("ada b") == "ada b"


def test_pattern__that_reads_the_text_once_for_each_match_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_search, "MATCHING_S", 0.05)
    monkeypatch.setattr(text_search, "MATCHING_BYTE_S", 0.0)
    rules = redactor(MAIL, "c(?:.*z)?")
    assert rules.text("c a@b.cd") == f"{MARK} {MARK}"
    with pytest.raises(SlowRedaction, match=re.escape("'c(?:.*z)?'") + r".* 0\.1 s"):
        rules.text("c" * 100_000)


def test_pattern__whose_matches_are_all_of_a_text_is_within_the_limit() -> None:
    assert redactor(r"\d").text("1" * 100_000) == MARK * 100_000


def test_marks__stay_whole_when_a_pattern_matches_their_word() -> None:
    assert redactor(r"\w+").text(f"{MARK} ada") == f"{MARK} {MARK}"


@pytest.mark.parametrize(
    ("document", "redacted"),
    [
        (
            {"customer": {"email": "x", "city": "Bonn"}},
            {"customer": {"email": MARK, "city": "Bonn"}},
        ),
        ([{"rows": [{"customer": {"email": 1}}]}], [{"rows": [{"customer": {"email": MARK}}]}]),
        ({"customer": '{"email": "x"}'}, {"customer": f'{{"email": "{MARK}"}}'}),
        ({"customer.email": "x"}, {"customer.email": MARK}),
        (
            {"trace.metadata.customer": '{"email": "x"}'},
            {"trace.metadata.customer": f'{{"email": "{MARK}"}}'},
        ),
        ({"email": "x", "customer": "y"}, {"email": "x", "customer": "y"}),
        ({"customer": {"email": None}}, {"customer": {"email": None}}),
    ],
)
def test_paths__are_found_at_any_depth(document: object, redacted: object) -> None:
    assert redactor(paths=("customer.email",)).value(document) == redacted


def test_numbers_and_names__that_match_are_removed() -> None:
    value = redactor(r"\d{6,}").value({"phone": 4915112345, "n": 7, "491511": True, "ok": None})
    assert value == {"phone": MARK, "n": 7, MARK: True, "ok": None}


def test_trace__is_redacted_in_every_text() -> None:
    mail = "ada@example.org"
    transcript = Transcript(
        steps=(
            TranscriptMessage(role="user", text=mail, thinking=mail, wire=({"user": "ada"},)),
            TranscriptToolCall(
                tool="mail", arguments={"to": mail, "user": "ada"}, output=mail, stderr=mail
            ),
        )
    )
    trace = Trace(
        trace_id="t-1",
        item_id="i-1",
        input=mail,
        expected_output=mail,
        expected_any=(mail, "b"),
        expected_all=(mail,),
        output=f'{{"user": "ada", "text": "{mail}"}}',
        error=mail,
        tags=(mail, "user:ada", "kind:a"),
        attributes={"user": "ada", "note": mail, "model": "m"},
        tool_calls=(ToolCall(name="mail", arguments={"to": [mail], "user": "ada"}, ok=True),),
        scores={"tone": 0.5},
        transcript=transcript,
    )
    redacted = redactor(MAIL, paths=("user",)).trace(trace)
    assert mail not in repr(redacted) + repr(redacted.transcript)
    assert "ada" not in repr(redacted) + repr(redacted.transcript)
    kept = (redacted.trace_id, redacted.item_id, redacted.scores, redacted.attributes["model"])
    assert kept == ("t-1", "i-1", {"tone": 0.5}, "m")
    assert redacted.tags == (MARK, f"user:{MARK}", "kind:a")
    assert redacted.tool_calls is not None
    assert (redacted.tool_calls[0].name, redacted.tool_calls[0].ok) == ("mail", True)
    # Input, output, error, one of the expected, two tags, two attributes, a call, the transcript.
    assert count_marked_texts(redacted) == 3 + 1 + 2 + 2 + 1 + 1
    assert count_marked_texts(trace) == 0


def test_trace__named_by_its_question_is_named_by_what_is_left_of_it() -> None:
    rules = redactor(MAIL)
    named = [
        rules.trace(
            Trace(
                trace_id=f"mail {name}@x.yz?#1",
                item_id=f"mail {name}@x.yz?",
                input=f"mail {name}@x.yz?",
            )
        )
        for name in ("a", "b")
    ]
    question = f"mail {MARK}?"
    assert [trace.item_id for trace in named] == [question, question]
    assert [trace.trace_id for trace in named] == [f"{question}#1", f"{question}#2"]
    given = rules.trace(Trace(trace_id="f00d", item_id="a@b.cd", input="a@b.cd"))
    assert (given.trace_id, given.item_id) == ("f00d", MARK)


def test_trace__named_by_several_texts_is_named_by_what_is_left_of_them() -> None:
    item = 'refund {"email": "a@b.cd"}'
    trace = redactor(MAIL).trace(Trace(trace_id=f"{item}#1", item_id=item, input="Dear a@b.cd"))
    left = f'refund {{"email": "{MARK}"}}'
    assert (trace.item_id, trace.trace_id) == (left, f"{left}#1")
    # Without spaces it is a name, which connects runs.
    kept = redactor(r"\d{6,}").trace(Trace(trace_id="4711000", item_id="k-123456", input="1234567"))
    assert (kept.item_id, kept.trace_id, kept.input) == ("k-123456", "4711000", MARK)


@pytest.mark.parametrize(
    ("field", "rule", "message"),
    [
        ("patterns", "(", "not a valid regular expression"),
        ("patterns", "(?=a)", "look-around"),
        ("patterns", "a*", "matches the empty text"),
        ("patterns", "", "at least 1 character"),
        ("patterns", "x" * 1001, "at most 1000"),
        ("paths", "a..b", "names joined by dots"),
        ("paths", "$.a", "names joined by dots"),
        ("paths", "a[0]", "names joined by dots"),
        ("paths", "x" * 201, "at most 200"),
    ],
)
def test_rules__that_are_not_valid_are_refused(field: str, rule: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RedactionRules.model_validate({field: [rule]})


def test_rules__together_and_covered() -> None:
    first = RedactionRules(patterns=["a", "b"])
    second = RedactionRules(patterns=["b", "c"], paths=["user"])
    merged = merge_rules([first, second])
    assert merged == RedactionRules(patterns=["a", "b", "c"], paths=["user"])
    assert first.is_covered_by(merged)
    assert not merged.is_covered_by(first)
    assert not first.is_covered_by(None)
    assert merge_rules([]) is merge_rules([RedactionRules()]) is None


def test_spans__are_redacted_by_all_names_of_an_attribute_and_keep_their_items() -> None:
    span = Span(
        trace_id="1" * 32,
        span_id="2" * 16,
        parent_id=None,
        name="chat with a@b.cd",
        start_ns=1,
        end_ns=2,
        status=2,
        status_message="no a@b.cd",
        attributes={
            "user.id": "ada",
            "langfuse.trace.metadata.email": "x",
            "mosaico.item_id": "a@b.cd",
            "gen_ai.input.messages": json.dumps([{"parts": [{"content": "I am a@b.cd"}]}]),
        },
        events=(SpanEvent("exception", {"exception.message": "a@b.cd"}),),
        resource={"service.name": "bot", "langfuse.user.id": "ada"},
        scope="s",
    )
    rules = RedactionRules(patterns=[MAIL], paths=["user", "email"])
    rejected = RejectedSpan("why")
    redacted, same = redact_spans([span, rejected], rules)
    assert same is rejected
    assert isinstance(redacted, Span)
    assert (redacted.name, redacted.status_message) == (f"chat with {MARK}", f"no {MARK}")
    assert redacted.attributes == {
        "user.id": MARK,
        "langfuse.trace.metadata.email": MARK,
        "mosaico.item_id": "a@b.cd",
        "gen_ai.input.messages": json.dumps(
            [{"parts": [{"content": f"I am {MARK}"}]}], ensure_ascii=False
        ),
    }
    assert redacted.events[0].attributes == {"exception.message": MARK}
    assert redacted.resource == {"service.name": "bot", "langfuse.user.id": MARK}
    assert [*redact_spans([span], None)] == [span]
