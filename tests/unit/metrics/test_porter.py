"""The Porter stemmer: stems that are known, and equality with nltk for words of every ending."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mosaico.metrics import porter
from mosaico.metrics.porter import porter_stem
from tests.support.references import IN_ONE_PROCESS, Reference

nltk_porter = Reference("nltk.stem.porter")

# Every ending of a rule, what turns one rule into another one, and letters whose kind depends on their neighbors.
ENDINGS = sorted(
    {*porter._STEP_2, *porter._STEP_3, *porter._STEP_4, "", "s", "ss", "sses", "ies", "ied", "eed", "ed",
     "ing", "y", "ally", "fully", "logy", "logi", "sion", "tion", "ion", "e", "ll", "lle", "at", "bl", "iz",
     "bled", "pping", "ly"}
)  # fmt: skip
words = st.builds(
    "".join,
    st.tuples(
        st.text("aeiouybclnpstwxz1'", max_size=6),
        st.sampled_from(ENDINGS),
        st.sampled_from(ENDINGS),
        st.sampled_from(ENDINGS),
    ),
)


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        # From the paper of Porter, and the exceptions of nltk.
        ("caresses", "caress"), ("ponies", "poni"), ("plastered", "plaster"), ("hopping", "hop"),
        ("filing", "file"), ("falling", "fall"), ("relational", "relat"), ("vietnamization", "vietnam"),
        ("hopefulness", "hope"), ("adoption", "adopt"), ("controlling", "control"), ("cease", "ceas"),
        ("dies", "die"), ("skies", "sky"), ("news", "news"), ("enjoy", "enjoy"), ("geology", "geolog"),
    ],
)  # fmt: skip
def test_porter__stems_as_published(word: str, stem: str) -> None:
    assert porter_stem(word) == stem


@IN_ONE_PROCESS
@given(words)
@example("y" * 500)
@example("as")
@example("traditionally")
@settings(max_examples=25 * settings().max_examples)
def test_porter__equals_nltk(word: str) -> None:
    assert porter_stem(word) == nltk_porter.PorterStemmer().stem(word)
