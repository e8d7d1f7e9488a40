"""What decides the verdict of two runs."""

from hypothesis import given
from hypothesis import strategies as st

from mosaico.comparison.deciders import (
    CommonMetric,
    DecidedBy,
    Deciders,
    ExpectedAnswers,
    are_settled,
    choose_metrics,
    judges_both,
    select_deciders,
)
from mosaico.metrics.registry import default_refs, load_metrics, provider_for
from mosaico.metrics.types import MetricRef

load_metrics()

LABELS = ExpectedAnswers(items=80, short=80, distinct=6)
SHORT = ExpectedAnswers(items=80, short=80, distinct=80)
TEXTS = ExpectedAnswers(items=80, short=4, distinct=80)
NONE = ExpectedAnswers(items=80)


def metric(key: str, mean: float = 0.5, *, items: int = 40) -> CommonMetric:
    ref = MetricRef.of(key)
    return CommonMetric(ref=ref, spec=provider_for(ref).spec, items=items, mean=mean)


def score(name: str, better: str = "") -> CommonMetric:
    ref = MetricRef.of("SCORE", {"name": name, **({"better": better} if better else {})})
    return CommonMetric(ref=ref, spec=provider_for(ref).spec, items=40, mean=0.5)


WORK = [metric("STATUS", 1.0), metric("ERROR_RATE", 0.0), metric("LATENCY_MS", 9.0),
        metric("TOTAL_TOKENS", 9.0), metric("JSON_VALID", 0.0)]  # fmt: skip
ANSWERS = [metric("ACCURACY"), metric("CONTAINS", 0.9), metric("ROUGE"), metric("BLEU")]


def names(*metrics: CommonMetric, answers: ExpectedAnswers = NONE) -> tuple[str, ...]:
    return select_deciders(metrics, answers).names


def test_deciders__named_come_first_and_kpis_second() -> None:
    assert select_deciders(ANSWERS, LABELS, named=["LATENCY_MS"], kpis=["q"]) == Deciders(
        ("LATENCY_MS",), DecidedBy.NAMED
    )
    assert select_deciders(ANSWERS, LABELS, kpis=["q"]) == Deciders(("q",), DecidedBy.KPIS)


def test_deciders__scores_of_the_source_are_one_family_before_metrics_of_answers() -> None:
    scores = [score("faithfulness"), score("toxicity"), metric("TASK_PASSED")]
    deciders = select_deciders([*WORK, *ANSWERS, *scores, score("tone")], LABELS)
    assert deciders.names == ("TASK_PASSED", 'SCORE["faithfulness"]', 'SCORE["toxicity"]')
    assert (deciders.by, deciders.guard) == (DecidedBy.SOURCE, "STATUS")


def test_deciders__the_user_can_make_any_score_decide() -> None:
    assert names(score("tone"), metric("ROUGE"), answers=TEXTS) == ("ROUGE",)
    assert names(score("tone", "lower"), metric("ROUGE"), answers=TEXTS) == ('SCORE["tone"]',)


def test_deciders__labels_are_judged_by_equality_and_texts_by_overlap() -> None:
    assert names(*ANSWERS, answers=LABELS) == ("ACCURACY",)
    assert names(*ANSWERS, answers=TEXTS) == ("ROUGE",)
    # 20 % of the texts are verbatim: they are texts all the same.
    assert names(metric("ACCURACY", 0.2), metric("ROUGE"), answers=TEXTS) == ("ROUGE",)
    # Short answers of which many differ, such as numbers: equality, if any answer is equal.
    assert names(*ANSWERS, answers=SHORT) == ("ACCURACY",)
    assert names(metric("ACCURACY", 0.0), metric("ROUGE"), answers=SHORT) == ("ROUGE",)
    # Labels within sentences.
    verbose = [metric("ACCURACY", 0.0), metric("CONTAINS", 0.9)]
    assert names(*verbose, answers=LABELS) == ("CONTAINS",)
    # A run with one of them only is judged by that.
    assert names(metric("ACCURACY", 0.4), answers=TEXTS) == ("ACCURACY",)
    assert names(metric("BLEU", 0.4), answers=LABELS) == ("BLEU",)


def test_deciders__a_metric_that_is_0_throughout_cannot_read_the_texts() -> None:
    texts = [metric("ROUGE", 0.0), metric("EDIT_SIMILARITY", 0.4)]
    assert names(*texts, answers=TEXTS) == ("EDIT_SIMILARITY",)
    assert names(texts[0], answers=TEXTS) == ("ROUGE",)


def test_deciders__most_common_items_decide_within_a_kind() -> None:
    assert names(metric("ROUGE", items=10), metric("BLEU"), answers=TEXTS) == ("BLEU",)


def test_deciders__a_few_items_that_a_metric_cannot_read_do_not_change_what_decides() -> None:
    assert names(metric("ROUGE", items=37), metric("CHRF"), answers=TEXTS) == ("ROUGE",)
    assert names(metric("ROUGE", items=35), metric("CHRF"), answers=TEXTS) == ("CHRF",)


def test_deciders__a_metric_that_cannot_read_most_items_never_decides() -> None:
    # 40 items in each of two runs.
    assert names(metric("ROUGE", items=21), answers=TEXTS) == ("ROUGE",)
    assert names(metric("ROUGE", items=20), answers=TEXTS) == ()
    assert names(metric("F1_SCORE", items=3), answers=LABELS) == ()
    # Items without an expected answer are not those that it cannot read.
    half = TEXTS._replace(absent=60)
    assert names(metric("ROUGE", items=10), answers=half) == ("ROUGE",)
    # Metrics that read everything may lack values for other reasons.
    assert names(metric("EDIT_SIMILARITY", items=20), answers=TEXTS) == ("EDIT_SIMILARITY",)


def test_deciders__work_and_counters_never_stand_for_quality() -> None:
    deciders = select_deciders([*WORK, score("answer_length"), score("JUDGE_TOKENS")], NONE)
    assert deciders == Deciders((), DecidedBy.NOTHING, "STATUS")
    assert deciders.judged == ("STATUS",)


def test_deciders__scores_without_direction_decide_when_nothing_else_does() -> None:
    deciders = select_deciders([*WORK, score("tone"), score("hallucination")], NONE)
    assert deciders.names == ('SCORE["tone"]', 'SCORE["hallucination"]')
    assert deciders.by is DecidedBy.UNDIRECTED


def test_choice__measures_first_what_probably_decides() -> None:
    refs = default_refs(["STATUS", "ACCURACY", "EXACT_MATCH", "ROUGE", "BLEU", "LATENCY_MS"])

    def keys(answers: ExpectedAnswers) -> list[str]:
        choice = choose_metrics(refs, answers)
        assert {*choice.measured, *choice.spare} == {*refs}
        return [ref.key for ref in choice.measured]

    assert keys(LABELS) == ["STATUS", "ACCURACY", "EXACT_MATCH", "LATENCY_MS"]
    assert keys(TEXTS) == ["STATUS", "ROUGE", "LATENCY_MS"]
    # Short and all different: both may.
    assert keys(SHORT) == ["STATUS", "ACCURACY", "EXACT_MATCH", "ROUGE", "LATENCY_MS"]
    assert keys(ExpectedAnswers()) == ["STATUS", "LATENCY_MS"]


def test_choice__a_source_that_judges_both_files_decides_alone() -> None:
    source = [metric("TASK_PASSED").ref, score("faithfulness").ref]
    refs = [
        *default_refs(["STATUS", "ACCURACY", "ROUGE", "LATENCY_MS"]),
        score("tone").ref,
        *source,
    ]
    assert judges_both(refs, [["TASK_PASSED"], ["faithfulness", "tone"]]) == source
    # Nobody knows which tone is better.
    assert judges_both(refs, [["TASK_PASSED"], ["tone"]]) == []


def test_settled__unless_a_metric_that_was_not_measured_may_decide() -> None:
    chrf = [metric("CHRF").ref]
    assert are_settled([metric("ROUGE")], TEXTS, chrf)
    # ROUGE cannot read the texts, or few of them.
    assert not are_settled([metric("ROUGE", 0.0)], TEXTS, chrf)
    assert not are_settled([metric("ROUGE", items=20)], TEXTS, chrf)
    # The sample had labels, and the files have texts.
    assert not are_settled([metric("ACCURACY")], TEXTS, chrf)
    assert are_settled([metric("ACCURACY")], LABELS, chrf)
    # Without expected answers no metric compares any.
    assert are_settled([], TEXTS._replace(absent=80), chrf)


answer_metrics = st.lists(
    st.builds(
        metric,
        st.sampled_from(["ACCURACY", "CONTAINS", "F1_SCORE", "ROUGE", "CHRF", "ROUGE_1", "BLEU"]),
        st.sampled_from([0.0, 0.05, 0.1, 0.5, 1.0]),
        items=st.integers(0, 40),
    ),
    unique_by=lambda each: each.family,
)


@given(answer_metrics, st.integers(0, 7), st.sampled_from([LABELS, SHORT, TEXTS]))
def test_settled__is_what_all_metrics_would_decide(
    metrics: list[CommonMetric], measured: int, answers: ExpectedAnswers
) -> None:
    """Whatever the values of the metrics that are not measured are."""
    spare = [each.ref for each in metrics[measured:]]
    if are_settled(metrics[:measured], answers, spare):
        assert select_deciders(metrics[:measured], answers) == select_deciders(metrics, answers)
