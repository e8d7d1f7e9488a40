"""The words of the names of columns: of answers, expected answers, questions, scores, and of what is none of these; in English
and a dozen other languages; pure.
"""

import unicodedata
from collections.abc import Mapping
from typing import Final

# Letters that are no other letter with an accent.
_OWN_LETTERS: Final = str.maketrans(
    {"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "Ł": "L", "Ø": "O"}
)


def plain_name(name: str) -> str:
    """A name without accents; a syllable of Korean stays one sign."""
    decomposed = unicodedata.normalize("NFKD", name.translate(_OWN_LETTERS))
    return unicodedata.normalize(
        "NFC",
        "".join(sign for sign in decomposed if not unicodedata.category(sign).startswith("M")),
    )


def word_table(words: str) -> frozenset[str]:
    """The words of a text as names have them: without case and accents."""
    return frozenset(plain_name(word).casefold() for word in words.split())


# The words of an answer, of the right answer and of a question. Words of other scripts are found inside of a word, too.
ANSWER: Final = word_table(
    """
    answer answers response responses output outputs reply completion completions generation generations
    generated prediction predictions predicted pred preds hypothesis hypotheses actual assistant antwort
    antworten ausgabe vorhersage reponse reponses sortie respuesta respuestas salida resposta respostas saida
    risposta risposte antwoord antwoorden svar vastaus odpowiedz odpoved cevap cevabı yanit yanıt yanıtı jawaban
    ответ ответы відповідь απαντηση 답변 응답 출력 回答 答案 答え 答复 回复 返答 応答 输出 出力 جواب إجابة תשובה उत्तर जवाब คำตอบ valasz
    raspuns otvet
    """
)
WEAK_ANSWER: Final = word_table(
    """
    result results candidate summary ergebnis resultat resultado risultato результат 结果 結果 결과 guess guesses
    inference decoded
    """
)
PLAIN_ANSWERS: Final = word_table(
    """
    answer answers antwort antworten reponse reponses respuesta respuestas resposta respostas risposta antwoord
    svar ответ 回答 答案 답변 جواب उत्तर คำตอบ cevap jawaban
    """
)
# Who answers; beside a noun of `PRODUCTS` it makes an answer.
AGENTS: Final = word_table(
    """
    model agent bot llm ai system chatbot rag gpt candidate final raw student modell modells modelo modele
    modello модель модели 模型 모델 generated predicted pred actual assistant agente agenten systems systeme sistema
    assistenten assistente asistente generee genere generada generado gerada gerado generata generato generierte
    generiert erzeugte modelu modelin obtenue obtenida obtida predicha prevista your asistan モデル النموذج نموذج
    المساعد मॉडल โมเดล μοντελου
    """
)
PRODUCTS: Final = word_table(
    """
    text summary translation sql code email message content patch solution choice option letter result label
    query class intent value string
    """
)
EXPECTED: Final = word_table(
    """
    expected gold golden reference references ref groundtruth truth truths target targets ideal correct
    canonical desired label best true grading accepted acceptable erwartet erwartete erwarteter soll forventet
    forventede forvantat forvantad referenz richtige korrekte attendu attendue correcte esperado esperada
    correcta referencia atteso attesa corretta verwacht verwachte oczekiwana beklenen ожидаемый ожидаемая эталон
    эталонный правильный верный очікувана 正解 正确 標準 标准 参考 期望 期待 模範 정답 기대 صحيح अपेक्षित सही เฉลย right gt facit
    corect helyes correto correta correcto poprawna poprawny dogru spravna spravny oikea σωστη σωστο ถูกต้อง
    """
)
# Alone they name something else, such as whether an answer is correct.
EXPECTED_BESIDE_A_NOUN: Final = word_table(
    """
    correct best true accepted acceptable right 正确 正確 correto correta correcto poprawna poprawny dogru spravna
    spravny oikea σωστη σωστο
    """
)
WEAK_EXPECTED: Final = frozenset({"label", "grading"})
QUESTION: Final = word_table(
    """
    question questions query prompt input inputs instruction request utterance q problem frage eingabe requete
    pregunta consulta entrada pergunta domanda vraag fraga sporgsmal pytanie soru pertanyaan вопрос запрос
    питання 質問 问题 問題 提问 输入 入力 질문 سؤال שאלה प्रश्न คำถาม otazka kysymys ερωτηση intrebare kerdes السؤال
    """
)
WEAK_QUESTION: Final = frozenset({"task", "scenario", "aufgabe", "message"})
# Parts of compounds: Modellantwort, Musterlösung.
STEMS: Final[Mapping[str, str]] = {
    "musterlosung": "expected",
    "musterantwort": "expected",
    "referenzantwort": "expected",
    "sollantwort": "expected",
    "antwort": "answer",
    "groundtruth": "expected",
    "answerkey": "expected",
}
# Words beside those of a kind that change nothing.
FILLERS: Final = word_table(
    """
    the of text string str value content user my chat short long full sample ground standard from by json asked
    gegebene texte texto testo der la le del de des du do da vom von dem di della dello van het
    posee posees gestellte
    """
)
# Columns with one of these words hold something about an answer or a question, and no text of it.
OTHER: Final = word_table(
    """
    id ids uid uuid name type types version tokens token count time latency ms sec seconds cost usd price score
    scores rating length len chars words index idx hash url uri date timestamp status error errors reason
    reasons reasoning rationale explanation justification confidence logprob logprobs probability relevance
    relevancy correctness similarity faithfulness quality accuracy valid format language lang source sources
    context contexts tools tool called calls call keyword keywords embedding category tag tags metadata schema
    criteria guidelines facts threshold weight is has num number rank feedback documents document docs doc
    chunks chunk retrieved groundedness precision recall match passed verdict grade judge judgement evaluation
    evaluator metric metrics annotator generator options role model2 provider temperature seed config parameters
    preview
    """
)
SCORE: Final = word_table(
    """
    score scores rating ratings grade quality accuracy acc correct correctness relevance relevancy relevant
    faithfulness faithful em precision recall f1 f2 exact match bleu rouge rouge1 rouge2 rougel rougelsum meteor
    chrf gleu bertscore similarity coherence groundedness grounded fluency helpfulness helpful harmfulness
    harmlessness harmful toxicity toxic bias hallucination hallucinations completeness conciseness clarity
    consistency reward preference win success pass passed resolved solved perplexity loss wer cer ter mcc ndcg
    mrr hit overall judge judgment judgement verdict feedback eval evaluation metric adherence factuality
    sensitivity safety politeness tone empathy usefulness satisfaction misuse violence stereotyping unfairness
    brier distance percentage note bewertung punkte puntuacion calificacion pontuacao punteggio оценка 评分 得分 スコア
    評価 점수 cosine jaccard overlap entailment alignment agreement compliance rubric points comet sari bartscore
    utility novelty coverage attribution informativeness appropriateness naturalness robustness specificity
    originality creativity diversity usability trustworthiness conformity
    """
)
# Positions, IDs, times, amounts, counts, settings and properties: numbers that judge nothing.
NOT_A_SCORE: Final = word_table(
    """
    id ids uid uuid index idx position rank row rows line number num no nr turn turns step steps epoch trial
    seed run runs repetition attempt attempts retries iteration round time timestamp tstamp ts date day year
    created updated hour hours minute minutes month week weekday quarter latency duration elapsed seconds sec
    secs ms millis token tokens count counts total cost costs price usd length len chars characters words
    sentences size bytes version threshold weight max min limit k n temperature top page port bookmarked public
    strict mode enabled cached stream confidence logprob logprobs probability std stderr stdev variance level
    age phone zip unnamed instances samples items examples questions kosten coste costo costos custo custos cout
    couts prix preis precio preco prezzo стоимость цена 费用 成本 費用 価格 비용 laufzeit dauer zeit antwortzeit latenz
    latence latencia latenza duree duracion duracao durata tiempo tempo temps время 耗时 延迟 时间 時間 시간 nummer numero
    zeile ligne fila linha riga номер 编号 序号 番号 行号 번호 anzahl cantidad quantidade 数量 wahrscheinlichkeit
    probabilidad probabilidade probabilite 概率 置信度 datum fecha 日期 temperatur temperatura gewicht peso poids
    identifiant kennung
    """
)
EXPLANATIONS: Final = word_table(
    """
    reason reasons reasoning rationale explanation justification feedback comment comments text model prompt
    name type begrundung kommentar comentario
    """
)
# Members of the object of a tool stand in columns such as `outputs.answer`, `inputs.question`, `reference.answer`.
HEADS: Final[Mapping[str, str]] = {
    "inputs": "input", "input": "input", "outputs": "output", "output": "output",
    "reference": "expected", "referenceoutputs": "expected", "referenceoutput": "expected",
    "expected": "expected", "expectations": "expected", "datasourceitem": "row", "sample": "row",
    "row": "row", "data": "row", "item": "row",
}  # fmt: skip
