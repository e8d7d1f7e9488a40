"""A small agent that answers customers' questions from a handbook, and records traces.

The agent plans, searches the handbook (BM25), reads the best sections, sometimes calculates, and
answers with the sentences that fit the question best. It is a real program that makes real
mistakes; no model and no network is involved, and equal inputs give equal bytes. Its latency is
therefore not measured but modelled from the work done; `demo/README.md` gives the model.

    python -m demo.agent --questions demo/questions.jsonl --setting good --out FILE
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from demo.retrieval import Index, SearchHit, Section, read_handbook, terms, words
from demo.tools import (
    SETTINGS,
    AgentError,
    AgentSetting,
    AgentTimeout,
    Library,
    SearchHostDown,
    Toolbox,
    build_library,
)

HANDBOOK = Path(__file__).parent / "handbook"
USD_PER_INPUT_TOKEN = Decimal("0.000003")
USD_PER_OUTPUT_TOKEN = Decimal("0.000015")

CUES: Mapping[str, str] = {
    "how (?:much|high)|cost|price|charge|pay": r"\d euros?\b|\bfree\b|percent|refund",
    "how (?:long|soon|fast|quickly|often)|when|until|what time|from what": (
        r"\b(?:hours?|minutes?|days?|weeks?|months?|years?|morning|evening|o'clock|noon|dusk)\b"
    ),
    "how (?:many|far|heavy|large|tall|old|strong)": r"\d|\b(?:two|three|four|five|six|eight|nine)\b",
    "who": r"\b[A-Z][a-z]+ [A-Z][a-z]+\b",
    "why": r"\b(?:because|since)\b",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One line of the questions file; `section` names where the handbook holds the answer."""

    id: str
    question: str
    answer: str
    section: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlan:
    """The agent's plan, derived from the wording of the question alone.

    `request` is the last sentence of the question, `sentence_count` the number of sentences to
    quote, `quantities` the factors of a price, and `cue` a pattern of matching sentences.
    """

    question: str
    request: str
    sentence_count: int
    quantities: tuple[str, ...]
    cue: str


def plan(question: str) -> AnswerPlan:
    """Plan the answer to a question."""
    request = re.split(r"(?<=[.!?]) ", question)[-1]
    is_sum = re.search(r"\b(?:altogether|in total)\b", request)
    return AnswerPlan(
        question=question,
        request=request,
        sentence_count=2 if ", and " in request else 1,
        quantities=tuple(re.findall(r"\d+", question)) if is_sum else (),
        cue=_cue(request),
    )


def _cue(request: str) -> str:
    for wording, cue in CUES.items():
        if re.search(rf"\b(?:{wording})\b", request, re.IGNORECASE):
            return cue
    return ""


class Quote(NamedTuple):
    """A sentence of a section, and its match score for the question."""

    fit: float
    sentence: str
    section: Section


def read_quotes(tools: Toolbox, planned: AnswerPlan) -> list[Quote]:
    """The sentences of the sections found, best match first.

    Raises `AgentError` if no section is found or readable.
    """
    hits = tools.search(planned.question)
    quotes = [
        Quote(_fit(sentence, hit, planned, tools.library.index), sentence, section)
        for hit in hits
        if (section := tools.read(hit))
        for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", section.text)
    ]
    if not hits:
        raise AgentError("nothing in the handbook matches; ask with other words")
    if not quotes:
        raise AgentError("none of the sections found can be read; see the failed tool calls")
    return sorted(quotes, key=lambda quote: -quote.fit)


def _fit(sentence: str, hit: SearchHit, planned: AnswerPlan, index: Index) -> float:
    question_terms = set(terms(planned.question))
    # In the order of the sentence: a sum of floats depends on the order of its parts.
    shared = [term for term in dict.fromkeys(terms(sentence)) if term in question_terms]
    fit = sum(index.weight(term) for term in shared)
    cued = planned.cue and re.search(planned.cue, sentence)
    return round(fit + 0.35 * hit.score + (1.5 if cued else 0.0), 9)


class Answer(NamedTuple):
    """The answer text, and the sections it is quoted from."""

    text: str
    sections: list[Section]


def answer(tools: Toolbox, question: str, setting: AgentSetting) -> Answer:
    """Answer one question with the tools given; raises `AgentError` and `HostAway`."""
    planned = plan(question)
    quotes = read_quotes(tools, planned)
    best_quotes = quotes[: min(planned.sentence_count, setting.sentences)]
    text = _total(tools, planned, best_quotes[0].sentence) or _quoted(planned, best_quotes)
    return Answer(tools.write(text), [quote.section for quote in best_quotes])


def _total(tools: Toolbox, planned: AnswerPlan, sentence: str) -> str | None:
    price = re.search(r"(\d+(?:\.\d+)?) euros", sentence)
    if not planned.quantities or not price:
        return None
    total = tools.calculate(" * ".join([*planned.quantities, price[1]]))
    return f"It costs {total.normalize():f} euros altogether."


def _quoted(planned: AnswerPlan, quotes: Sequence[Quote]) -> str:
    text = " ".join(quote.sentence for quote in quotes)
    if not re.match(r"(?:Am|Are|Can|Do|Does|Is|May|Must|Will) ", planned.request):
        return text
    negative = re.search(
        r"\b(?:cannot|forbidden|never|no|not|nobody|nothing|only)\b", text, re.IGNORECASE
    )
    return f"{'No' if negative else 'Yes'}: {text}"


def groundedness(agent_answer: Answer, library: Library) -> float:
    """The share of an answer's terms that the current handbook has under the headings quoted."""
    answer_terms = terms(agent_answer.text)
    supported_terms: set[str] = set()
    for section in agent_answer.sections:
        current = library.current.get(section.slug, section)
        supported_terms.update(terms(f"{current.heading} {current.text}"))
    return (
        round(sum(term in supported_terms for term in answer_terms) / len(answer_terms), 4)
        if answer_terms
        else 0.0
    )


def trace(
    question: Question, *, run_name: str, tools: Toolbox, setting: AgentSetting
) -> dict[str, Any]:
    """Ask the agent one question; returns the trace in the upload format of the service."""
    outcome, error, text, scores = "scored", None, None, {}
    try:
        agent_answer = answer(tools, question.question, setting)
        text, scores = (
            agent_answer.text,
            {"Groundedness": groundedness(agent_answer, tools.library)},
        )
    except AgentTimeout as timeout:
        outcome, error = "timeout", str(timeout)
    except AgentError as failure:
        outcome, error = "agent_error", str(failure)
    except SearchHostDown as outage:
        outcome, error = "infra_error", str(outage)
    read, written = len(words(question.question)) + tools.words_read, len(words(text or ""))
    return {
        "traceId": f"{run_name}-{question.id}",
        "itemId": question.id,
        "trial": 0,
        "input": question.question,
        "expectedOutput": question.answer,
        "output": text,
        "outcome": outcome,
        **({"error": error} if error else {}),
        "tags": list(question.tags),
        "inputTokens": read,
        "outputTokens": written,
        "costUsd": float(read * USD_PER_INPUT_TOKEN + written * USD_PER_OUTPUT_TOKEN),
        "latencyMs": tools.elapsed_ms,
        "toolCalls": [
            {
                "name": call.name,
                "arguments": dict(call.arguments),
                "ok": call.ok,
                "latencyMs": call.latency_ms,
            }
            for call in tools.calls
        ],
        "scores": scores,
    }


def read_questions(path: Path) -> list[Question]:
    """The questions of an NDJSON file, in its order."""
    return [
        Question(**{**item, "tags": tuple(item["tags"])})
        for item in map(json.loads, path.read_text("utf-8").splitlines())
    ]


def record(questions: Sequence[Question], setting: AgentSetting, *, run_name: str) -> str:
    """The traces of one run as NDJSON, one line per question."""
    library = build_library(read_handbook(HANDBOOK), setting)
    lines = []
    for position, question in enumerate(questions):
        tools = Toolbox(library, setting, search_host_down=position in setting.search_down)
        line = trace(question, run_name=run_name, tools=tools, setting=setting)
        lines.append(json.dumps(line, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Record one run; trace IDs begin with the name of the output file."""
    parser = argparse.ArgumentParser(prog="python -m demo.agent", description=main.__doc__)
    parser.add_argument("--questions", type=Path, required=True, help="NDJSON file of questions")
    parser.add_argument("--setting", choices=sorted(SETTINGS), default="good")
    parser.add_argument("--out", type=Path, required=True, help="file for the traces, overwritten")
    options = parser.parse_args(arguments)
    if not options.questions.is_file():
        parser.error(f"{options.questions} is not a file; name one, like demo/questions.jsonl")
    questions = read_questions(options.questions)
    traces = record(questions, SETTINGS[options.setting], run_name=options.out.stem)
    options.out.write_text(traces, encoding="utf-8", newline="\n")
    print(f"{len(questions)} traces written to {options.out}")


if __name__ == "__main__":
    main()
