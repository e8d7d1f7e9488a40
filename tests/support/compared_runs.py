"""Two runs of plain numbers, and the verdict about them."""

import math
from collections.abc import Sequence

from mosaico.comparison.child_computation import compute
from mosaico.comparison.comparison_spec import (
    ComparisonResult,
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from mosaico.formula import compile_formula
from mosaico.formula.bounds import Bounds, bounds_of
from mosaico.items.formulas.properties import ValueRange, line_of
from mosaico.items.matrix import ItemMatrix, ItemRow, matrix_of_rows
from mosaico.statistics.verdict_rules import (
    ChangeVerdict,
    Side,
    VerdictRule,
)

RULE = VerdictRule(side=Side.LOW)
RATE, MULTIPLE, NUMBER = ValueRange(0.0, 1.0), ValueRange(0.0, None), ValueRange(None, None)


def run(
    values: Sequence[float | None],
    other: Sequence[float | None] | None = None,
    *,
    trials: int = 1,
    clusters: int | None = None,
) -> ItemMatrix:
    """Items with a metric A and a metric B, which is 1 throughout unless it is named; the same in
    every trial. `clusters` is the number of items in a cluster.
    """
    second = other or [1.0] * len(values)
    rows = [
        ItemRow(0, f"{index:03d}", "r", [f"c:{index // clusters}"] if clusters else [], [a, b])
        for index, (a, b) in enumerate(zip(values, second, strict=True))
        for _ in range(trials)
    ]
    return matrix_of_rows(
        rows, {0: ["A", "B"]}, ["A", "B"], cluster_field="c" if clusters else None
    )


def compared(
    baseline: ItemMatrix,
    candidate: ItemMatrix,
    *formulas: str,
    rule: VerdictRule = RULE,
    limits: ValueRange = RATE,
    is_judged: bool = False,
    paired: bool = True,
) -> ComparisonResult:
    kpis = []
    for formula in formulas:
        compiled = compile_formula(formula)
        bounds = dict.fromkeys(
            compiled.references,
            Bounds(
                -math.inf if limits.minimum is None else limits.minimum,
                math.inf if limits.maximum is None else limits.maximum,
            ),
        )
        line = line_of(compiled)
        own = bounds[line.reference] if line else bounds_of(compiled, bounds)
        kpis.append(
            KpiComparisonSpec(
                id=formula,
                formula=formula,
                is_judged=is_judged,
                rule=rule,
                limits=ValueRange(*(end if math.isfinite(end) else None for end in own)),
                line=line,
            )
        )
    return compute(
        ComparisonSpec(
            run=candidate,
            candidate=candidate,
            baseline=baseline,
            is_paired=paired,
            metrics=[MetricComparisonSpec(column=name, rule=rule, limits=limits) for name in "AB"],
            kpis=kpis,
        )
    )


def change_of(
    baseline: ItemMatrix, candidate: ItemMatrix, formula: str = "A", **options: object
) -> ChangeVerdict:
    return compared(baseline, candidate, formula, **options).kpis[formula]  # type: ignore[arg-type]


def passes(failed: int, items: int = 37) -> list[float | None]:
    return [*[0.0] * failed, *[1.0] * (items - failed)]
