"""What a benchmark removes from texts before they are stored: matches of patterns, and values at paths of JSON."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from mosaico.core.errors import TooLarge
from mosaico.core.schemas import WireModel
from mosaico.harness.text_search import (
    InvalidPattern,
    PatternSet,
    SlowPattern,
    compile_pattern,
)
from mosaico.harness.transcript import Transcript, TranscriptMessage, TranscriptStep, map_texts
from mosaico.traces.storable_traces import id_of
from mosaico.traces.types import Trace

# In the place of what was removed. Brackets that no other text has: who counts marks counts what was removed here.
MARK: Final = "⟦redacted⟧"
MARK_BYTES: Final = MARK.encode()
MAX_RULES: Final = 50
MAX_PATTERN_CHARS: Final = 1000
MAX_PATH_CHARS: Final = 200
# Where a text can have JSON: an object, a list or a text.
_JSON_STARTS: Final = re.compile(r'[\[{]|(?<!\\)"')
# Attempts to read JSON that is cut off, one for each level of it, may read a text so many times.
_READINGS: Final = 100
_REST_CHARS: Final = 4096
# A longer integer is refused by Python.
_MAX_DIGITS: Final = 4000
_PATH_MARKS: Final = frozenset("[]*$'\"")


class SlowRedaction(TooLarge):
    """A pattern of `redact` takes too long; write it so that each match ends early, for example without `.*`."""


# The names of a path, or those that are left of it inside of an object.
Names: TypeAlias = tuple[str, ...]


def _require_pattern(pattern: str) -> str:
    try:
        compiled = compile_pattern(pattern)
    except InvalidPattern as error:
        raise _invalid(f"is not a valid regular expression (RE2): {error}") from None
    if compiled.search("") is not None:
        raise _invalid("matches the empty text, which is everywhere; let it match a character")
    return pattern


def _require_path(path: str) -> str:
    if not all(map(str.strip, path.split("."))) or _PATH_MARKS & {*path}:
        raise _invalid(
            "should be names joined by dots, such as customer.email; it is found at any depth, and in every member of a list"
        )
    return path


def _invalid(detail: str) -> PydanticCustomError:
    return PydanticCustomError("redaction_rule", "{detail}", {"detail": detail})


RedactedPattern = Annotated[
    str, Field(min_length=1, max_length=MAX_PATTERN_CHARS), AfterValidator(_require_pattern)
]
RedactedPath = Annotated[
    str, Field(min_length=1, max_length=MAX_PATH_CHARS), AfterValidator(_require_path)
]


class RedactionRules(WireModel):
    """What is removed from texts before they are stored."""

    patterns: Annotated[list[RedactedPattern], Field(max_length=MAX_RULES)] = Field(
        default_factory=list,
        description="Regular expressions (RE2); what they match is removed from every text.",
        examples=[[r"[\w.+-]+@[\w-]+\.[\w.]+"]],
    )
    paths: Annotated[list[RedactedPath], Field(max_length=MAX_RULES)] = Field(
        default_factory=list,
        description="Names of attributes, and of members of JSON at any depth, such as `customer.email`; their values are"
        " removed.",
        examples=[["user", "customer.email"]],
    )

    @property
    def is_empty(self) -> bool:
        return not (self.patterns or self.paths)

    def is_covered_by(self, applied: "RedactionRules | None") -> bool:
        """Return whether all of these rules were applied already."""
        if applied is None:
            return self.is_empty
        return {*self.patterns} <= {*applied.patterns} and {*self.paths} <= {*applied.paths}


def merge_rules(rules: Iterable[RedactionRules]) -> RedactionRules | None:
    """All rules together; None without any."""
    every = list(rules)
    # Without validation: together they may be more than one benchmark can have.
    merged = RedactionRules.model_construct(
        patterns=list(dict.fromkeys(text for one in every for text in one.patterns)),
        paths=list(dict.fromkeys(path for one in every for path in one.paths)),
    )
    return None if merged.is_empty else merged


class Redactor:
    """Removes by rules. One object for all traces of a collection: it numbers traces whose names become equal."""

    def __init__(self, rules: RedactionRules) -> None:
        self._patterns = PatternSet(rules.patterns)
        self._paths = frozenset(rules.paths)
        # The rests of paths by the names before them, which one name in the data can be, with dots.
        self._rests: Mapping[str, Sequence[Names]] = _split_paths(rules.paths)
        self._renamed = Counter[str]()

    def text(self, text: str, inside: Sequence[Names] = ()) -> str:
        """The text without what the rules remove, also inside of JSON that it holds.

        Where JSON is too deep to be read, and paths might be in it, nothing of the text is left.
        """
        try:
            text = "".join(self._json_parts(text, inside))
        except RecursionError:
            text = MARK if self._paths else text
        return self._without_matches(text)

    def value(self, value: Any, inside: Sequence[Names] = ()) -> Any:
        """A JSON value without what the rules remove; `inside` are the rests of paths that lead here."""
        match value:
            case str():
                return self.text(value, inside)
            case bool() | None:
                return value
            case int() | float():
                return (
                    MARK if self._without_matches(json.dumps(value)) != json.dumps(value) else value
                )
            case Mapping():
                return {
                    self._without_matches(str(key)): self._member(str(key), member, inside)
                    for key, member in value.items()
                }
            case list() | tuple():
                return [self.value(member, inside) for member in value]
            case _:
                return value

    def trace(self, trace: Trace) -> Trace:
        """The trace without what the rules remove. IDs and the link of a source stay; an ID that is the question changes
        with the question.
        """
        changed: dict[str, Any] = {
            name: self.text(text)
            for name in ("input", "expected_output", "output", "error")
            if (text := getattr(trace, name)) is not None
        }
        return replace(
            trace,
            **changed,
            **self._ids(trace, changed.get("input")),
            expected_any=tuple(map(self.text, trace.expected_any)),
            expected_all=tuple(map(self.text, trace.expected_all)),
            tags=tuple(map(self._tag, trace.tags)),
            attributes=self.value(trace.attributes),
            tool_calls=trace.tool_calls
            and tuple(
                replace(call, arguments=self.value(call.arguments)) for call in trace.tool_calls
            ),
            transcript=trace.transcript and self._transcript(trace.transcript),
        )

    def _ids(self, trace: Trace, question: str | None) -> dict[str, Any]:
        """New IDs of a trace that is named by a text: items whose texts are equal now are trials of one item."""
        if trace.item_id == id_of(trace.input or ""):
            item_id = id_of(question or "")
        elif " " in trace.item_id:
            # Some files name items by several texts, such as the variables of a prompt.
            item_id = self.text(trace.item_id)
        else:
            return {}
        if item_id == trace.item_id:
            return {}
        # A file without IDs has them of its questions; other sources give traces IDs of their own.
        if not trace.trace_id.startswith(trace.item_id):
            return {"item_id": item_id}
        self._renamed[item_id] += 1
        return {"item_id": item_id, "trace_id": f"{item_id}#{self._renamed[item_id]}"}

    def _tag(self, tag: str) -> str:
        name, colon, _ = tag.partition(":")
        return f"{name}:{MARK}" if colon and self._is_removed(name) else self._without_matches(tag)

    def _transcript(self, transcript: Transcript) -> Transcript:
        return map_texts(
            replace(transcript, steps=tuple(map(self._step, transcript.steps))), self.text
        )

    def _step(self, step: TranscriptStep) -> TranscriptStep:
        """The step with the paths removed from its documents; its texts follow."""
        if isinstance(step, TranscriptMessage):
            return replace(step, wire=step.wire and tuple(map(self.value, step.wire)))
        return replace(step, arguments=self.value(step.arguments))

    def _json_parts(self, text: str, inside: Sequence[Names]) -> Iterator[str]:
        """The parts of a text, each JSON document in it without what the rules remove.

        Raises: RecursionError for JSON that is too deep, or begins too often without an end.
        """
        done, end, left = 0, 0, _READINGS * len(text)
        rest, base = text, 0
        while left > 0 and (begin := _JSON_STARTS.search(text, end)) is not None:
            start = begin.start()
            # An error counts the lines before it.
            if start - base > _REST_CHARS:
                rest, base = text[start:], start
            try:
                document, rest_end = _DECODER.raw_decode(rest, start - base)
            except json.JSONDecodeError as error:
                left -= base + error.pos - start
                end = start + 1
                continue
            end = base + rest_end
            # Without an escape it says what it shows, and two quotes need not be a pair.
            is_plain = isinstance(document, str) and "\\" not in text[start:end]
            redacted = document if is_plain else self.value(document, inside)
            if redacted != document:
                yield text[done:start]
                yield json.dumps(redacted, ensure_ascii=False)
                done = end
            elif isinstance(document, str):
                end = start + 1
        if left <= 0 < len(text):
            raise RecursionError
        yield text[done:]

    def _member(self, key: str, member: Any, inside: Sequence[Names]) -> Any:
        is_removed = self._is_removed(key) or any(".".join(rest) == key for rest in inside)
        if member is not None and is_removed:
            return MARK
        rests = [rest for end in _ends_of(key) for rest in self._rests.get(end, ())]
        return self.value(member, [*rests, *_split_paths(map(".".join, inside)).get(key, ())])

    def _is_removed(self, name: str) -> bool:
        """Return whether a path is a name or its end: `user.id` of the attribute `enduser.user.id`."""
        return any(end in self._paths for end in _ends_of(name))

    def _without_matches(self, text: str) -> str:
        # RE2 searches bytes: in a text it would count the characters before each match.
        data = text.encode("utf-8", "surrogatepass")
        if not self._patterns.matches(data):
            return text
        # Marks stay whole: \w+ would match inside of one, and add another.
        cut = MARK_BYTES.join(map(self._cut_part, data.split(MARK_BYTES)))
        return cut.decode("utf-8", "surrogatepass")

    def _cut_part(self, data: bytes) -> bytes:
        """The data with marks in the place of matches: one where matches of several patterns overlap, as the rest of one
        must not stay because another was cut first.
        """
        pieces, end = [], 0
        try:
            spans = sorted(self._patterns.find_spans(data))
        except SlowPattern as slow:
            raise SlowRedaction(
                f"the pattern {slow.pattern!r} of redact takes more than {slow.seconds:.1f} s for these texts;"
                " write it so that each match ends early, for example without .*"
            ) from None
        for start, stop in spans:
            if start >= end:
                pieces.append(data[end:start])
            end = max(end, stop)
        return MARK_BYTES.join((*pieces, data[end:]))


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; a name that is repeated has the list of its values, so that each of them is read."""
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    values = defaultdict[str, list[Any]](list)
    for name, member in pairs:
        values[name].append(member)
    return {name: one if len(one) > 1 else one[0] for name, one in values.items()}


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MAX_DIGITS else digits


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_members, parse_int=_integer)


def _ends_of(name: str) -> Iterator[str]:
    """A name with dots, and what follows each of its dots."""
    names = name.split(".")
    return (".".join(names[first:]) for first in range(len(names)))


def _split_paths(paths: Iterable[str]) -> Mapping[str, Sequence[Names]]:
    """What follows in each path, by the names before it."""
    rests = defaultdict[str, list[Names]](list)
    for path in paths:
        names = path.split(".")
        for count in range(1, len(names)):
            rests[".".join(names[:count])].append(tuple(names[count:]))
    return rests


def count_marked_texts(trace: Trace) -> int:
    """The number of texts of a trace from which something was removed."""
    texts = [trace.input, trace.output, trace.error, *trace.tags, *trace.attributes.values()]
    texts += trace.expected_any or trace.expected_all or [trace.expected_output]
    texts += [str(call.arguments) for call in trace.tool_calls or ()]
    texts += [str(trace.transcript.steps)] if trace.transcript else []
    return sum(MARK in text for text in texts if text)
