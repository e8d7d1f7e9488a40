"""The one member of an object that is its text, by the names of its members; pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

# Names of the one text of an object, without case and separators: of an answer, a question, a reference.
ANSWER_NAMES: Final = frozenset(
    {
        *("answer", "finalanswer", "response", "responsetext", "reply", "output", "outputtext"),
        *("outputs", "generatedtext", "generatedanswer", "completion", "prediction", "text"),
        *("content", "result", "value", "message", "msg", "llmoutput", "modeloutput", "aimessage"),
    }
)
QUESTION_NAMES: Final = frozenset(
    {
        *("question", "query", "input", "inputs", "prompt", "userinput", "instruction", "request"),
        *("userquery", "userquestion", "chatinput", "inputtext", "text", "content", "message"),
    }
)
REFERENCE_NAMES: Final = frozenset(
    {
        *("expected", "expectedoutput", "expectedanswer", "reference", "referenceanswer"),
        *("groundtruth", "target", "gold", "goldanswer", "ideal", "correctanswer", "truth"),
    }
)
# Members beside the one text of an object that belong to its making.
DETAILS: Final = frozenset(
    {
        *("id", "object", "type", "role", "model", "modelname", "provider", "created", "createdat"),
        *("timestamp", "usage", "tokens", "tokenusage", "latency", "latencyms", "duration", "cost"),
        *("finishreason", "stopreason", "status", "success", "traceid", "sessionid", "threadid"),
        *("runid", "requestid", "conversationid", "userid", "name", "version", "language"),
        *("metadata", "responsemetadata", "additionalkwargs", "logprobs", "index", "error"),
        *("source", "sources", "sourcedocuments", "documents", "docs", "citations", "references"),
        *("context", "contexts", "retrievedcontexts", "retrievalcontext", "chunks", "annotations"),
        *("confidence", "score", "scores", "reasoning", "rationale", "thought", "thoughts"),
        *("explanation", "intermediatesteps", "steps", "toolcalls", "tools", "toolscalled"),
        *("chathistory", "history", "memory", "messages", "followups", "suggestions"),
        *("details", "meta", "event", "mode", "warnings", "safetyratings", "systemfingerprint"),
        *("safetyattributes", "citationmetadata", "groundingmetadata"),
    }
)
# What an agent or its server writes in place of an answer, and what it writes beside it.
ERROR_NAMES: Final = frozenset(
    {"error", "errors", "errormessage", "errormsg", "err", "exception", "exceptionmessage"}
)
BESIDE_ERRORS: Final = frozenset(
    {
        *("traceback", "stack", "stacktrace", "message", "detail", "details", "code", "type", "ok"),
        *("errortype", "errorcode", "statuscode", "param", "success", "output", "answer", "result"),
    }
)
FAILED: Final = frozenset({"error", "errored", "exception"})
NO_MESSAGE: Final = "an error without a message"
_SEPARATORS: Final = re.compile(r"[\W_]+")


def find_one_text(value: Mapping[Any, Any], wanted: frozenset[str], details: frozenset[str]) -> Any:
    """The name of the one member of an object that is its text: one of the `wanted` names, with nothing beside it but
    `details`. None when other members may be the text too.
    """
    names = {
        name: normalize_name(name)
        for name, member in value.items()
        if isinstance(name, str) and member is not None
    }
    if any(not isinstance(name, str) for name in value):
        return None
    texts = [name for name, normalized in names.items() if normalized in wanted]
    if len(texts) > 1:
        texts = [name for name in texts if names[name] not in details]
    if len(texts) != 1:
        return None
    others = (name for name in names if name != texts[0])
    return texts[0] if all(_is_detail(name, names[name], details) for name in others) else None


def find_error(value: Mapping[Any, Any]) -> Any:
    """What an object says about an error in place of an answer; None for an object that may hold an answer."""
    filled = {
        normalize_name(name): member
        for name, member in value.items()
        if member not in (None, "", [], {})
    }
    if not filled.keys() <= ERROR_NAMES | BESIDE_ERRORS | DETAILS:
        return None
    errors = [member for name, member in filled.items() if name in ERROR_NAMES]
    message = filled.get("message", filled.get("detail"))
    answers = {name for name in filled if name in ("output", "answer", "result")}
    if answers or not (errors or filled.get("status") in FAILED):
        return None
    named = (error for error in errors if error and error is not True)
    return next(named, message or (NO_MESSAGE if any(errors) else None))


def _is_detail(name: str, normalized: str, details: frozenset[str]) -> bool:
    return normalized in details or name.endswith(("_id", "Id", "_ms", "Ms", "_at", "At"))


def normalize_name(name: Any) -> str:
    """A name without case and separators; empty for a key that is no text."""
    return _SEPARATORS.sub("", name).casefold() if isinstance(name, str) else ""
