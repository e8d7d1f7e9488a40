"""How to say which way a value of no known direction is better; pure."""

import json

from mosaico.comparison.answer_text import display_name
from mosaico.core.parameter_names import better_score, directed_kpi
from mosaico.metrics.score_directions import BY_OPTION


def direct_metric(column: str, *, is_file: bool) -> str:
    """The option that gives a metric a direction: "add --better tone=higher or --better tone=lower"."""
    name = display_name(column)
    if name == column:
        return f"judge a KPI of it: {_choices(column.lower(), column)}"
    if is_file:
        return f"add {' or '.join(better_score(name, better) for better in BY_OPTION)}"
    options = (
        json.dumps({"name": name, "better": better}, ensure_ascii=False) for better in BY_OPTION
    )
    return f"set the options of SCORE in the benchmark to {' or '.join(options)}"


def direct_kpi(name: str, formula: str, *, is_file: bool) -> str:
    """The option that gives a KPI a direction: "add --kpi 'mix=A + B higher' or --kpi 'mix=A + B lower'"."""
    if not is_file:
        return f"set the direction of the KPI {name} to HIGHER_IS_BETTER or LOWER_IS_BETTER in the benchmark"
    return f"add {_choices(name, formula)}; in a file of --config, the `direction` of the KPI"


def _choices(name: str, formula: str) -> str:
    return " or ".join(directed_kpi(name, formula, better) for better in BY_OPTION)
