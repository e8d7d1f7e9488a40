"""Comparisons of two runs whose values changed by a given amount."""

from mosaico.comparison.deciders import DecidedBy
from mosaico.comparison.schemas import ComparedRun, Comparison, KpiComparison, MetricComparison
from mosaico.comparison.verdict_text import render_verdict
from mosaico.gating.rules import GateTerms
from mosaico.kpis.verdict_types import RunVerdict
from mosaico.statistics.decisions import decide_verdict
from mosaico.statistics.verdict_rules import (
    ChangeMethod,
    ChangeVerdict,
    Scale,
    Side,
    Verdict,
    VerdictNote,
)


def judged(
    effect: float,
    half_width: float | None,
    p: float,
    *,
    side: Side = Side.LOW,
    items: int = 40,
    adjusted_half_width: float | None = None,
    notes: tuple[VerdictNote, ...] = (),
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


NO_TERMS = GateTerms()

WORSE = judged(-0.2, 0.1, 0.001)

SAME = judged(0.0, 0.01, 0.9)

UNSURE = judged(-0.03, 0.1, 0.4)
