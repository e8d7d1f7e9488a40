"""Texts of every language: what metrics of words read, chrF, and the tokenizers of ROUGE and BLEU."""

from collections.abc import Callable
from importlib.util import find_spec

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mosaico.core import extras
from mosaico.core.extras import MissingPackages
from mosaico.metrics.aggregate import aggregate_measured, missing_counts
from mosaico.metrics.engine import measure, measure_chunk
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.segmentation import unicode_words
from mosaico.metrics.types import (
    MetricFailed,
    MetricFailureKind,
    MetricRef,
    MetricSkipped,
    MetricSkipReason,
    MetricSpec,
    OptionValue,
    ReadableTexts,
)
from mosaico.metrics.unread_texts import measured_texts, warn_of_unread
from mosaico.traces.types import Trace, TraceOutcome
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
sacrebleu = Reference("sacrebleu")
load_metrics()

NOT_APPLICABLE = MetricSkipped(MetricSkipReason.NOT_APPLICABLE)
RUSSIAN = "Возврат товара занимает пять рабочих дней"
CHINESE = "请在设置页面中更改您的语言和时区，然后保存。"
CHINESE_WITH_LATIN = "请在App的设置页面中更改您的GPT语言和时区"
JAPANESE = "配送には三日から五日ほどかかります。"
THAI = "การจัดส่งใช้เวลาสามถึงห้าวันทำการ"
ENGLISH = "Delivery takes three to five working days"

TOLERANCE = 1e-12
needs_japanese = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("MeCab", "ipadic")), reason="needs the extra `ja`"
)
texts = st.text(st.characters(), max_size=60) | st.lists(
    st.sampled_from(
        [*"aAé19.,-& \n\t\u3000日本語のアあ，。、“”…「」", "the ", "東京", "3.5", "-", "GPT", "\U00020000",
         "\u2001", "\u2a6d", "\u2f81", "\U0001f600", "ก็", "к ", "\ud800", "\x1c", "\x85"]
    ),
    max_size=30,
).map("".join)  # fmt: skip


def trace(
    expected: str | None, output: str | None, outcome: TraceOutcome = TraceOutcome.SCORED
) -> Trace:
    return Trace(
        trace_id="t", item_id="i", expected_output=expected, output=output, outcome=outcome
    )


def measured(
    key: str, expected: str | None, output: str | None = "ok", **options: OptionValue
) -> float | MetricSkipped | MetricFailed | None:
    """The value of a metric, or the reason why it is missing."""
    row = measure(trace(expected, output), [provider_for(MetricRef.of(key, options))])
    [value] = row.values
    return value if value is not None else row.missing[key]


# --- which texts a metric reads -----------------------------------------------------------------


@pytest.mark.parametrize("key", ["ROUGE", "ROUGE_1", "ROUGE_2"])
@pytest.mark.parametrize(
    "expected",
    [RUSSIAN, CHINESE, CHINESE_WITH_LATIN, JAPANESE, THAI, "", " \n", "—!", "\U0001f600"],
)
def test_rouge__does_not_apply_to_expected_texts_that_it_cannot_read(
    key: str, expected: str
) -> None:
    # Also to equal texts, and to an answer in English.
    assert measured(key, expected, expected or "x") == NOT_APPLICABLE
    assert measured(key, expected, ENGLISH) == NOT_APPLICABLE


@pytest.mark.parametrize(
    "expected",
    [
        ENGLISH,
        "L'été dernier, j'ai été à la plage où il a plu",  # few letters are outside of a-z
        "42 €",
        "\u212a",  # the sign of Kelvin, whose lower case is k
    ],
)
def test_rouge__reads_texts_with_words_of_its_alphabet(expected: str) -> None:
    assert measured("ROUGE", expected, expected) == 1.0


def test_rouge__an_unreadable_answer_to_a_readable_text_is_0() -> None:
    assert measured("ROUGE", ENGLISH, CHINESE) == 0.0
    assert measured("ROUGE", ENGLISH, RUSSIAN) == 0.0


@pytest.mark.parametrize("key", ["BLEU", "PRECISION", "RECALL", "F1_SCORE"])
def test_metrics_of_spaced_words__read_scripts_with_spaces_and_labels_only(key: str) -> None:
    for expected in (
        RUSSIAN,
        ENGLISH,
        "배송은 삼 일에서 오 일 정도 걸립니다",
        "東京",
        "返品について",
    ):
        assert measured(key, expected, expected) == 1.0
    for expected in (CHINESE, CHINESE_WITH_LATIN, JAPANESE, THAI):
        assert measured(key, expected, expected) == NOT_APPLICABLE
    # A long English text with one Chinese sentence has words.
    assert measured(key, f"{ENGLISH * 3} {CHINESE}", ENGLISH) != NOT_APPLICABLE


def test_f1__blank_text_means_no_answer_as_in_squad() -> None:
    assert measured("F1_SCORE", "", "") == 1.0
    assert measured("F1_SCORE", "", "an answer") == 0.0
    assert measured("BLEU", "", "an answer") == NOT_APPLICABLE


@pytest.mark.parametrize("outcome", list(TraceOutcome))
@pytest.mark.parametrize("output", [None, "", ENGLISH])
def test_not_applicable__is_decided_by_the_expected_text_alone(
    outcome: TraceOutcome, output: str | None
) -> None:
    providers = [provider_for(MetricRef.of("ROUGE")), provider_for(MetricRef.of("CHRF"))]
    row = measure(trace(RUSSIAN, output, outcome), providers)
    assert row.missing["ROUGE"] == NOT_APPLICABLE
    # CHRF reads the text: it is 0 where the agent failed, and skipped for its own reasons.
    assert row.missing.get("CHRF") != NOT_APPLICABLE


def test_not_applicable__is_a_concept_of_every_metric() -> None:
    """A metric of a plugin, also in batches, and with a test of texts that fails."""

    class Upper:
        def __init__(self, accepts: Callable[[str], bool]) -> None:
            self.spec = MetricSpec(
                key="UPPER",
                description="d",
                source="s",
                readable=ReadableTexts(accepts, ("LOWER",)),
            )

        def supports(self, _: Trace) -> bool:
            return True

        def compute(self, _: Trace) -> float:
            return 1.0

        def compute_batch(self, traces: list[Trace]) -> list[float]:
            return [1.0 for _ in traces]

    rows = measure_chunk([trace("A", "x"), trace("a", "x"), trace(None, "x")], [Upper(str.isupper)])
    assert [row.values[0] for row in rows] == [1.0, None, 1.0]
    assert rows[1].missing == {"UPPER": NOT_APPLICABLE}
    [broken] = measure_chunk([trace("A", "x")], [Upper(lambda text: bool(int(text)))])
    missing = broken.missing["UPPER"]
    assert isinstance(missing, MetricFailed)
    assert missing.kind is MetricFailureKind.RAISED


def test_not_applicable__is_outside_of_the_coverage() -> None:
    rows = [
        measure(trace(expected, "three days"), [provider_for(MetricRef.of("ROUGE"))])
        for expected in (ENGLISH, RUSSIAN, RUSSIAN, ENGLISH)
    ]
    aggregate = aggregate_measured(
        [row.values[0] for row in rows], missing=missing_counts(rows, "ROUGE")
    )
    assert (aggregate.n, aggregate.expected, aggregate.coverage) == (2, 2, 1.0)
    assert aggregate.missing == {"NOT_APPLICABLE": 2}


@pytest.mark.parametrize(("unread", "warns"), [(0, False), (1, False), (2, True), (20, True)])
def test_warning__names_metrics_that_cannot_read_a_tenth_of_the_texts(
    unread: int,
    warns: bool,
) -> None:
    ref = MetricRef.of("ROUGE")
    rows = [
        measure(trace(RUSSIAN if number < unread else ENGLISH, "x"), [provider_for(ref)])
        for number in range(20)
    ]
    aggregate = aggregate_measured(
        [row.values[0] for row in rows], missing=missing_counts(rows, "ROUGE")
    )
    warning = warn_of_unread(measured_texts([ref], {"ROUGE": aggregate}))
    assert (warning is not None) is warns
    if warning:
        assert f"ROUGE cannot read {unread} of 20" in warning
        assert "CHRF" in warning
        assert "\n" not in warning


# --- chrF -----------------------------------------------------------------------------------------


def test_chrf__by_hand() -> None:
    # abcd and abxd: 3 of 4 characters, 1 of 3 pairs (ab), no longer n-gram; n = 1 to 4 for four characters.
    # P = R = (3/4 + 1/3) / 4, and so is their F.
    assert measured("CHRF", "ab cd", "abx d") == pytest.approx((3 / 4 + 1 / 3) / 4)
    assert measured("CHRF", RUSSIAN, RUSSIAN) == pytest.approx(1.0)
    assert measured("CHRF", "日本", "韓") == 0.0
    # P = 1 and R = 1/2 over one order: 5·1·0.5 / (4·1 + 0.5).
    assert measured("CHRF", "ab", "a") == pytest.approx(2.5 / 4.5)
    assert measured("CHRF", " ", "x") == NOT_APPLICABLE


@given(texts, texts)
@example("", "")
@example("a", "")
@example(JAPANESE, JAPANESE[:9])
def test_chrf__equals_sacrebleu(expected: str, output: str) -> None:
    theirs = sacrebleu.sentence_chrf(output, [expected]).score / 100
    ours = provider_for(MetricRef.of("CHRF")).compute(trace(expected, output))
    assert abs(ours - theirs) <= TOLERANCE


# --- tokenizers -----------------------------------------------------------------------------------


def assert_bleu_equals(expected: str, output: str, tokenizer: str) -> None:
    provider = provider_for(MetricRef.of("BLEU", {"tokenizer": tokenizer}))
    theirs = sacrebleu.sentence_bleu(
        output, [expected], use_effective_order=True, tokenize=tokenizer
    )
    ours = provider.compute(trace(expected, output))
    assert abs(ours - theirs.score / 100) <= TOLERANCE, (expected, output)


@given(texts, texts)
@example("“引用” ‘x’", "“引用” x")
@example(".5 ,6", ",5")
@example("1-2 3- ，1,000。", "1-2")
def test_bleu__zh_and_char_equal_sacrebleu(expected: str, output: str) -> None:
    assert_bleu_equals(expected, output, "zh")
    assert_bleu_equals(expected, output, "char")


@needs_japanese
@given(texts, texts)
@example(JAPANESE, "配送には五日かかります。\n三日です。")
def test_bleu__ja_mecab_equals_sacrebleu(expected: str, output: str) -> None:
    # MeCab itself takes neither zero bytes nor lone surrogates.
    pair = [
        text.encode("utf-8", "replace").decode().replace("\0", "") for text in (expected, output)
    ]
    assert_bleu_equals(pair[0], pair[1], "ja-mecab")


def test_bleu__ja_mecab_without_its_packages_says_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(extras.MODULES, "ja", ("no_such_package",))
    with pytest.raises(MissingPackages, match=r"mosaico\[ja\]==.*tokenizer char"):
        provider_for(MetricRef.of("BLEU", {"tokenizer": "ja-mecab"}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't pay 1,000.50 — e.g. TODAY!", ["don't", "pay", "1,000.50", "e.g", "today"]),
        ("Ёлка, ёлки", ["ёлка", "ёлки"]),
        ("東京タワーへ", ["東", "京", "タ", "ワ", "ー", "へ"]),
        ("我用GPT4写", ["我", "用", "gpt4", "写"]),
        ("ที่นี่", ["ที่", "นี่"]),  # a mark belongs to its letter
        ("한국어 문장", ["한국어", "문장"]),
        ("e\u0301te\u0301", ["\u00e9t\u00e9"]),
        ("👍 …", []),
    ],
)
def test_unicode_words__are_those_of_uax_29_and_characters_of_unspaced_scripts(
    text: str, words: list[str]
) -> None:
    assert [word.decode() for word in unicode_words(text)] == words


def test_rouge__unicode_tokenizer_reads_every_language() -> None:
    for expected in (RUSSIAN, CHINESE, CHINESE_WITH_LATIN, JAPANESE, THAI):
        assert measured("ROUGE", expected, expected, tokenizer="unicode") == 1.0
        assert measured("ROUGE", expected, "ok", tokenizer="unicode") == 0.0
    # 5 of 6 words in order: 2·5 / (6 + 6).
    other = RUSSIAN.replace("пять", "шесть")
    assert measured("ROUGE", RUSSIAN, other, tokenizer="unicode") == pytest.approx(10 / 12)
    assert measured("ROUGE", "…", "…", tokenizer="unicode") == NOT_APPLICABLE


def test_rouge__unicode_tokenizer_stems_english_words_only() -> None:
    options: dict[str, OptionValue] = {"tokenizer": "unicode", "useStemmer": True}
    assert measured("ROUGE", "running дома", "runs дома", **options) == 1.0
    assert measured("ROUGE", "дома", "домами", **options) == 0.0
