"""Sections of the handbook, tokenization, and BM25 search."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

RETIRED = "(retired)"
STOP_WORDS = frozenset(
    re.findall(
        r"[a-z]+",
        """
        a about after am an and any are as at be before been but by can could did do does each for
        from get had has have how i if in into is it its just may me more must my need no not of on
        one or our shall should so some somebody than that the them then there they this to up us
        was we what when where which who why will with would yes you your
        """,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One headed paragraph of the handbook; `file` is the name of its file without suffix."""

    file: str
    heading: str
    text: str
    retired: bool = False

    @property
    def slug(self) -> str:
        return "-".join(words(self.heading))

    @property
    def key(self) -> str:
        return f"{self.file}#{self.slug}"


def read_handbook(folder: Path) -> list[Section]:
    """Every section of the Markdown files in a folder, in the order of file names and text."""
    return [section for path in sorted(folder.glob("*.md")) for section in _sections_of(path)]


def _sections_of(path: Path) -> list[Section]:
    title, *parts = re.split(r"^## ", path.read_text("utf-8"), flags=re.MULTILINE)
    return [
        Section(
            file=path.stem,
            heading=heading.strip(),
            text=" ".join(text.split()),
            retired=RETIRED in title,
        )
        for heading, _, text in (part.partition("\n") for part in parts)
    ]


def words(text: str) -> list[str]:
    """The lower-case words and numbers of a text; `6.50` is one number."""
    return re.findall(r"\d+(?:\.\d+)*|[^\W\d_]+", text.lower())


def terms(text: str) -> list[str]:
    """The words that carry meaning, each without its English ending."""
    return [_stem(word) for word in words(text) if word not in STOP_WORDS and len(word) > 1]


def _stem(word: str) -> str:
    stem = _without_ending(word).removesuffix("e")
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem


def _without_ending(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word.removesuffix(ending)
    return word


class SearchHit(NamedTuple):
    """A matching document and its BM25 score."""

    position: int
    score: float


class SearchResult(NamedTuple):
    """The hits of a search, and the number of postings it visited."""

    hits: list[SearchHit]
    postings: int


class Index:
    """BM25 over a list of documents.

    Source: Robertson and Zaragoza 2009, k1 = 1.2 and b = 0.75, with ln(1 + (N - n + ½)/(n + ½)) as
    the weight of a term, which is never negative.
    """

    K1 = 1.2
    B = 0.75

    def __init__(self, documents: Sequence[str]) -> None:
        counts = [Counter(terms(document)) for document in documents]
        self._lengths = [sum(count.values()) for count in counts]
        self._mean_length = sum(self._lengths) / len(self._lengths) if counts else 0.0
        self._postings: dict[str, dict[int, int]] = {}
        for position, count in enumerate(counts):
            for term, frequency in count.items():
                self._postings.setdefault(term, {})[position] = frequency

    def weight(self, term: str) -> float:
        """How rare a term is: 0.0 for one that no document contains."""
        holding = len(self._postings.get(term, ()))
        total = len(self._lengths)
        return math.log(1 + (total - holding + 0.5) / (holding + 0.5)) if holding else 0.0

    def search(self, query: str, *, limit: int) -> SearchResult:
        """The best documents for a query, best first; ties go to the earlier document."""
        scores: dict[int, float] = {}
        visited = 0
        for term in dict.fromkeys(terms(query)):
            for position, frequency in self._postings.get(term, {}).items():
                visited += 1
                gain = self.weight(term) * self._saturation(position, frequency)
                scores[position] = scores.get(position, 0.0) + gain
        # Nine digits keep the order the same on machines whose logarithm differs in the last bit.
        hits = [SearchHit(position, round(score, 9)) for position, score in scores.items()]
        hits.sort(key=lambda hit: (-hit.score, hit.position))
        return SearchResult(hits[:limit], visited)

    def _saturation(self, position: int, frequency: int) -> float:
        length = self._lengths[position] / self._mean_length
        return frequency * (self.K1 + 1) / (frequency + self.K1 * (1 - self.B + self.B * length))
