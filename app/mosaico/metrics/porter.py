"""The Porter stemmer, for English words: the same stems as nltk 3.10, with which rouge-score stems.

A module of its own because `import nltk` takes two seconds of CPU and 200 MB in each process that measures, and other
packages have another variant of the algorithm, with other stems. Pure.

Source: Porter 1980, An algorithm for suffix stripping; the mode NLTK_EXTENSIONS of `nltk.stem.porter`.
"""

from collections.abc import Mapping
from typing import Final

_IRREGULAR: Final = {
    "skies": "sky", "sky": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news",
    "innings": "inning", "inning": "inning", "outings": "outing", "outing": "outing",
    "cannings": "canning", "canning": "canning", "howe": "howe", "proceed": "proceed",
    "exceed": "exceed", "succeed": "succeed",
}  # fmt: skip
_LONGEST_UNCHANGED: Final = 2
# The `-ies` and `-ied` of words of this length are part of their stem: dies, tied.
_SHORT: Final = 4

# Of the endings of a step the first one that a word has is the only one that is tried.
_STEP_2: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize",
    "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful",
    "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "fulli": "ful",
}  # fmt: skip
_STEP_3: Final = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_STEP_4: Final = dict.fromkeys(
    ("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ou", "ism",
     "ate", "iti", "ous", "ive", "ize"),
    "",
)  # fmt: skip


def porter_stem(word: str) -> str:
    """The stem of a word in lower case; characters other than a-z count as consonants."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= _LONGEST_UNCHANGED:
        return word
    word = _without_participle(_without_plural(word))
    if word.endswith("y") and len(word) > _LONGEST_UNCHANGED and _shape(word)[-2] == "c":
        word = f"{word[:-1]}i"
    word = _without_double_suffix(word)
    word = _replace_ending(word, _STEP_3, least=1)
    word = _without_suffix(word)
    return _without_final_e(word)


def _shape(text: str) -> str:
    """A `c` for each consonant and a `v` for each vowel; a y after a consonant is a vowel."""
    kinds: list[str] = []
    for letter in text:
        is_vowel = letter in "aeiou" or (letter == "y" and kinds[-1:] == ["c"])
        kinds.append("v" if is_vowel else "c")
    return "".join(kinds)


def _measure(stem: str) -> int:
    """How often a consonant follows a vowel: about the number of syllables."""
    return _shape(stem).count("vc")


def _is_closed(stem: str) -> bool:
    """Return whether the stem ends like a closed syllable, as `hop` and `at`: its last consonant is not w, x or y."""
    shape = _shape(stem)
    return shape == "vc" or (shape.endswith("cvc") and stem[-1] not in "wxy")


def _replace_ending(word: str, endings: Mapping[str, str], *, least: int) -> str:
    """The word with the first of these endings replaced that it has, if the measure of its stem is at least `least`."""
    for ending, replacement in endings.items():
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            return stem + replacement if _measure(stem) >= least else word
    return word


def _without_plural(word: str) -> str:
    """Step 1a."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == _SHORT else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_participle(word: str) -> str:
    """Step 1b."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == _SHORT else word[:-2]
    if word.endswith("eed"):
        return _replace_ending(word, {"eed": "ee"}, least=1)
    for ending in ("ed", "ing"):
        stem = word.removesuffix(ending)
        if stem != word and "v" in _shape(stem):
            return _with_final_e(stem)
    return word


def _with_final_e(stem: str) -> str:
    """The stem of a participle as its verb ends: conflat(ed) conflate, hopp(ing) hop, fil(ing) file."""
    if stem.endswith(("at", "bl", "iz")):
        return f"{stem}e"
    if stem[-1:] == stem[-2:-1] and _shape(stem)[-1] == "c":
        return stem if stem[-1] in "lsz" else stem[:-1]
    return f"{stem}e" if _measure(stem) == 1 and _is_closed(stem) else stem


def _without_double_suffix(word: str) -> str:
    """Step 2."""
    if word.endswith("logi"):
        # The l counts as part of the stem: geology as archaeology.
        return word[:-1] if _measure(word[:-3]) else word
    shorter = _replace_ending(word, _STEP_2, least=1)
    # What remains of `-ally` may end in another of these suffixes.
    return _without_double_suffix(shorter) if word.endswith("alli") and shorter != word else shorter


def _without_suffix(word: str) -> str:
    """Step 4."""
    if not word.endswith("ion"):
        return _replace_ending(word, _STEP_4, least=2)
    stem = word[:-3]
    return stem if stem.endswith(("s", "t")) and _measure(stem) > 1 else word


def _without_final_e(word: str) -> str:
    """Steps 5a and 5b."""
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_closed(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
