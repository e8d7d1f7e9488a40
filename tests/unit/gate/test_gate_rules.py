"""Gate decisions and reports from comparisons."""

from dataclasses import replace

import pytest

from mosaico.comparison.deciders import DecidedBy
from mosaico.comparison.schemas import ComparedRun, Comparison, KpiComparison, MetricComparison
from mosaico.comparison.verdict_text import render_verdict
from mosaico.gating.reports import (
    PASSES_INCONCLUSIVE,
    gate_json,
    gate_junit,
    gate_markdown,
    sentences,
)
from mosaico.gating.rules import GateOutcome, GateResult, GateTerms, NothingToGate, decide
from mosaico.kpis.verdict_types import RunVerdict
from mosaico.statistics.verdict_rules import (
    ChangeMethod,
    ChangeVerdict,
    Note,
    Scale,
    Side,
    Verdict,
    decide_verdict,
    without_change,
)

NO_TERMS = GateTerms()


def judged(
    effect: float,
    half_width: float | None,
    p: float,
    *,
    side: Side = Side.LOW,
    items: int = 40,
    adjusted_half_width: float | None = None,
    notes: tuple[Note, ...] = (),
) -> ChangeVerdict:
    """A rate that changed by `effect`, with its interval, if any."""
    adjusted = half_width if adjusted_half_width is None else adjusted_half_width
    return decide_verdict(
        ChangeVerdict(
            verdict=Verdict.INCONCLUSIVE,
            effect=effect,
            low=None if half_width is None else effect - half_width,
            high=None if half_width is None else effect + half_width,
            low_adjusted=None if adjusted is None else effect - adjusted,
            high_adjusted=None if adjusted is None else effect + adjusted,
            p=p,
            p_adjusted=p,
            mde=0.1,
            n_items=items,
            trials=1.0,
            method=ChangeMethod.PAIRED_T,
            baseline_value=0.9,
            value=0.9 + effect,
            min_effect=0.02,
            margin=0.05,
            side=side,
            notes=notes,
        )
    )


def compared(
    kpis: dict[str, ChangeVerdict],
    *,
    gates: tuple[str, ...] = (),
    metrics: dict[str, ChangeVerdict] | None = None,
    primary: str | None = None,
    traces: int = 40,
    verdict: RunVerdict | None = None,
) -> Comparison:
    def run(run_id: str) -> ComparedRun:
        return ComparedRun(
            id=run_id,
            benchmark_id="bench",
            agent_id="agent",
            run_name=None,
            created_at=None,
            validity="VALID",
            traces=traces,
        )

    return Comparison(
        baseline=run("before"),
        baseline_run_ids=["before"],
        candidate=run("now"),
        verdict=verdict or RunVerdict(verdict=Verdict.NO_EVIDENCE, explanation=""),
        kpis=[
            KpiComparison(
                kpi_id=name,
                name=name,
                gate=name in gates,
                verdict=render_verdict(name, change, Scale.RATE),
            )
            for name, change in kpis.items()
        ],
        metrics=[
            MetricComparison(metric=name, verdict=render_verdict(name, change, Scale.RATE))
            for name, change in (metrics or {}).items()
        ],
        usage=[],
        judged=list(gates or kpis) or ([primary] if primary else []),
        decided_by=DecidedBy.KPIS if kpis else DecidedBy.SOURCE,
        guard=None,
        flipped_items=None,
        enriched_features=[],
        peers=[],
        constant_items=None,
        categories=[],
        categories_left_out=0,
        last_category=None,
    )


WORSE = judged(-0.2, 0.1, 0.001)
SAME = judged(0.0, 0.01, 0.9)
UNSURE = judged(-0.03, 0.1, 0.4)


@pytest.mark.parametrize(
    ("kpi", "outcome"),
    [
        (WORSE, GateOutcome.REGRESSION),
        (SAME, GateOutcome.PASS),
        (UNSURE, GateOutcome.INCONCLUSIVE),
        (judged(0.2, 0.1, 0.001), GateOutcome.PASS),
        (judged(0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.REGRESSION),
    ],
)
def test_gate__outcome_follows_the_verdict(kpi: ChangeVerdict, outcome: GateOutcome) -> None:
    assert decide(compared({"quality": kpi}), NO_TERMS).outcome is outcome


def test_gate__explains_what_is_not_proved() -> None:
    [check] = decide(compared({"quality": judged(-0.03, 0.1, 0.07)}), NO_TERMS).checks
    assert "chance alone could explain the change" in check.reason
    assert check.reason.count(" CI ") <= 1


@pytest.mark.parametrize("effect", [-0.2, 0.2])
def test_gate__significant_change_without_a_direction_is_changed(effect: float) -> None:
    change = judged(effect, 0.1, 0.001, side=Side.BOTH)
    assert (change.verdict, Note.NO_DIRECTION in change.notes) == (Verdict.CHANGED, True)
    result = decide(compared({"quality": change}), GateTerms(inconclusive_passes=True))
    [check] = result.checks
    assert (check.outcome, result.exit_code) == (GateOutcome.CHANGED, 4)
    assert "--kpi 'NAME=FORMULA higher'" in check.reason


def test_gate__insignificant_change_without_a_direction_is_as_any_other() -> None:
    for change, verdict, outcome in (
        (judged(-0.03, 0.1, 0.4, side=Side.BOTH), Verdict.INCONCLUSIVE, GateOutcome.INCONCLUSIVE),
        (judged(0.0, 0.01, 0.9, side=Side.BOTH), Verdict.NO_EVIDENCE, GateOutcome.PASS),
    ):
        [check] = decide(compared({"quality": change}), NO_TERMS).checks
        assert (change.verdict, check.outcome) == (verdict, outcome)
        assert Note.NO_DIRECTION not in change.notes


def test_gate__outcome_is_the_worst_of_its_checks() -> None:
    result = decide(compared({"a": SAME, "b": UNSURE, "c": WORSE}), NO_TERMS)
    assert result.outcome is GateOutcome.REGRESSION
    assert [check.outcome for check in result.checks] == [
        GateOutcome.PASS,
        GateOutcome.INCONCLUSIVE,
        GateOutcome.REGRESSION,
    ]


def test_gate__regression_outranks_an_unmeasured_kpi() -> None:
    without_items = without_change(Verdict.INVALID, Note.NO_ITEMS)
    for further_kpis, outcome in (
        ({"b": WORSE}, "REGRESSION"),
        ({"b": SAME, "c": UNSURE}, "INVALID"),
    ):
        assert decide(compared({"a": without_items, **further_kpis}), NO_TERMS).outcome == outcome


def test_gate__checks_only_gate_kpis_when_there_are_some() -> None:
    result = decide(compared({"a": SAME, "b": WORSE}, gates=("a",)), NO_TERMS)
    assert (result.outcome, [check.name for check in result.checks]) == (GateOutcome.PASS, ["a"])


def test_gate__checks_only_named_kpis() -> None:
    result = decide(compared({"a": SAME, "b": WORSE}), GateTerms(max_drop={"a": 0.05}))
    assert [check.name for check in result.checks] == ["a"]


def test_gate__several_checks_are_judged_by_their_adjusted_intervals() -> None:
    # The interval of the change alone excludes 0; adjusted for the other check it does not.
    wider = judged(-0.2, 0.15, 0.01, adjusted_half_width=0.25)
    result = decide(compared({"a": wider, "b": SAME}), NO_TERMS)
    assert [check.outcome for check in result.checks] == ["INCONCLUSIVE", "PASS"]


@pytest.mark.parametrize(
    ("change", "max_drop", "outcome"),
    [
        # -0.3 … -0.1: proved; it reaches 0.2 and 0.15, and 0.31 rules out more.
        (WORSE, 0.15, GateOutcome.REGRESSION),
        (WORSE, 0.2, GateOutcome.REGRESSION),
        (WORSE, 0.31, GateOutcome.PASS),
        # Proved, but below the limit, which the interval exceeds: neither is proved.
        (WORSE, 0.25, GateOutcome.INCONCLUSIVE),
        (UNSURE, 0.05, GateOutcome.INCONCLUSIVE),
        (UNSURE, 0.14, GateOutcome.PASS),
    ],
)
def test_max_drop__fails_on_proof_and_passes_on_proof(
    change: ChangeVerdict, max_drop: float, outcome: GateOutcome
) -> None:
    terms = GateTerms(max_drop={"quality": max_drop})
    assert decide(compared({"quality": change}), terms).outcome is outcome


def test_gate__identical_runs_pass_with_the_share_that_is_unknown() -> None:
    same = judged(0.0, 0.0, 1.0, items=37, notes=(Note.IDENTICAL,))
    result = decide(compared({"quality": same}), NO_TERMS)
    # 1 - 0.025 ** (1 / 37) = 0.0949
    assert (result.outcome, result.exit_code) == (GateOutcome.PASS, 0)
    assert "all 37 items gave the same value" in result.checks[0].reason
    assert "9.5 %" in result.checks[0].reason


def test_gate__too_few_clusters_prove_nothing() -> None:
    few = judged(-0.9, 0.05, 0.001, notes=(Note.FEW_CLUSTERS,))
    assert few.verdict is Verdict.INCONCLUSIVE
    result = decide(compared({"quality": few}), NO_TERMS)
    # As the verdict: a gate fails exactly where the run regressed.
    assert result.outcome is GateOutcome.INCONCLUSIVE
    assert "clusters" in result.checks[0].reason


def test_gate__jumping_kpi_without_an_interval_fails_by_its_test() -> None:
    jumped = judged(-1.0, None, 0.01)
    assert decide(compared({"passed": jumped}), NO_TERMS).outcome is GateOutcome.REGRESSION
    assert (
        decide(compared({"passed": judged(-1.0, None, 0.2)}), NO_TERMS).outcome
        is GateOutcome.INCONCLUSIVE
    )


@pytest.mark.parametrize(
    ("terms", "code"),
    [
        (GateTerms(), 0),
        (GateTerms(inconclusive_passes=False), 4),
        (GateTerms(inconclusive_passes=True, non_inferiority_margins={"quality": 0.05}), 0),
        (GateTerms(non_inferiority_margins={"quality": 0.05}), 4),
        (GateTerms(max_drop={"quality": 0.05}), 0),
        # The required proof is there; the other check is allowed to be open.
        (GateTerms(non_inferiority_margins={"other": 0.05}, max_drop={"quality": 0.05}), 0),
    ],
)
def test_exit_code__inconclusive_passes_unless_a_proof_was_required(
    terms: GateTerms, code: int
) -> None:
    result = decide(compared({"quality": UNSURE, "other": SAME}), terms)
    assert (result.outcome, result.exit_code) == (GateOutcome.INCONCLUSIVE, code)
    assert (PASSES_INCONCLUSIVE in list(sentences(result))) is (code == 0)


def test_gate__without_kpis_judges_what_decides_and_shows_the_others() -> None:
    comparison = compared({}, metrics={"ACCURACY": SAME, "ROUGE": WORSE}, primary="ACCURACY")
    result = decide(comparison, GateTerms(max_drop={}))
    assert [check.name for check in result.checks] == ["ACCURACY"]
    assert [figure.name for figure in result.figures] == ["ROUGE"]
    assert result.choice is not None
    assert "ACCURACY decides" in result.choice
    assert result.outcome is not GateOutcome.REGRESSION


def test_gate__requested_metric_without_values_is_invalid_with_its_name() -> None:
    missing = without_change(Verdict.INVALID, Note.NO_ITEMS)
    comparison = compared(
        {}, metrics={"ACCURACY": SAME, "TASK_PASSED": missing}, primary="ACCURACY"
    )
    # Unless it is requested, a metric that does not apply is no defect.
    assert decide(comparison, NO_TERMS).exit_code == 0
    result = decide(comparison, GateTerms(requested=("ACCURACY", "TASK_PASSED")))
    assert result.exit_code == 3
    [line] = [line for line in sentences(result) if line.startswith("TASK_PASSED")]
    assert line == "TASK_PASSED: no item has a value in both runs."


def test_gate__detectable_effect_is_named_only_above_the_observed_change() -> None:
    lines = [
        decide(compared({"quality": judged(effect, 0.3, 0.2)}), NO_TERMS).checks[0].reason
        for effect in (-0.05, -0.25)
    ]
    # The detectable effect is 0.1: a sentence that only 0.1 is seen would contradict -0.25.
    assert ["0.100 or more" in line for line in lines] == [True, False]


def test_gate__items_that_detect_nothing_name_the_number_that_would_do() -> None:
    blind = replace(judged(-0.05, 0.3, 0.2), mde=None, items_needed=24)
    [check] = decide(compared({"cost": blind}), NO_TERMS).checks
    assert check.reason.endswith(
        "cannot reliably detect any change: at least 24 items are required"
    )


@pytest.mark.parametrize(
    ("kpi", "outcome"),
    [
        # The interval of the change: -0.01…0.01, -0.13…0.07, -0.3…-0.1; and of a price its mirror.
        (SAME, GateOutcome.PASS),
        (UNSURE, GateOutcome.INCONCLUSIVE),
        (WORSE, GateOutcome.REGRESSION),
        (judged(0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.REGRESSION),
        (judged(-0.2, 0.1, 0.001, side=Side.HIGH), GateOutcome.PASS),
        (judged(0.0, 0.01, 0.9, side=Side.BOTH), GateOutcome.PASS),
        (judged(0.2, 0.1, 0.001, side=Side.BOTH), GateOutcome.CHANGED),
    ],
)
def test_non_inferiority__follows_the_interval(kpi: ChangeVerdict, outcome: GateOutcome) -> None:
    result = decide(
        compared({"quality": kpi}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is outcome


def test_non_inferiority__too_few_items_prove_nothing() -> None:
    alike = judged(0.0, 0.0, 1.0, items=3, notes=(Note.IDENTICAL, Note.FEW_ITEMS))
    result = decide(
        compared({"quality": alike}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is GateOutcome.INCONCLUSIVE
    assert "items are too few" in result.checks[0].reason


@pytest.mark.parametrize(
    ("items", "outcome"),
    [
        # Of items of which none among n changed, so many may: 1 - 0.025 ** (1 / n).
        (20, GateOutcome.INCONCLUSIVE),  # 16.8 %
        # Beside the margin of 5 %.
        (71, GateOutcome.INCONCLUSIVE),  # 5.06 %
        (72, GateOutcome.PASS),  # 4.99 %
    ],
)
def test_non_inferiority__unchanged_items_prove_it_when_there_are_many(
    items: int, outcome: GateOutcome
) -> None:
    like = judged(0.0, 0.0, 1.0, items=items, notes=(Note.IDENTICAL,))
    result = decide(
        compared({"quality": like}), GateTerms(non_inferiority_margins={"quality": 0.05})
    )
    assert result.outcome is outcome


def test_gate__invalid_run_never_passes() -> None:
    reason = "the candidate is invalid: coverage is 10.0 %"
    verdict = RunVerdict(verdict=Verdict.INVALID, reason=reason, explanation="")
    result = decide(compared({"quality": SAME}, verdict=verdict), NO_TERMS)
    assert (result.outcome, result.reason) == (GateOutcome.INVALID, reason)
    assert "<error" in gate_junit(result)


def test_gate__refuses_empty_runs_and_unknown_kpis() -> None:
    with pytest.raises(NothingToGate, match="no trace"):
        decide(compared({"quality": SAME}, traces=0), NO_TERMS)
    with pytest.raises(NothingToGate, match=r"'speed'.*quality"):
        decide(compared({"quality": SAME}), GateTerms(max_drop={"speed": 0.1}))
    with pytest.raises(NothingToGate, match="neither"):
        decide(compared({}), NO_TERMS)


def test_gate_reports__escape_markup() -> None:
    result = decide(compared({"<b>|quality": WORSE}), NO_TERMS)
    assert "\\<b\\>\\|quality" in gate_markdown(result)
    junit = gate_junit(result)
    assert 'failures="1"' in junit
    assert "&lt;b&gt;|quality" in junit


def test_gate_reports__agree_on_outcome_and_numbers() -> None:
    result = decide(compared({"quality": WORSE, "speed": UNSURE}), NO_TERMS)
    document = gate_json(result)
    assert (document["outcome"], document["exitCode"]) == ("REGRESSION", 1)
    [quality, _] = document["checks"]
    assert (quality["effect"], quality["low"], quality["high"]) == pytest.approx((-0.2, -0.3, -0.1))
    numbers = "−0.200 (95 % CI −0.300 to −0.100, p 0.001)"
    row = "| ❌ REGRESSION | quality | 0.900 | 0.700 | **−0.200** | −0.300 to −0.100 | worse by at most 0.02 |"
    lines = gate_markdown(result).splitlines()
    assert row in lines
    assert [line for line in lines if line.startswith(f"- quality: 0.900 → 0.700, {numbers}; ")]
    assert f"0.900 → 0.700, {numbers}" in gate_junit(result)


def test_markdown__shows_outcome_and_table_first_and_folds_the_rest() -> None:
    result = decide(compared({"speed": UNSURE, "quality": WORSE}), NO_TERMS)
    lines = gate_markdown(result).splitlines()
    folded = lines.index("<details><summary>Explanation</summary>")
    visible = [line for line in lines[:folded] if line]
    assert visible[0].startswith("### ❌ REGRESSION: ")
    # The worst check comes first, whatever its place among the KPIs is.
    assert [line.split(" | ")[1] for line in visible[3:]] == ["quality", "speed"]
    assert max(map(len, visible)) < 120
    assert lines[-1] == "</details>"


def test_gate_reports__lead_to_the_page_of_the_run() -> None:
    page = "https://mosaico.example/runs/run-2"
    result = replace(decide(compared({"quality": WORSE}), NO_TERMS), page=page)
    assert gate_json(result)["page"] == page
    visible, _, _ = gate_markdown(result).partition("<details>")
    assert f"<{page}>" in visible
    assert page in gate_junit(result)


def test_markdown__reason_without_checks_is_visible() -> None:
    result = GateResult(outcome=GateOutcome.INVALID, candidate="run-2", reason="it has FAILED")
    assert gate_markdown(result) == "### 🚫 INVALID: run-2\n\nIt has FAILED.\n"


def test_junit__inconclusive_check_is_a_failure_when_it_does_not_pass() -> None:
    comparison = compared({"quality": UNSURE})
    assert 'skipped="1"' in gate_junit(decide(comparison, NO_TERMS))
    strict = gate_junit(decide(comparison, GateTerms(inconclusive_passes=False)))
    assert 'failures="1"' in strict
    assert 'skipped="0"' in strict


@pytest.mark.parametrize("passes", [None, True, False])
def test_changed__value_without_direction_is_neither_pass_nor_regression(
    *, passes: bool | None
) -> None:
    changed = judged(-0.2, 0.1, 0.001, side=Side.BOTH)
    metrics = {'SCORE["tone"]': changed}
    terms = GateTerms(requested=('SCORE["tone"]',), inconclusive_passes=passes)
    result = decide(compared({}, metrics=metrics), terms)
    assert (result.outcome, result.exit_code) == (GateOutcome.CHANGED, 4)
    # The option to add is named.
    assert "--better tone=high or --better tone=low" in result.checks[0].reason
    assert "failure" in gate_junit(result)


def test_not_measured__nothing_that_measures_quality_has_exit_code_3() -> None:
    verdict = RunVerdict(verdict=Verdict.NOT_MEASURED, reason="no column", explanation="")
    result = decide(compared({}, metrics={"STATUS": SAME}, verdict=verdict), NO_TERMS)
    assert (result.outcome, result.exit_code, result.reason) == (
        GateOutcome.NOT_MEASURED, 3, "no column",
    )  # fmt: skip


@pytest.mark.parametrize(("guard", "code"), [(WORSE, 1), (UNSURE, 0), (SAME, 0)])
def test_guard__counts_only_if_more_answers_failed(guard: ChangeVerdict, code: int) -> None:
    comparison = compared({}, metrics={"ROUGE": SAME, "STATUS": guard}, primary="ROUGE")
    result = decide(comparison.model_copy(update={"guard": "STATUS"}), NO_TERMS)
    assert result.exit_code == code
    assert [check.name for check in result.checks] == ["ROUGE", "STATUS"][: 1 + (code == 1)]
