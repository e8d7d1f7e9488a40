"""`mosaico compare`: two files, a verdict and a page, without a server."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mosaico.gating.cli import cli as gate_cli
from mosaico.reporting.compare_cli import cli
from mosaico.reporting.score_cli import cli as score_cli
from tests.support.texts import assert_names

ITEMS = 40


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def write_table(path: Path, wrong: range, rename: dict[str, str] | None = None) -> None:
    """A table of 40 answers, of which those in `wrong` are wrong."""
    names = ["id", "question", "gold", "answer"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([(rename or {}).get(name, name) for name in names])
        for number in range(ITEMS):
            answer = "<b>wrong</b>" if number in wrong else f"answer {number}"
            writer.writerow([f"q{number}", f"What is {number}?", f"answer {number}", answer])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with results of two weeks, as the working directory."""
    write_table(tmp_path / "last-week.csv", range(2))
    write_table(tmp_path / "today.csv", range(14))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_compare__shows_verdict_interval_items_guesses_and_page(folder: Path) -> None:
    result = run("last-week.csv", "today.csv")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    # 38 of 40 were right, and 26 are: the difference is exact, the interval is not repeated here.
    assert lines[0].startswith("REGRESSED: ACCURACY 0.95 → 0.65 (−0.30, 95 % CI −0.4")
    assert [line for line in lines if line.startswith("12 of 40 items are worse and 0 are better")]
    # The other metrics are counted only.
    assert not [line for line in lines if line.startswith(("ROUGE", "JSON_VALID"))]
    assert "q10\t1\t0\t<b>wrong</b>" in lines
    assert len(lines) <= 20
    page = folder / "today.compare.html"
    assert lines[-1] == f"page: {page.as_uri()}"
    # What holds for both files is said once.
    guesses, pairs, spared = result.stderr.splitlines()
    assert_names(
        guesses, "last-week.csv", "item=id", "output=answer", "expected=gold", "input=question"
    )
    assert_names(
        pairs, "items 40 paired by id", "decides: ACCURACY (the expected answers are labels)"
    )
    assert_names(spared, "CHRF", "--all")


def test_compare__says_what_changed_between_the_traces(folder: Path) -> None:
    for name, wrong, model in (("monday", 5, "gpt-5.1"), ("tuesday", 25, "gpt-5.2-mini")):
        rows = [
            {"item": f"q{number}", "expected": "yes", "output": "no" if number < wrong else "yes", "model": model}
            for number in range(ITEMS)
        ]  # fmt: skip
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    result = run("monday.jsonl", "tuesday.jsonl")

    [line] = [line for line in result.stdout.splitlines() if line.startswith("changed: ")]
    assert "model gpt-5.1 → gpt-5.2-mini" in line
    assert "20 of 20 fallen items, 20 of 20 others" in line
    assert "gpt-5.2-mini" in (folder / "tuesday.compare.html").read_text()


def test_compare__without_attributes_says_what_to_record(folder: Path) -> None:
    result = run("last-week.csv", "today.csv", "--no-html")
    [line] = [line for line in result.stdout.splitlines() if line.startswith("changed: ")]
    assert "promptVersion" in line


def test_compare__all_lists_every_metric_and_equal_ones_in_one_row(folder: Path) -> None:
    lines = run("last-week.csv", "today.csv", "--all", "--no-html").stdout.splitlines()
    names = [line.partition("\t")[0] for line in lines]
    assert "JSON_VALID" in names
    [equal] = [name for name in names if name.startswith("ACCURACY = ")]
    assert "EXACT_MATCH" in equal.split(" = ")
    assert "EXACT_MATCH" not in names


def scored(path: Path, **levels: float) -> None:
    """A table of 40 answers with scores around these levels, and no expected answers."""
    rows = [
        {"id": f"q{number}", "answer": "Ask us."}
        | {name: level + 0.01 * (number % 5) for name, level in levels.items()}
        for number in range(ITEMS)
    ]
    path.write_text(json.dumps(rows))


def test_compare__says_the_direction_of_a_score_and_where_it_is_known_from(folder: Path) -> None:
    scored(folder / "a.json", faithfulness=0.9, tone=0.2)
    scored(folder / "b.json", faithfulness=0.3, tone=0.7)
    result = run("a.json", "b.json", "--no-html", "--better", "tone=lower")
    assert_names(
        result.stderr,
        "faithfulness (higher is better by its name)",
        "tone (lower is better as you said)",
    )
    assert result.stdout.startswith('REGRESSED: SCORE["')
    for wrong in ("tone", "tone=down", "taste=lower"):
        refused = run("a.json", "b.json", "--no-html", "--better", wrong)
        assert refused.exit_code != 0
        assert not refused.stdout
        assert "--better" in refused.stderr


def test_compare__headline_says_that_most_other_metrics_disagree(folder: Path) -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    for name, answer in (("a.json", words), ("b.json", "nothing of that is known here")):
        rows = [
            {"id": f"q{number}", "expected": f"{words} {number}", "answer": answer, "rating": 4}
            for number in range(ITEMS)
        ]
        (folder / name).write_text(json.dumps(rows))
    # The judge sees no change, and all metrics of the texts fall.
    headline = run("a.json", "b.json", "--no-html").stdout.splitlines()[0]
    assert headline.startswith('NO_EVIDENCE: SCORE["rating"] 4 → 4')
    assert headline.endswith("; ROUGE fell")
    complete = run("a.json", "b.json", "--no-html", "--all").stdout.splitlines()[0]
    assert complete.endswith("other metrics of quality fell")
    named = run("a.json", "b.json", "--no-html", "--metrics", "ROUGE").stdout.splitlines()[0]
    assert named.endswith(")")


def test_compare__page_shows_the_texts_of_flipped_items_escaped(folder: Path) -> None:
    run("last-week.csv", "today.csv", "--html", "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert not (folder / "today.compare.html").exists()
    assert "REGRESSED: ACCURACY 0.95 → 0.65" in page
    assert "<td>answer 10</td><td>&lt;b&gt;wrong&lt;/b&gt;</td>" in page
    assert "What is 10?" in page
    assert page.count("<svg") == 2
    assert "today.csv: CSV table; item=id" in page
    assert "<script" not in page


def test_compare__a_page_that_nobody_asked_for_costs_no_verdict(folder: Path) -> None:
    page = folder / "today.compare.html"
    # Not a folder without the right to write: root, who may run the tests, can write there.
    page.mkdir()
    result = run("last-week.csv", "today.csv")
    assert result.exit_code == 0
    assert result.stdout.startswith("REGRESSED: ")
    assert "page:" not in result.stdout
    assert_names(
        result.stderr, "no page is written", "today.compare.html is a folder", "--html FILE"
    )
    refused = run("last-week.csv", "today.csv", "--html", str(page))
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_compare__json_has_the_comparison_and_the_page(folder: Path) -> None:
    result = run(
        "last-week.csv", "today.csv", "--metrics", "rouge", "--no-html", "--format", "json"
    )
    document = json.loads(result.stdout)
    assert (document["judged"], document["flippedItems"]["metric"]) == (["ROUGE"], "ROUGE")
    assert (document["flippedItems"]["regressions"], document["page"]) == (12, None)
    assert not list(folder.glob("*.html"))


def test_compare__mapped_columns_and_other_formats_give_the_same_verdict(folder: Path) -> None:
    write_table(folder / "named.csv", range(14), {"id": "nr", "gold": "soll", "answer": "ist"})
    with (folder / "today.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    (folder / "today.json").write_text(json.dumps(rows))
    (folder / "today.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first_lines = {run("last-week.csv", name).stdout.splitlines()[0] for name in (
        "today.csv", "today.json", "today.jsonl"
    )}  # fmt: skip
    assert len(first_lines) == 1
    (folder / "last-named.csv").write_text(
        (folder / "last-week.csv")
        .read_text()
        .replace("id,question,gold,answer", "nr,question,soll,ist")
    )
    named = run("last-named.csv", "named.csv", "--map", "item=nr,expected=soll,output=ist")
    assert named.stdout.splitlines()[0] in first_lines


def test_compare__files_without_common_items_name_the_remedy(folder: Path) -> None:
    text = (folder / "today.csv").read_text().replace("\nq", "\nrun2-q")
    (folder / "today.csv").write_text(text)
    result = run("last-week.csv", "today.csv")
    assert "--map item=COLUMN" in result.stdout
    mapped = run("last-week.csv", "today.csv", "--map", "item=question")
    assert "12 of 40 items are worse" in mapped.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("last-week.csv", "none.csv"), 2, "none.csv: No such file"),
        (("last-week.csv", "-"), 2, "reads its files twice, and standard input only once"),
        (("last-week.csv", "empty.csv"), 65, "empty.csv: the file is empty; expected results"),
        (("last-week.csv", "header.csv"), 65, "header.csv: line 1 is the header, and no row"),
        (("last-week.csv", "none.json"), 65, "none.json: no results in this file"),
        (("last-week.csv", "wide.csv"), 65, "c10, c11 and 988 more. Name the column"),
        (
            ("last-week.csv", "today.csv", "--map", "output=reply"),
            2,
            "last-week.csv: the table has no column 'reply'",
        ),
        (("last-week.csv", "today.csv", "--html", "today.csv"), 2, "is an input file"),
        (("last-week.csv", "today.csv", "--input-format", "docx"), 66, "Known: "),
        (("last-week.csv", "broken.csv"), 65, "broken.csv: line 3: 1 cells"),
    ],
)
def test_compare__errors_say_what_to_do(
    folder: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("id,gold,answer\n")
    (folder / "none.json").write_text("[]")
    names = ",".join(f"c{number}" for number in range(1_000))
    (folder / "wide.csv").write_text(f"{names}\n{names}\n")
    (folder / "broken.csv").write_text("id,gold,answer\n1,x,x\n2\n")
    result = run(*arguments)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert result.stdout == ""


def test_gate_and_score__read_the_same_formats(folder: Path) -> None:
    gated = CliRunner().invoke(gate_cli, ["--run", "today.csv", "--baseline", "last-week.csv"])
    assert gated.exit_code == 1
    assert gated.stdout.startswith("REGRESSION: today.csv against last-week.csv")
    scored = CliRunner().invoke(score_cli, ["today.csv", "--map", "item=question", "--json"])
    assert json.loads(scored.stdout)["aggregates"]["ACCURACY"]["mean"] == 0.65


RUSSIAN = "Возврат товара номер {} занимает пять рабочих дней"


def translated(path: Path, refused: int, russian: int = ITEMS) -> Path:
    """A table of 40 texts, of which the last are English; the first answers are refusals."""
    rows = [
        {"id": f"q{number}", "expected": text.format(number), "answer": answer.format(number)}
        for number in range(ITEMS)
        for text in [RUSSIAN if number < russian else "The return of item {} takes five days"]
        for answer in ["Извините" if number < refused else f"{text}!"]
    ]
    path.write_text(json.dumps(rows))
    return path


def warnings_of(result: Result) -> list[str]:
    return [line for line in result.stderr.splitlines() if line.startswith("warning: ")]


def test_compare__without_a_flip_the_worst_items_are_shown(folder: Path) -> None:
    """All items fall by 0.1 to 0.3, none by half."""
    for name, fall in (("a.jsonl", 0.0), ("b.jsonl", 0.1)):
        rows = [
            {"id": f"q{n}", "answer": f"no {n}", "correctness": 0.9 - fall * (1 + n % 3)}
            for n in range(ITEMS)
        ]
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    result = run("a.jsonl", "b.jsonl", "--html", "page.html")
    assert result.stdout.startswith("REGRESSED")
    # The rows of the largest fall, the first by ID.
    row = next(line.split("\t") for line in result.stdout.splitlines() if line.startswith("q11"))
    assert (row[0], row[-1]) == ("q11", "no 11")
    assert "Items that are worse in" in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    "options", [(), ("--metrics", 'SCORE["correctness"]'), ("--kpi", 'right=SCORE["correctness"]')]
)
def test_gate__scores_for_half_of_the_items_never_pass(
    folder: Path, options: tuple[str, ...]
) -> None:
    """Of 40 scores in the earlier file the later one has 20, which are the same."""
    write_scored(folder / "a.jsonl", ITEMS)
    write_scored(folder / "b.jsonl", 20)
    for run_file, base_file, lacking in (
        ("b.jsonl", "a.jsonl", "candidate"),
        ("a.jsonl", "b.jsonl", "baseline"),
    ):
        words = ["--run", run_file, "--baseline", base_file, *options]
        gated = CliRunner().invoke(gate_cli, words)
        assert (gated.exit_code, gated.stdout.split(":")[0]) == (3, "INVALID"), gated.output
        assert f"scores for 20 of 40 items: 20 have none in the {lacking} run" in gated.stdout
    # Nor do those of the same items in both files: the others are not measured.
    write_scored(folder / "c.jsonl", 20)
    gated = CliRunner().invoke(gate_cli, ["--run", "c.jsonl", "--baseline", "b.jsonl", *options])
    assert (gated.exit_code, gated.stdout.split(":")[0]) == (3, "INVALID"), gated.output
    assert "scores for 20 of 40 items" in gated.stdout


def test_compare__scores_for_half_of_the_items_are_invalid(folder: Path) -> None:
    write_scored(folder / "a.jsonl", ITEMS)
    write_scored(folder / "b.jsonl", 20)
    result = run("a.jsonl", "b.jsonl", "--no-html")
    assert result.exit_code == 3
    first, *others = result.stdout.splitlines()
    assert first.startswith('INVALID: SCORE["correctness"]: scores for 20 of 40 items')
    assert [line for line in others if "of 40 items" in line] == []


def write_scored(path: Path, scored: int) -> None:
    rows = [
        {"id": f"q{n}", "answer": "x", **({"correctness": n % 2} if n < scored else {})}
        for n in range(ITEMS)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_gate__says_how_many_items_it_compared_and_what_is_missing(folder: Path) -> None:
    write_scored(folder / "a.jsonl", ITEMS)
    rows = (folder / "a.jsonl").read_text().splitlines(keepends=True)
    (folder / "b.jsonl").write_text("".join(rows[:30]))
    gated = CliRunner().invoke(gate_cli, ["--run", "b.jsonl", "--baseline", "a.jsonl"])
    assert "30 items compared." in gated.stdout
    assert "10 items are missing" in gated.stdout


def test_gate__numbers_without_an_interval_have_a_cause(folder: Path) -> None:
    for name, sign in (("a.jsonl", 1), ("b.jsonl", -1)):
        rows = [
            {"id": f"q{n}", "answer": "x", "correctness": sign * (1e308 if n % 2 else -1e308)}
            for n in range(ITEMS)
        ]
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    gated = CliRunner().invoke(gate_cli, ["--run", "b.jsonl", "--baseline", "a.jsonl"])
    assert "INCONCLUSIVE" in gated.stdout
    assert "too large" in gated.stdout
    compared = run("a.jsonl", "b.jsonl", "--no-html")
    assert "too large" in compared.stdout
    assert "chance alone" not in compared.stdout


def test_gate__change_without_direction_names_the_option_to_add(folder: Path) -> None:
    for name, level in (("a.jsonl", 0.1), ("b.jsonl", 0.8)):
        rows = [{"id": f"q{n}", "answer": "x", "my tone": level + n % 3 / 50} for n in range(ITEMS)]
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = ["--run", "b.jsonl", "--baseline", "a.jsonl"]
    score, kpi = ("--better 'my tone=lower'",), ("--kpi", 'mix=SCORE["my tone"] * 2')
    for options, expected in (((), score[0]), (kpi, "--kpi 'mix=SCORE[\"my tone\"] * 2 lower'")):
        gated = CliRunner().invoke(gate_cli, [*words, *options])
        assert (gated.exit_code, expected in gated.stdout) == (4, True), gated.stdout
    # The option as it is named decides.
    gated = CliRunner().invoke(gate_cli, [*words, "--better=my tone=lower"])
    assert gated.exit_code == 1
    gated = CliRunner().invoke(gate_cli, [*words, *kpi[:1], f"{kpi[1]} lower"])
    assert gated.exit_code == 1


def test_compare_and_gate__texts_that_a_metric_cannot_read_are_one_warning(folder: Path) -> None:
    base, candidate = translated(folder / "a.json", 0), translated(folder / "b.json", 20)
    compared = run(base, candidate, "--no-html")
    assert compared.stdout.startswith("REGRESSED: CHRF")
    gated = CliRunner().invoke(gate_cli, ["--run", str(candidate), "--baseline", str(base)])
    assert gated.exit_code == 1
    for result in (compared, gated):
        [warning] = warnings_of(result)
        assert "ROUGE, ROUGE_1 and ROUGE_2 cannot read 40 of 40 expected answers" in warning
        assert "use CHRF" in warning
    # From a tenth of the texts on.
    for russian, count in ((4, 1), (3, 0)):
        mixed = translated(folder / "mixed.json", 0, russian)
        other = translated(folder / "other.json", 20, russian)
        assert len(warnings_of(run(mixed, other, "--no-html"))) == count


def test_gate__a_named_metric_that_cannot_read_the_texts_never_passes(folder: Path) -> None:
    base, candidate = translated(folder / "a.json", 0), translated(folder / "b.json", 20)
    files = ["--run", str(candidate), "--baseline", str(base)]
    for named in (["--metrics", "ROUGE"], ["--kpi", "q=MIN(ROUGE, BLEU)"]):
        result = CliRunner().invoke(gate_cli, [*files, *named])
        assert result.exit_code == 3
        assert warnings_of(result)
    assert "q: it has no value: ROUGE has no value" in result.stdout
    assert "ROUGE cannot read 40 of 40 expected answers" in result.stdout
    unicode = CliRunner().invoke(gate_cli, [*files, "--metrics", "ROUGE:tokenizer=unicode"])
    assert (unicode.exit_code, warnings_of(unicode)) == (1, [])


def test_score__counts_texts_that_a_metric_cannot_read(folder: Path) -> None:
    path = translated(folder / "a.json", 0, russian=10)
    arguments = [str(path), "--metrics", "ROUGE,CHRF"]
    scored = CliRunner().invoke(score_cli, arguments)
    assert "ROUGE has no value on 10 traces: NOT_APPLICABLE 10" in scored.stderr
    assert "ROUGE cannot read 10 of 40 expected answers" in scored.stderr
    document = json.loads(CliRunner().invoke(score_cli, [*arguments, "--json"]).stdout)
    rouge, chrf = document["aggregates"]["ROUGE"], document["aggregates"]["CHRF"]
    # The coverage is that of the 30 texts that ROUGE reads.
    assert (rouge["n"], rouge["coverage"]) == (30, 1.0)
    assert (chrf["n"], chrf["coverage"]) == (40, 1.0)


def test_compare__one_file_with_the_answers_of_two_agents(folder: Path) -> None:
    rows = [
        {"id": f"q{n}", "gold": "x", "old_answer": "x", "new_answer": "x" if n < 20 else "y"}
        for n in range(ITEMS)
    ]
    (folder / "both.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    maps = ("--base-map", "output=old_answer", "--run-map", "output=new_answer")
    result = run("both.jsonl", "both.jsonl", *maps, "--no-html")
    assert result.stdout.startswith("REGRESSED: ACCURACY 1.00 → 0.50")
    assert "output=old_answer" in result.stderr
    assert "output=new_answer" in result.stderr
    arguments = ["--run", "both.jsonl", "--baseline", "both.jsonl", *maps]
    assert CliRunner().invoke(gate_cli, arguments).exit_code == 1
    refused = CliRunner().invoke(gate_cli, ["--run", "r-1", *maps])
    assert refused.exit_code != 0
    assert run("both.jsonl", "both.jsonl").exit_code == 2
