"""Values of cells: blanks, numbers in the notation of a table, labels, scores by name; pure."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

_YES: Final = (
    *("true", "pass", "passed", "yes", "correct", "wahr", "ja", "vrai", "oui", "verdadero", "sí", "si", "verdadeiro"),
    *("sim", "vero", "да", "верно", "是", "正确", "正確", "通过", "合格", "正解", "はい", "예", "정답", "✅", "✔", "✔️", "✓", "☑", "○", "〇"),
)  # fmt: skip
_NO: Final = (
    *("false", "fail", "failed", "no", "incorrect", "falsch", "nein", "faux", "non", "falso", "não", "нет", "否"),
    *("неверно", "错误", "錯誤", "未通过", "不合格", "不正解", "いいえ", "아니오", "오답", "❌", "✗", "✘", "✖", "×"),
)  # fmt: skip
# How spreadsheets in these languages write TRUE and FALSE, without case: Dutch, Polish, Russian, Turkish, Swedish, Danish,
# Norwegian, Finnish, Czech, Hungarian, Greek.
_SHEET_YES: Final = (
    "waar", "prawda", "истина", "doğru", "sant", "sand", "sann", "tosi", "pravda", "igaz", "αληθησ", "tak", "evet",
)  # fmt: skip
_SHEET_NO: Final = (
    "onwaar", "fałsz", "ложь", "yanlış", "yanliş", "falskt", "falsk", "usann", "epätosi", "nepravda", "hamis", "ψευδησ",
    "nie", "hayır", "hayir",
)  # fmt: skip
_TRUTH: Final = {
    **dict.fromkeys((*_YES, *_SHEET_YES), 1.0),
    **dict.fromkeys((*_NO, *_SHEET_NO), 0.0),
}
TRUTH_WORDS: Final = frozenset(_TRUTH)
# Beside grades from A to F they would be something else.
_LETTERS: Final = {"t": 1.0, "y": 1.0, "f": 0.0, "n": 0.0}
# Of a column that says whether an answer passed; elsewhere they are states of a call.
_ENDS: Final = {
    "success": 1.0, "succeeded": 1.0, "successful": 1.0, "failure": 0.0, "unsuccessful": 0.0,
}  # fmt: skip
_BLANKS: Final = frozenset({"", "nan", "none", "null", "n/a", "<na>"})
# What tools write in place of a number that they do not have.
_MARKERS: Final = frozenset(
    {"-", "--", "–", "—", "?", "na", "#n/a", "#na", "#div/0!", "#value!", "#ref!", "error", "err", "inf",
     "-inf", "infinity", "-infinity", "undefined", "missing", "skipped", "timeout"}
)  # fmt: skip
# An error of a spreadsheet in any language: #WERT!, #¡VALOR!, #NV, #DIV/0!
_SHEET_ERROR: Final = re.compile(r"#¡?[^\W\d][\w/]*[!?]?")
# Digits in groups of three, so that the other sign is that of decimals: 1,230.50 and 1.230,50.
_GROUPED_POINT: Final = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+\.\d+")
_GROUPED_COMMA: Final = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d+")
_POINT: Final = re.compile(r"[+-]?\d+\.\d+")
_COMMA: Final = re.compile(r"[+-]?\d+,\d+")
# One comma may separate thousands.
_THOUSANDS: Final = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_POINT_THOUSANDS: Final = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+")
_PERCENT: Final = re.compile(r"([+-]?[\d.,]+)\s?%")
# 1 230,50 with the blanks of spreadsheets, 1'230.50 as in Switzerland.
_GROUP_SIGNS: Final = re.compile(r"(?<=\d)[\u00a0\u2009\u202f'’](?=\d{3}(?!\d))")
_DOLLAR: Final = re.compile(r"^(?:us)?\$\s?(?=[\d.])|(?<=\d)\s?(?:usd|\$)$")
# What a column of errors holds where there is none.
_NO_ERRORS: Final = frozenset(
    {"0", "0.0", "-", "--", "ok", "no error", "no errors", "success", "[]", "{}"}
)


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """How the numbers of a table are written; `example` is a number that shows it, in the notation of the table."""

    has_decimal_comma: bool = False
    has_thousands: bool = False
    example: str | None = None


PLAIN: Final = NumberStyle()


def find_number_style(rows: Iterable[Mapping[str, Any]]) -> NumberStyle:
    """The notation that the cells of a table show; `PLAIN` without a cell that shows another one, and where
    cells contradict each other.
    """
    cells = [
        _bare(cell).removesuffix("%").strip()
        for row in rows
        for cell in row.values()
        if isinstance(cell, str) and cell[:1] not in ("{", "[")
    ]
    grouped = next((cell for cell in cells if _GROUPED_POINT.fullmatch(cell)), None)
    has_point = grouped is not None or any(map(_is_decimal_point, cells))
    comma = next((cell for cell in cells if _shows_decimal_comma(cell)), None)
    if comma is not None and not has_point:
        return NumberStyle(has_decimal_comma=True, example=comma)
    if grouped is not None and comma is None:
        return NumberStyle(has_thousands=True, example=grouped)
    return PLAIN


def is_blank(cell: Any) -> bool:
    """Return whether a cell is empty, including the spellings of data frames: nan, None, null."""
    if isinstance(cell, str):
        return cell.strip().casefold() in _BLANKS
    return cell is None or cell != cell  # noqa: PLR0124 - NaN differs from itself


def as_number(cell: Any, style: NumberStyle = PLAIN) -> float | None:
    """The finite number of a cell, a percentage as its share, 1 or 0 for words such as true and fail; None for
    another text. `1,250` is a number only where the style says what its comma means.
    """
    if isinstance(cell, str):
        word = cell.strip().casefold()
        if word in _TRUTH:
            return _TRUTH[word]
        word = _bare(word)
        percent = _PERCENT.fullmatch(word)
        if percent is not None:
            share = _float_of(_with_point(percent[1], style))
            return None if share is None else share / 100
        return _float_of(_with_point(word, style))
    if not isinstance(cell, bool | int | float | Decimal):
        return None
    return _float_of(cell)


def as_passed(cell: Any, style: NumberStyle = PLAIN) -> float | None:
    """1 or 0 of a cell that says whether an answer passed, also T and F, Y and N; None for another cell."""
    word = cell.strip().casefold() if isinstance(cell, str) else ""
    if word in _LETTERS or word in _ENDS:
        return _LETTERS[word] if word in _LETTERS else _ENDS[word]
    number = as_number(cell, style)
    return number if number in (0.0, 1.0) else None


def error_flag(cell: Any) -> bool | None:
    """Whether there is an error, of a cell that says only this: true, 0, "no error". None for a message."""
    if is_blank(cell):
        return False
    word = str(cell).strip().casefold()
    if word in _NO_ERRORS:
        return False
    return bool(_TRUTH[word]) if word in _TRUTH else True if word in ("1", "1.0") else None


def http_status(cell: Any) -> int | None:
    """The HTTP status of a cell such as 200 or "503"; None for another cell."""
    number = None if isinstance(cell, bool) else as_number(cell)
    is_status = number is not None and number == int(number) and 100 <= number < 600  # noqa: PLR2004
    return int(number) if number is not None and is_status else None


def is_marker(cell: Any) -> bool:
    """Return whether a cell says that there is no number: `-`, `#N/A`, `error`, infinity."""
    if isinstance(cell, str):
        word = cell.strip().casefold()
        return word in _MARKERS or _SHEET_ERROR.fullmatch(word) is not None
    return isinstance(cell, float) and not math.isfinite(cell)


def is_percentage(cell: Any) -> bool:
    """Return whether a cell is a number with a percent sign."""
    return isinstance(cell, str) and _PERCENT.fullmatch(cell.strip()) is not None


def is_truth(cell: Any) -> bool:
    """Return whether a cell is a word or a value of yes or no."""
    if isinstance(cell, str):
        return cell.strip().casefold() in _TRUTH
    return isinstance(cell, bool)


def as_scores(cell: Any) -> Mapping[str, float] | None:
    """The scores in an object of numbers by name, in a list of objects with a name and a score, or in the JSON text of
    these; None for another cell. A score may be an object with a number and its explanation.
    """
    values = parse_structure(cell)
    if isinstance(values, list) and values and all(_name_of(value) for value in values):
        named = {str(_name_of(value)): value for value in values}
        # A name that is there twice would hide a value.
        values = named if len(named) == len(values) else None
    if not isinstance(values, Mapping):
        return None
    bare = {str(name): _bare_score(value) for name, value in values.items()}
    numbers = {name: as_number(value) for name, value in bare.items() if not is_blank(value)}
    scores = {name: number for name, number in numbers.items() if number is not None}
    return scores if len(scores) == len(numbers) else None


def _name_of(value: Any) -> Any:
    """The name in an object that is a named score, None for another value."""
    is_score = isinstance(value, Mapping) and not {"score", "value"}.isdisjoint(value)
    return value.get("name") or value.get("metric") if is_score else None


def _bare_score(value: Any) -> Any:
    """The number of a score that stands beside its explanation; any other value unchanged."""
    if not isinstance(value, Mapping):
        return value
    return next((value[name] for name in ("score", "value") if name in value), value)


def parse_structure(cell: Any) -> Any:
    """The list or object in the JSON text of a cell; any other cell unchanged."""
    if not isinstance(cell, str) or cell.strip()[:1] not in ("{", "["):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _bare(text: str) -> str:
    """A number without the signs of a currency and of groups that no notation needs to explain."""
    text = text.strip().casefold()
    return _DOLLAR.sub("", _GROUP_SIGNS.sub("", text))


def _is_decimal_point(cell: str) -> bool:
    return _POINT.fullmatch(cell) is not None and not _POINT_THOUSANDS.fullmatch(cell)


def _shows_decimal_comma(cell: str) -> bool:
    is_comma = _COMMA.fullmatch(cell) is not None and not _THOUSANDS.fullmatch(cell)
    return is_comma or _GROUPED_COMMA.fullmatch(cell) is not None


def _with_point(text: str, style: NumberStyle) -> str:
    """A number with a decimal point and without separators of thousands."""
    if style.has_decimal_comma:
        if _COMMA.fullmatch(text) or _GROUPED_COMMA.fullmatch(text):
            return text.replace(".", "").replace(",", ".")
        return text.replace(".", "") if _POINT_THOUSANDS.fullmatch(text) else text
    is_grouped = _GROUPED_POINT.fullmatch(text) is not None
    if is_grouped or (style.has_thousands and _THOUSANDS.fullmatch(text)):
        return text.replace(",", "")
    return text


def _float_of(value: Any) -> float | None:
    # Python reads 1_000 as a number, and no file means one by it.
    if isinstance(value, str) and "_" in value:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
