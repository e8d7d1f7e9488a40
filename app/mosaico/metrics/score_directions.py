"""The direction in which a score of a source improves, and where that is known from; pure."""

import re
from itertools import pairwise
from typing import Final, NamedTuple

from mosaico.metrics.types import Direction

HIGH, LOW = Direction.HIGHER_IS_BETTER, Direction.LOWER_IS_BETTER
# The values of the options `better` and `stated`, as in the formula of a KPI.
BY_OPTION: Final = {"higher": HIGH, "lower": LOW}
_PHRASES: Final = {
    HIGH: "higher is better",
    LOW: "lower is better",
    Direction.NEITHER: "no known direction",
}

# Names that mean one thing everywhere. `hallucination` is not among them: DeepEval and Phoenix score it low for a good
# answer, the prompts of openevals high.
_HIGHER: Final = frozenset(
    {
        "acc", "accuracy", "adherence", "bertscore", "bleu", "chrf", "clarity", "coherence", "completeness",
        "conciseness", "correct", "correctness", "em", "f1", "factuality", "faithful", "faithfulness", "fluency",
        "gleu", "grounded", "groundedness", "harmlessness", "helpful", "helpfulness", "match", "mcc", "meteor",
        "mrr", "ndcg", "pass", "passed", "precision", "preference", "recall", "relevance", "relevancy", "resolved",
        "reward", "rouge", "rouge1", "rouge2", "rougel", "safety", "satisfaction", "similarity", "solved", "success",
        "usefulness", "win",
    }
)  # fmt: skip
_LOWER: Final = frozenset(
    {
        "bias", "brier", "cer", "defect", "error", "errors", "harmful", "harmfulness", "loss", "misuse",
        "perplexity", "profanity", "stereotyping", "ter", "toxic", "toxicity", "violence", "wer",
    }
)  # fmt: skip
# These say nothing beside another word: `anger_score` may be either.
_GENERIC: Final = frozenset(
    {
        "grade", "overall", "quality", "rating", "score", "scores",
    }
)  # fmt: skip
_NEUTRAL: Final = frozenset(
    {
        "ai", "answer", "answers", "average", "avg", "bert", "eval", "final", "gpt", "human", "judge", "llm", "mean",
        "model", "output", "percent", "rate", "response", "task", "test", "total", "user", "value",
    }
)  # fmt: skip
_GENERIC_WORDS: Final = _GENERIC | _NEUTRAL | {""}
# What an answer took, or a property of it, and no judgment of it.
_WORK_LOWER: Final = frozenset(
    {
        "cost", "costs", "duration", "latency", "price", "runtime", "seconds", "steps", "time", "tokens", "turns",
        "usd",
    }
)  # fmt: skip
_WORK: Final = frozenset(
    {
        "attempts", "calls", "characters", "chars", "confidence", "count", "created", "epoch", "id", "index",
        "length", "logprob", "ms", "num", "number", "rank", "retries", "seed", "size", "temperature", "timestamp",
        "token", "trial", "words", "year",
    }
)  # fmt: skip
# A name with one of these is not decided by its other words.
_UNCLEAR: Final = frozenset(
    {
        "change", "delta", "difference", "drop", "effectiveness", "efficiency", "error", "false", "free", "gap",
        "hallucination", "hallucinations", "improvement", "loss", "no", "non", "not", "readability", "reduction",
        "refusal", "std", "stderr", "stdev", "threshold", "un", "variance",
    }
)  # fmt: skip
_PAIRS: Final = {
    ("edit", "distance"): LOW,
    ("hate", "unfairness"): LOW,
    ("noise", "sensitivity"): LOW,
    ("self", "harm"): LOW,
    ("bits", "per"): LOW,
}
_WORD: Final = re.compile(r"[A-Z]+\d*(?![a-z])|[A-Z]?[a-z]+\d*|\d+|[^\W\d_]+")


class ScoreDirection(NamedTuple):
    """The direction of a score and its `origin` in words; `is_quality` is false for what an answer took."""

    direction: Direction
    origin: str
    is_quality: bool = True

    @property
    def phrase(self) -> str:
        """The direction with its origin: "higher is better by its name"."""
        return " ".join(filter(None, (_PHRASES[self.direction], self.origin)))


def direction_of_score(name: str, better: str = "", stated: str = "") -> ScoreDirection:
    """The direction of a score: what the user said (`better`: a key of `BY_OPTION`, or ""), otherwise what its source states
    (`stated`), otherwise by its name.
    """
    if better:
        return ScoreDirection(BY_OPTION[better], "as you said")
    if stated:
        return ScoreDirection(BY_OPTION[stated], "as the source states")
    return _direction_of_name(name)


def _direction_of_name(name: str) -> ScoreDirection:
    words = [word.lower() for word in _WORD.findall(name)]
    word_set = {*words}
    if word_set & (_WORK | _WORK_LOWER):
        is_lower = bool(word_set & _WORK_LOWER) and not word_set & (_UNCLEAR | _HIGHER)
        return ScoreDirection(LOW if is_lower else Direction.NEITHER, _origin(is_lower), False)
    direction = _judged_direction(words)
    return ScoreDirection(direction, _origin(direction is not Direction.NEITHER))


def _judged_direction(words: list[str]) -> Direction:
    word_set = {*words}
    pairs = {_PAIRS[pair] for pair in pairwise(words) if pair in _PAIRS}
    if pairs:
        return pairs.pop()
    lower, higher = word_set & _LOWER, word_set & _HIGHER
    if lower and not higher and not word_set & (_UNCLEAR - _LOWER):
        return LOW
    if higher and not lower and not word_set & _UNCLEAR:
        return HIGH
    is_generic = bool(word_set & _GENERIC) and all(
        word.rstrip("0123456789") in _GENERIC_WORDS for word in words
    )
    return HIGH if is_generic else Direction.NEITHER


def _origin(is_known: bool) -> str:  # noqa: FBT001 - the only argument
    return "by its name" if is_known else ""
