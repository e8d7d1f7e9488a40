"""The formula language and the metric catalog over HTTP."""

from tests.support.service import Service, pointers

FORMULAS = "/kpi-formulas"


def test_validate_formula__returns_all_errors(service: Service) -> None:
    good = service.post(f"{FORMULAS}/validate", {"formula": " average( rouge,bleu.P95 )"})
    assert good == {
        "valid": True,
        "formula": "AVERAGE(ROUGE, BLEU.p95)",
        "referencedMetrics": ["BLEU", "ROUGE"],
        "errors": [],
    }
    text = "AVERAGE(ROGUE,\n  BLEU.p100)"
    bad = service.post(f"{FORMULAS}/validate", {"formula": text})
    assert (bad["valid"], bad["formula"]) == (False, None)
    assert [(error["line"], error["column"]) for error in bad["errors"]] == [(1, 9), (2, 8)]
    assert [text[slice(*error["span"])] for error in bad["errors"]] == ["ROGUE", "p100"]
    assert "Did you mean ROUGE" in bad["errors"][0]["message"]
    for formula in ("ROUGE > 1", "((((", "'; DROP TABLE x", "😀", "(" * 4000, "ROUGE +" * 500):
        answer = service.post(f"{FORMULAS}/validate", {"formula": formula})
        assert (answer["valid"], bool(answer["errors"])) == (False, True)
    for body in ({}, {"formula": ""}, {"formula": 1}, {"formula": "1" * 4097}, {"formula": None}):
        assert pointers(service.expect_problem(422, "POST", f"{FORMULAS}/validate", body)) == [
            "/formula"
        ]


def test_evaluate_formula__uses_the_given_values(service: Service) -> None:
    evaluate = f"{FORMULAS}/evaluate"
    values = {
        "ROUGE": 0.5,
        "bleu": 0.25,
        "BLEU.p95": 0.75,
        'SCORE["Tone / Style"]': 2,
        "JUDGE": None,
    }

    def value(formula: str) -> object:
        answer = service.post(evaluate, {"formula": formula, "values": values})
        parts = {part["formula"]: part["value"] for part in answer["parts"]}
        return answer["value"], answer["undefinedReason"], parts

    # Half of 0.5, and twice 0.25.
    parts = {"ROUGE": 0.5, "BLEU": 0.25}
    assert value("WEIGHTED_SUM(ROUGE:0.5, BLEU:2)") == (0.75, None, parts)
    parts = {"BLEU.p95": 0.75, 'SCORE["Tone / Style"]': 2}
    assert value('BLEU.p95 + SCORE["Tone / Style"]') == (2.75, None, parts)
    undefined = service.post(evaluate, {"formula": "ROUGE / (BLEU - BLEU)", "values": values})
    assert undefined["value"] is None
    assert "division by zero" in undefined["undefinedReason"]
    missing = service.post(evaluate, {"formula": "ACCURACY", "values": {}})
    assert "ACCURACY has no value" in missing["undefinedReason"]
    wrong = service.expect_problem(422, "POST", evaluate, {"formula": "ROUG +", "values": values})
    assert wrong["errors"]
    misnamed = {"formula": "ROUGE", "values": {"ROUGE": 1, "a/b": 2, "ROUGE.p100": 3}}
    assert pointers(service.expect_problem(422, "POST", evaluate, misnamed)) == [
        "/values/a~1b",
        "/values/ROUGE.p100",
    ]
    for hostile in (b"NaN", b"1e999", b'"1"', b"true", b"123456789012345678901234567890"):
        body = b'{"formula": "ROUGE", "values": {"ROUGE": ' + hostile + b"}}"
        service.expect_problem(
            422, "POST", evaluate, content=body, headers={"Content-Type": "application/json"}
        )


def test_metric_catalog__has_unit_range_direction_version_and_options(service: Service) -> None:
    catalogue = service.get("/metrics")
    assert (catalogue["nextCursor"], catalogue["broken"]) == (None, [])
    metrics = {metric["key"]: metric for metric in catalogue["items"]}
    assert list(metrics) == sorted(metrics)
    assert set(metrics) >= {
        "ROUGE", "ROUGE_1", "ROUGE_2", "BLEU", "CHRF", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE",
        "SCORE",
    }  # fmt: skip
    rouge = metrics["ROUGE"]
    assert (
        rouge.items()
        >= {
            "unit": "ratio",
            "minimum": 0.0,
            "maximum": 1.0,
            "direction": "HIGHER_IS_BETTER",
            "version": "2",
            "options": [
                {"name": "useStemmer", "default": False, "choices": []},
                {"name": "tokenizer", "default": "", "choices": ["", "unicode"]},
                # Those of every metric that reads an output.
                {"name": "stripThinking", "default": False, "choices": []},
                {"name": "stripFences", "default": False, "choices": []},
            ],
            "origin": "built-in",
        }.items()
    )
    assert rouge["source"]
    assert rouge["description"]
    assert metrics["SCORE"]["minimum"] is None
