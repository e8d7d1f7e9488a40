"""A judgement from the values of two runs over the same items. Needs numpy."""

import math
from collections.abc import Sequence

from app.statistics.repeats import ItemSums
from app.statistics.student import t_quantile, two_sided_p
from app.statistics.verdict import (
    MDE_FACTOR,
    Judgement,
    Note,
    Scale,
    Verdict,
    VerdictRule,
    no_judgement,
    settled,
)


def judge(
    base: ItemSums,
    candidate: ItemSums,
    rule: VerdictRule,
    *,
    clusters: Sequence[str] | None = None,  # noqa: ARG001
    seed: int = 0,  # noqa: ARG001
) -> Judgement:
    """The candidate beside the baseline, item by item: entry i of all arguments is the same item.

    Items without a value in either run are left out. `clusters` names the group of each item, where
    items of a group resemble each other. The same input and seed give the same bits.
    """
    both = (base.n > 0) & (candidate.n > 0)
    if not both.any():
        return no_judgement(Verdict.INVALID, Note.NO_ITEMS)
    before, after = base.where(both), candidate.where(both)
    d = after.means - before.means
    n, effect = len(d), float(d.mean())
    error = float(d.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    reach = t_quantile(0.975, n - 1) * error if n > 1 else 0.0
    level = float(before.means.mean())
    unit = 1.0 if rule.scale is Scale.RATE else abs(level)
    p = two_sided_p(effect / error, n - 1) if error else float(effect == 0)
    return settled(
        Judgement(
            verdict=Verdict.INCONCLUSIVE,
            effect=effect,
            low=effect - reach,
            high=effect + reach,
            p=p,
            p_adjusted=p,
            mde=MDE_FACTOR * error,
            n_items=n,
            trials=float(after.n.mean()),
            method="paired t",
            base=level,
            value=float(after.means.mean()),
            min_effect=rule.min_effect * unit,
            margin=rule.margin * unit,
            side=rule.side,
            alpha=rule.alpha,
        )
    )
