"""Results of HELM: `display_predictions.json`, predictions with their statistics, and `per_instance_stats.json`.

Perturbed instances are other questions, and are left out. Numbers of tokens, of seconds and of finish reasons are no
scores. Source: HELM `presentation/run_display.py`, `benchmark/metrics/metric.py`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

NO_QUALITY: Final = re.compile(
    r"(?:num_.+|inference_.+|finish_reason_.+|training_.+|.+_idealized_runtime|.+_denoised_runtime|logprob.*"
    r"|prompt_truncated|max_.+|batch_size|predicted_index)"
)


def read_prediction(row: Cells) -> Mapping[str, Any]:
    """The fields of a prediction: the mapped text of a multiple choice, else what the model wrote."""
    stats = object_of(row.get("stats"))
    return {
        "trial": trial_of(row),
        "output": row.get("mapped_output") or row.get("predicted_text"),
        **_measured(stats),
    }


def read_stats(row: Cells) -> Mapping[str, Any]:
    """The fields of the statistics of an instance; a statistic without a value is missing."""
    stats = {
        str(object_of(stat.get("name")).get("name")): _mean(stat)
        for stat in objects_of(row.get("stats"))
        if not object_of(stat.get("name")).get("perturbation")
    }
    return {"trial": trial_of(row), **_measured(stats)}


def _mean(stat: Mapping[str, Any]) -> float | None:
    count, total = as_number(stat.get("count")), as_number(stat.get("sum"))
    return total / count if count and total is not None else None


def trial_of(row: Cells) -> int | None:
    trial = row.get("train_trial_index")
    return trial if isinstance(trial, int) else None


def _measured(stats: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "inputTokens": stats.get("num_prompt_tokens"),
        "outputTokens": stats.get("num_output_tokens"),
        "latencySeconds": stats.get("inference_runtime"),
        "scores": {name: value for name, value in stats.items() if not NO_QUALITY.fullmatch(name)},
    }


def skip_perturbed(row: Cells) -> str | None:
    """Why a prediction is no result: its question was perturbed."""
    return "predictions of perturbed questions are skipped" if row.get("perturbation") else None


USED: Final = (
    "train_trial_index", "predicted_text", "mapped_output", "stats", "perturbation", "truncated_predicted_text",
    "base64_images", "reference_index", "annotations", "thinking_text",
)  # fmt: skip

register_tool(
    "helm",
    "predictions of HELM",
    lambda row: {"instance_id", "train_trial_index", "predicted_text"} <= row.keys(),
    ToolTable(
        columns={"item": "instance_id"}, compute=read_prediction, used=USED, skip=skip_perturbed
    ),
)
register_tool(
    "helm-stats",
    "statistics of HELM by instance",
    lambda row: (
        {"instance_id", "train_trial_index", "stats"} <= row.keys()
        and isinstance(row["stats"], list)
    ),
    ToolTable(columns={"item": "instance_id"}, compute=read_stats, used=USED, skip=skip_perturbed),
)
