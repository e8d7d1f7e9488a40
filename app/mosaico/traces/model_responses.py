"""The answers in the responses of model servers, and the forms in which texts are written; pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

BAD_STATUS: Final = 400


class ValueForm(StrEnum):
    """The form of a value: what its text was taken out of."""

    TEXT = "text"
    NUMBER = "number"
    MESSAGE = "chat message"
    CHAT = "chat messages"
    COMPLETION = "chat completion"
    RESPONSE = "model response"
    BATCH_LINE = "batch line"
    PARTS = "content parts"
    GENERATIONS = "generations"
    ONE_MEMBER = "object with one text"
    ONE_TEXT = "list with one text"
    ERROR = "object with an error"
    JSON = "JSON"
    NOTHING = "nothing"


def response_of(value: Mapping[Any, Any]) -> tuple[ValueForm, list[Any]] | None:
    """The answers in a response of a model server, None for another object."""
    return _completions_of(value) or _one_answer_of(value)


def _completions_of(value: Mapping[Any, Any]) -> tuple[ValueForm, list[Any]] | None:
    match value:
        case {"choices": [*choices]} if choices and all(map(_is_choice, choices)):
            return ValueForm.COMPLETION, [
                choice.get("text") if choice.get("message") is None else choice["message"]
                for choice in choices
            ]
        case {"candidates": [*candidates]} if candidates and all(map(_is_candidate, candidates)):
            return ValueForm.RESPONSE, [{"role": "model", **c["content"]} for c in candidates]
        case {"object": "response", "output": [*items]}:
            return ValueForm.RESPONSE, [items]
        case {"generations": [*members]} | {"samples": [*members]} if members and len(value) == 1:
            return ValueForm.GENERATIONS, read_generations(members)
        case {"generations": [[Mapping(), *_], *_] as members}:
            return ValueForm.GENERATIONS, read_generations(members)
    return None


def _one_answer_of(value: Mapping[Any, Any]) -> tuple[ValueForm, list[Any]] | None:
    """The answer in a line of the batch API of OpenAI or Anthropic, or in a response of Ollama."""
    match value:
        case {"custom_id": _, "response": Mapping() as answer}:
            return ValueForm.BATCH_LINE, [answer]
        case {"custom_id": _, "result": Mapping() as answer}:
            return ValueForm.BATCH_LINE, [answer]
        case {"status_code": int(status), "body": answer} if status < BAD_STATUS:
            return ValueForm.BATCH_LINE, [answer]
        case {"type": "succeeded", "message": Mapping() as answer}:
            return ValueForm.BATCH_LINE, [answer]
        case {"model": _, "response": str() as answer, "done": bool()}:  # of Ollama
            return ValueForm.COMPLETION, [answer]
    return None


def _is_choice(choice: Any) -> bool:
    """Return whether an object is a choice of a model server; the choices of a question have texts, too."""
    if not isinstance(choice, Mapping):
        return False
    is_of_server = not choice.keys().isdisjoint({"index", "finish_reason", "logprobs"})
    return isinstance(choice.get("message"), Mapping) or (is_of_server and "text" in choice)


def _is_candidate(candidate: Any) -> bool:
    return isinstance(candidate, Mapping) and isinstance(candidate.get("content"), Mapping)


def read_generations(members: Sequence[Any]) -> list[Any]:
    """The generations of a model, each a text, a message or an object with a text. LangChain has a list of
    them for each prompt.
    """
    flat = [m for member in members for m in (member if isinstance(member, list) else [member])]
    return list(map(_generation, flat))


def _generation(member: Any) -> Any:
    match member:
        case {"message": Mapping() as message}:
            return message
        case {"text": str() as text}:
            return text
    return member
