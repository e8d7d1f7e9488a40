"""The requests of a run of HELM (`scenario_state.json`): questions, right references and completions, without scores.

Perturbed instances are other questions, and are left out. Source: HELM `benchmark/adaptation`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import count_of, object_of, objects_of
from mosaico.traces.files.tool_cells import any_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_document

CORRECT: Final = "correct"


def find_states(document: Mapping[str, Any]) -> Iterable[Cells] | None:
    """The requests of a `scenario_state.json`."""
    states = document.get("request_states")
    return objects_of(states) if isinstance(states, list) and "adapter_spec" in document else None


def read_state(row: Cells) -> Mapping[str, Any]:
    """The fields of a request: its question, its right references, and its completion."""
    instance, result = object_of(row.get("instance")), object_of(row.get("result"))
    answer = next((c.get("text") for c in objects_of(result.get("completions"))), None)
    mapped = object_of(row.get("output_mapping")).get(str(answer).strip())
    right = [
        object_of(reference.get("output")).get("text")
        for reference in objects_of(instance.get("references"))
        if CORRECT in (reference.get("tags") or ())
    ]
    return {
        "item": instance.get("id"),
        "trial": count_of(row.get("train_trial_index")),
        "input": object_of(instance.get("input")).get("text"),
        "output": mapped or answer,
        "expected": any_of(right),
        "error": result.get("error") if result.get("success") is False else None,
        "latencySeconds": result.get("request_time"),
    }


def skip_perturbed(row: Cells) -> str | None:
    """Why a request is no result: its question was perturbed."""
    is_perturbed = object_of(row.get("instance")).get("perturbation")
    return "predictions of perturbed questions are skipped" if is_perturbed else None


register_document(
    "helm-state",
    "requests of HELM",
    find_states,
    ToolTable(
        compute=read_state,
        used=(
            "train_trial_index", "instance", "result", "request", "request_mode", "output_mapping",
            "num_train_instances", "prompt_truncated", "reference_index", "num_conditioning_tokens", "annotations",
        ),
        skip=skip_perturbed,
    ),
)  # fmt: skip
