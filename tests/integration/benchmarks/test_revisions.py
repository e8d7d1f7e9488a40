"""Each edit of a benchmark is a revision with what it changed and a note."""

from tests.support.service import Service


def test_revisions__name_the_changed_fields_and_the_note(service: Service) -> None:
    service.create_benchmark(metrics=["ROUGE"])
    path = "/benchmarks/bench-001"
    service.patch(
        path, {"taskDef": "Answer", "metrics": ["ROUGE"], "revisionNote": "the task is new"}
    )
    service.post(f"{path}/kpis", {"id": "quality", "name": "quality", "formula": "ROUGE"})
    service.patch(f"{path}/kpis/quality", {"gate": True, "revisionNote": "it decides"})
    service.delete(f"{path}/kpis/quality")
    revisions = service.list_items(f"{path}/revisions")
    assert [(edit["revision"], edit["changes"], edit["revisionNote"]) for edit in revisions] == [
        (5, ["KPI quality: removed"], None),
        (4, ["KPI quality: gate"], "it decides"),
        (3, ["KPI quality: created"], None),
        (2, ["task def"], "the task is new"),
    ]
    assert service.get(path)["revision"] == 5
