"""Tokens and values equal those of the reference libraries on adversarial texts."""

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.tokenizers import bleu_words, rouge_words, stemmed_rouge_words
from mosaico.metrics.types import MetricRef
from mosaico.traces.types import Trace
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
rouge_scorer = Reference("rouge_score.rouge_scorer")
rouge_tokenizers = Reference("rouge_score.tokenizers")
sacrebleu = Reference("sacrebleu")
tokenizer_13a = Reference("sacrebleu.tokenizers.tokenizer_13a")

TOLERANCE: Final = 1e-12
LONG: Final = ("the quick, brown fox 3.5 jumps over 1,000 lazy dogs - and runs. " * 1600)[:100_000]

ADVERSARIAL: Final[Sequence[str]] = (
    "",
    " ",
    "\t\r\n\v\f\x1c\x1d\x1e\x1f\x85\u00a0\u2003\u3000",
    "a\x1cb\x1fc\u2028d\u3000e\u00a0f",
    "The quick brown fox jumps over the lazy dog.",
    "the the the the, THE the",
    "👩‍👩‍👧 emoji 🏳️‍🌈 and 🧑🏽‍🚀!",
    "東京は日本の首都です。北京是中国的首都。",
    "e\u0301te\u0301 caf\u00e9 A\u030angstro\u0308m \u212bngstr\u00f6m",
    "İstanbul ISTANBUL ıstanbul ΣΑΣ ςσ ß ẞ \u212aelvin",
    ".",
    ",,..,.",
    "...",
    "a,,b ..c d.. 1..2 1,.2 ,1 1, .5 5. 3.14 1,000,000.50 a.5 5.a",
    "-",
    "1-2 3- -4 a-1 1-a 1.-2 --- 5--6",
    "&quot;&amp;&lt;&gt; &amp;lt; &amp;amp;quot; &am-\np; R&D &nbsp;",
    "hyphen-\nated end- \nof line-\n",
    "<skipped> a<skipped>b <skip<skipped>ped> -<skipped>\nx",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "don't can't user's well-known e.g. i.e. U.S.A. http://a.b/c?d=e&f=g x@y.z",
    "null\x00byte\x7fdel\x1bescape \x01the\x02 a\x00an",
    "\ud800 lone \udfff surrogates\ud83d",
    "“the” ‘a’ l’an — the–a «An»",
    "running runs ran easily fairly generalizations oscillators skies dying yyy sayyyy",
)  # fmt: skip

texts = st.text(st.characters(), max_size=80) | st.lists(
    st.sampled_from(
        [*"aAbzé1290.,-&<>;'\"!/ \n\t\u3000", "the", " the ", "-\n", "&amp;", "<skipped>", "3.5",
         ",,", "..", "…", "word", "word ", "running ", "\U0001f600", "\x1c", "\x85", "lt;"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _metrics() -> None:
    load_metrics()


def value(key: str, expected: str, output: str, **options: bool) -> float:
    trace = Trace(trace_id="t", item_id="i", expected_output=expected, output=output)
    return provider_for(MetricRef.of(key, options)).compute(trace)


def assert_rouge_is_equal(expected: str, output: str, *, stemmed: bool) -> None:
    theirs = rouge_scorer.RougeScorer(["rougeL", "rouge1", "rouge2"], use_stemmer=stemmed).score(
        expected, output
    )
    for key, kind in (("ROUGE", "rougeL"), ("ROUGE_1", "rouge1"), ("ROUGE_2", "rouge2")):
        ours = value(key, expected, output, useStemmer=stemmed)
        assert abs(ours - theirs[kind].fmeasure) <= TOLERANCE, (key, expected, output)


def assert_bleu_is_equal(expected: str, output: str) -> None:
    theirs = sacrebleu.sentence_bleu(output, [expected], use_effective_order=True).score / 100
    ours = value("BLEU", expected, output)
    assert abs(ours - theirs) <= TOLERANCE, (expected, output)


@pytest.mark.parametrize("expected", ADVERSARIAL)
def test_text_metrics__adversarial_pairs_equal_the_references(expected: str) -> None:
    for output in ADVERSARIAL:
        assert_rouge_is_equal(expected, output, stemmed=False)
        assert_rouge_is_equal(expected, output, stemmed=True)
        assert_bleu_is_equal(expected, output)


@given(texts, texts)
@example("a.b", "a .b")
def test_text_metrics__random_pairs_equal_the_references(expected: str, output: str) -> None:
    assert_rouge_is_equal(expected, output, stemmed=False)
    assert_rouge_is_equal(expected, output, stemmed=True)
    assert_bleu_is_equal(expected, output)


@given(texts)
def test_tokenizers__tokens_equal_the_references(text: str) -> None:
    assert [
        word.decode() for word in rouge_words(text)
    ] == rouge_tokenizers.DefaultTokenizer().tokenize(text)
    stemmed = rouge_tokenizers.DefaultTokenizer(use_stemmer=True).tokenize(text)
    assert [word.decode() for word in stemmed_rouge_words(text)] == stemmed
    theirs = tokenizer_13a.Tokenizer13a()(text.rstrip()).split()
    assert [word.decode("utf-8", "surrogatepass") for word in bleu_words(text)] == theirs


def test_text_metrics__texts_of_100_000_characters_equal_the_references() -> None:
    other = LONG.replace("fox", "wolf").replace(". the", ". A")
    assert_bleu_is_equal(LONG, other)
    # The reference fills a table of n·m cells for ROUGE-L, so the long text meets a short one.
    assert_rouge_is_equal("The quick brown wolf runs.", LONG, stemmed=True)
    assert_rouge_is_equal(LONG, "the lazy dogs, and a fox", stemmed=False)


def test_text_metrics__word_of_100_000_characters_equals_the_references() -> None:
    for word in ("x" * 100_000, "9" * 100_000, "漢" * 100_000, "." * 100_000):
        assert_bleu_is_equal(word, word)
        assert_rouge_is_equal(word, f"{word} {word}", stemmed=False)
