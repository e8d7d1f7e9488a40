"""KPIs of a benchmark: nested and as `measures`; each edit is a new revision."""

from tests.support.service import JSON, Service, pair, pointers

KPIS = "/benchmarks/bench-001/kpis"


def shown(kpis: list[JSON]) -> list[tuple[str, str, int]]:
    return [(kpi["name"], kpi["formula"], kpi["revision"]) for kpi in kpis]


def test_kpis_api__create_read_list_change_replace_delete(service: Service) -> None:
    service.create_benchmark()
    answer = service.send(
        "POST", KPIS, {"id": "quality", "name": "Quality", "formula": "AVERAGE(ROUGE, BLEU)"}
    )
    assert (answer.status_code, answer.headers["Location"]) == (201, f"/api/v1{KPIS}/quality")
    kpi = answer.json()
    assert (
        kpi.items()
        >= {
            "id": "quality",
            "benchmarkId": "bench-001",
            "name": "Quality",
            "formula": "AVERAGE(ROUGE, BLEU)",
            "description": None,
            "direction": "HIGHER_IS_BETTER",
            "unit": None,
            "thresholdMin": None,
            "thresholdMax": None,
            "revision": 1,
        }.items()
    )
    assert service.get(f"{KPIS}/quality") == kpi
    assert service.get(KPIS) == {"items": [kpi], "nextCursor": None}
    assert service.get("/benchmarks/bench-001")["measures"] == [kpi]

    changed = service.patch(f"{KPIS}/quality", {"thresholdMin": 0.5, "unit": "ratio"})
    assert (changed["revision"], changed["thresholdMin"], changed["unit"]) == (2, 0.5, "ratio")
    assert changed["formula"] == kpi["formula"]
    assert service.patch(f"{KPIS}/quality", {"thresholdMin": 0.5}) == changed
    assert service.patch(f"{KPIS}/quality", {"unit": None})["revision"] == 3
    replaced = service.put(f"{KPIS}/quality", {"name": "Quality", "formula": "BLEU"})
    assert (replaced["revision"], replaced["thresholdMin"]) == (4, None)
    service.delete(f"{KPIS}/quality")
    assert service.get(KPIS)["items"] == []
    for method in ("GET", "PATCH", "PUT", "DELETE"):
        body = {"name": "x", "formula": "ROUGE"} if method in ("PATCH", "PUT") else None
        problem = service.expect_problem(404, method, f"{KPIS}/quality", body)
        assert problem["type"] == "/problems/kpi-not-found"
    again = service.post(KPIS, {"id": "quality", "name": "Quality", "formula": "BLEU"})
    assert again["revision"] == 5, "history may refer to the revisions before"
    service.expect_problem(404, "GET", "/benchmarks/nobody/kpis")
    service.expect_problem(
        404, "POST", "/benchmarks/nobody/kpis", {"name": "x", "formula": "ROUGE"}
    )


def test_create_kpi__duplicate_id_or_name_is_a_conflict(service: Service) -> None:
    service.create_benchmark()
    service.create_benchmark("bench-002")
    service.post(KPIS, {"id": "quality", "name": "Quality", "formula": "ROUGE"})
    for body in (
        {"id": "quality", "name": "Other", "formula": "ROUGE"},
        {"name": "QUALITY", "formula": "ROUGE"},
    ):
        assert "taken" in service.expect_problem(409, "POST", KPIS, body)["detail"]
    elsewhere = "/benchmarks/bench-002/kpis"
    body = {"id": "quality", "name": "Quality", "formula": "ROUGE"}
    assert service.post(elsewhere, body)["revision"] == 1
    second = service.post(KPIS, {"name": "Speed", "formula": "ROUGE"})
    service.expect_problem(409, "PATCH", f"{KPIS}/{second['id']}", {"name": "quality"})
    assert shown(service.get(KPIS)["items"]) == [("Quality", "ROUGE", 1), ("Speed", "ROUGE", 1)]


def test_create_kpi__formula_errors_have_pointer_and_span(service: Service) -> None:
    service.create_benchmark()
    formula = "AVERAGE(ROGUE, BLEU.p100)"
    problem = service.expect_problem(422, "POST", KPIS, {"name": "x", "formula": formula})
    errors_by_text = {formula[slice(*item["span"])]: item for item in problem["errors"]}
    assert set(errors_by_text) == {"ROGUE", "p100"}
    assert {item["pointer"] for item in problem["errors"]} == {"/formula"}
    assert "Did you mean ROUGE" in errors_by_text["ROGUE"]["detail"]
    assert "Write max." in errors_by_text["p100"]["detail"]
    service.post(KPIS, {"id": "k", "name": "x", "formula": "ROUGE"})
    for method, body in (
        ("PATCH", {"formula": "ROUGE > 1"}),
        ("PUT", {"name": "x", "formula": "ROUGE +"}),
        # A formula has at most 4,096 characters.
        ("PATCH", {"formula": "(" * 4096}),
        ("PATCH", {"formula": "1" * 4097}),
        ("PATCH", {"formula": ""}),
        ("PATCH", {"formula": None}),
    ):
        problem = service.expect_problem(422, method, f"{KPIS}/k", body)
        assert set(pointers(problem)) == {"/formula"}
    crossed = service.expect_problem(
        422, "PATCH", f"{KPIS}/k", {"thresholdMin": 1, "thresholdMax": 0}
    )
    assert pointers(crossed) == ["/thresholdMin"]
    measures = [{"name": "fine", "formula": "ROUGE"}, {"name": "x", "formula": "1 +"}]
    problem = service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"measures": measures})
    assert set(pointers(problem)) == {"/measures/1/formula"}
    assert shown(service.get(KPIS)["items"]) == [("x", "ROUGE", 1)]


def test_measures__kpis_keep_their_identity(service: Service) -> None:
    service.create_benchmark(
        measures=[
            {"id": "a", "name": "alpha", "formula": "ROUGE"},
            {"id": "b", "name": "beta", "formula": "BLEU"},
            {"name": "gamma", "formula": "ACCURACY"},
        ]
    )
    # alpha stays, beta is found by its name and revised, gamma is gone, delta is new.
    changed = service.patch(
        "/benchmarks/bench-001",
        {
            "measures": [
                {"name": "alpha", "formula": "ROUGE"},
                {"name": "Beta", "formula": "BLEU"},
                {"name": "delta", "formula": "RECALL"},
            ]
        },
    )["measures"]
    assert shown(changed) == [("Beta", "BLEU", 2), ("alpha", "ROUGE", 1), ("delta", "RECALL", 1)]
    assert [kpi["id"] for kpi in changed[:2]] == ["b", "a"]

    swapped = service.patch(
        "/benchmarks/bench-001",
        {
            "measures": [
                {"id": "a", "name": "beta", "formula": "ROUGE"},
                {"id": "b", "name": "alpha", "formula": "BLEU"},
            ]
        },
    )["measures"]
    assert {kpi["id"]: (kpi["name"], kpi["revision"]) for kpi in swapped} == {
        "a": ("beta", 2),
        "b": ("alpha", 3),
    }
    # One is named by id and takes a new name; its old name goes to a KPI that is new.
    taken_over = service.put(
        "/benchmarks/bench-001",
        {
            "measures": [
                {"name": "beta", "formula": "RECALL"},
                {"id": "a", "name": "omega", "formula": "ROUGE"},
            ]
        },
    )["measures"]
    assert shown(taken_over) == [("beta", "RECALL", 1), ("omega", "ROUGE", 3)]
    assert service.put("/benchmarks/bench-001", {})["measures"] == []
    back = service.patch(
        "/benchmarks/bench-001", {"measures": [{"id": "a", "name": "x", "formula": "BLEU"}]}
    )
    assert shown(back["measures"]) == [("x", "BLEU", 4)]


def test_kpi_revisions__history_refers_to_its_revision(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE"],
        measures=[{"id": "quality", "name": "Quality", "formula": "ROUGE * 100", "unit": "%"}],
    )
    service.upload([pair(1)])
    first = service.complete_run()
    service.patch(f"{KPIS}/quality", {"formula": "ROUGE * 10", "unit": None, "name": "Renamed"})
    second = service.complete_run()
    service.delete(f"{KPIS}/quality")
    third = service.complete_run()
    history = service.get("/kpi-history")["items"]
    assert [
        (entry["runId"], entry["kpiRevision"], entry["name"], entry["formula"], entry["unit"])
        for entry in history
    ] == [
        (second["id"], 2, "Renamed", "ROUGE * 10", None),
        (first["id"], 1, "Quality", "ROUGE * 100", "%"),
    ]
    assert [entry["value"] for entry in history] == [10.0, 100.0]
    assert service.get(f"/benchmark-runs/{third['id']}/kpis")["items"] == []


def test_create_kpi__limit_of_100_per_benchmark(service: Service) -> None:
    hundred = [{"name": f"k{number}", "formula": "ROUGE"} for number in range(100)]
    service.create_benchmark(measures=hundred)
    problem = service.expect_problem(409, "POST", KPIS, {"name": "one more", "formula": "ROUGE"})
    assert "at most 100" in problem["detail"]
    one_more = [*hundred, {"name": "one more", "formula": "ROUGE"}]
    problem = service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"measures": one_more})
    assert pointers(problem) == ["/measures"]


def test_direction__follows_from_the_formula_until_it_is_named(service: Service) -> None:
    service.create_benchmark()
    kpi = service.post(KPIS, {"id": "speed", "name": "speed", "formula": "LATENCY_MS.p95"})
    assert (kpi["direction"], kpi["warnings"]) == ("LOWER_IS_BETTER", [])
    edited = service.patch(f"{KPIS}/speed", {"formula": "1000 / LATENCY_MS.p95"})
    assert edited["direction"] == "HIGHER_IS_BETTER"
    mixed = service.patch(f"{KPIS}/speed", {"formula": "ROUGE + LATENCY_MS"})
    assert mixed["direction"] == "NEITHER"
    assert "no direction follows" in mixed["warnings"][0]
    named = service.patch(f"{KPIS}/speed", {"direction": "LOWER_IS_BETTER"})
    assert (named["direction"], named["warnings"]) == ("LOWER_IS_BETTER", [])
    kept = service.patch(f"{KPIS}/speed", {"formula": "ROUGE"})
    assert kept["direction"] == "LOWER_IS_BETTER"
    assert "by ROUGE higher is better" in kept["warnings"][0]
    assert service.patch(f"{KPIS}/speed", {"direction": None})["direction"] == "HIGHER_IS_BETTER"


def test_form__proposes_the_direction_of_the_formula(service: Service) -> None:
    service.create_benchmark()
    page = "/benchmarks/bench-001"
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    form = {"form": "1", "name": "speed", "formula": "LATENCY_MS.p95", "direction": ""}
    created = service.client.post(f"{page}/kpis", data=form, headers=headers)
    assert created.status_code < 400, created.text
    [kpi] = service.get(KPIS)["items"]
    assert kpi["direction"] == "LOWER_IS_BETTER"
    shown = service.client.get(f"{page}/kpis/{kpi['id']}/edit", headers=headers).text
    assert "as the formula says" in shown
    assert "lower values are better" in shown
    # The choice is still that of the formula, so that it follows an edit.
    edit = {**form, "formula": "1000 / LATENCY_MS.p95", "revision": "1"}
    edited = service.client.post(f"{page}/kpis/{kpi['id']}", data=edit, headers=headers)
    assert edited.status_code < 400, edited.text
    assert service.get(KPIS)["items"][0]["direction"] == "HIGHER_IS_BETTER"


def test_kpi_direction__follows_the_option_better_of_a_score(service: Service) -> None:
    tone = {"key": "SCORE", "options": {"name": "tone", "better": "lower"}}
    service.create_benchmark(
        metrics=[tone],
        measures=[
            {"id": "tone", "name": "tone", "formula": 'SCORE["tone"] * 100'},
            {"id": "fixed", "name": "fixed", "formula": 'SCORE["tone"]', "direction": "NEITHER"},
        ],
    )
    assert directions(service) == {"tone": "LOWER_IS_BETTER", "fixed": "NEITHER"}
    assert service.get(f"{KPIS}/tone")["warnings"] == []
    added = service.post(KPIS, {"name": "later", "formula": '1 - SCORE["tone"]'})
    assert added["direction"] == "HIGHER_IS_BETTER"
    # The other way round: what follows its formula follows the option, too.
    service.patch("/benchmarks/bench-001", {"metrics": [high_tone(tone)]})
    assert directions(service) == {
        "tone": "HIGHER_IS_BETTER",
        "fixed": "NEITHER",
        "later": "LOWER_IS_BETTER",
    }
    wrong = service.patch(f"{KPIS}/tone", {"direction": "LOWER_IS_BETTER"})
    assert len(wrong["warnings"]) == 1


def directions(service: Service) -> dict[str, str]:
    return {kpi["name"]: kpi["direction"] for kpi in service.get(KPIS)["items"]}


def high_tone(tone: JSON) -> JSON:
    return {**tone, "options": {**tone["options"], "better": "higher"}}
