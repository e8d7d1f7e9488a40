"""What the name of an attribute says: whether it names the model or the prompt, or one run or request alone; pure."""

from typing import Final

MODEL_NAMES: Final = frozenset({"model", "modelname", "modelid", "llmmodel", "llmmodelname"})
PROMPT_NAMES: Final = frozenset(
    {"promptversion", "prompt", "promptname", "promptid", "prompthash", "systempromptversion"}
)
RELEASE_NAMES: Final = ("version", "release")
# An item has several of these at once, and none of them is no gap.
MANY_VALUED: Final = frozenset({"tag", "tool", "failed tool", "outcome"})
PROMPT_SIZE: Final = "prompt tokens"

_ENVIRONMENT_NAMES: Final = frozenset({"release", "version", "environment", "env"})
_RANKS: Final = (MODEL_NAMES, PROMPT_NAMES, _ENVIRONMENT_NAMES)
OTHER_RANK: Final = len(_RANKS)
# They are others in each run or request.
_IDENTIFIERS: Final = frozenset(
    {"session", "user", "run", "runname", "experiment", "experimentname", "date", "time", "task", "erased"}
)  # fmt: skip
_IDENTIFIER_ENDS: Final = (
    "id",
    "uuid",
    "timestamp",
    "startedat",
    "createdat",
    "startedtime",
    "runname",
)
# The ID of a model is one of its names.
_IDENTIFIED: Final = ("model", "prompt", "deployment", "dataset")


def plain_name(name: str) -> str:
    """The last part of a name with dots, in small letters and digits only: `agent.promptVersion` is `promptversion`."""
    return "".join(char for char in name.rpartition(".")[2].casefold() if char.isalnum())


def is_identifier(name: str) -> bool:
    """Return whether an attribute is another one in each run or request by its nature: a session, a user, a time."""
    plain = plain_name(name)
    if plain in _IDENTIFIERS:
        return True
    is_id = plain.endswith(_IDENTIFIER_ENDS)
    return is_id and not any(word in plain for word in _IDENTIFIED)


def rank_of(name: str) -> int:
    """The place of an attribute among others that explain as much: the model, the prompt, the release, any other."""
    plain = plain_name(name)
    return next((rank for rank, names in enumerate(_RANKS) if plain in names), OTHER_RANK)


def split_feature(feature: str) -> tuple[str, str]:
    """The name and the value of a feature of `items.attributes`: of the tag `model:a`, `model` and `a`."""
    kind, _, value = feature.partition(":")
    if kind == "tag":
        name, separator, rest = value.partition(":")
        return (name, rest) if separator and name else ("tag", value)
    return {"failed": "failed tool", "ended": "outcome"}.get(kind, kind), value
