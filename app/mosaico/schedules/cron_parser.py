"""Parser of cron expressions: six fields of text, second first, to sets of bits.

Syntax: CronExpression of Spring Framework 7, without its loose forms; see docs/cron.md.
"""

import re
from typing import NamedTuple

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.text import count_noun, shorten
from mosaico.schedules.cron_advice import advise_schedules, translate_fields, unwrap_range

MACROS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

# Days of a month are bits 1 to 31, days of a week bits 0 (Sunday) to 6.
# Without bit 0, which is not a day.
ALL_DAYS = (1 << 32) - 2
ALL_WEEKDAYS = 0b1111111
# Both 0 and 7 are Sunday: as 7 it can end a range such as `FRI-SUN`, which a 0 cannot.
SUNDAY_AS_7 = 7
MAX_QUOTED_CHARS = 20
# A step above the range of its field leaves the start only; Spring limits it to its integers.
MAX_STEP = 2**31 - 1
# Python refuses to convert very long digit strings; no number has more digits than this.
MAX_DIGITS = 10


class InvalidCron(Invalid):
    """The cron expression is not valid; the message names the column and what to write instead.

    `replacement` is what to write in the place of `start` to `end`, where it is known.
    """

    def __init__(
        self, message: str, remedy: str, *, start: int, end: int, replacement: str | None = None
    ) -> None:
        self.column, self.message, self.remedy = start + 1, message, remedy
        self.start, self.end, self.replacement = start, end, replacement
        detail = f"column {self.column}: {message}; {remedy}"
        item = ErrorItem(pointer="/cronExpression", detail=detail, span=(start, end))
        super().__init__("the cron expression is not valid; correct it", errors=[item])


class DayRule(NamedTuple):
    """The two day fields: a day fires if it matches the day of month and the day of week.

    Day of month: any of `days`, `before_last` (that many days before the last), `last_workday`,
    or the workday nearest to a day in `nearest`. Day of week: any of `weekdays`, `last_weekdays`
    (the last such weekday of the month), or `nth`: pairs of weekday and occurrence in the month.
    """

    days: int
    before_last: tuple[int, ...]
    last_workday: bool
    nearest: tuple[int, ...]
    weekdays: int
    last_weekdays: int
    nth: tuple[tuple[int, int], ...]


class CronFields(NamedTuple):
    """A parsed expression: its normal form, and each field of numbers as a set of bits."""

    text: str
    seconds: int
    minutes: int
    hours: int
    months: int
    days: DayRule


class _Token(NamedTuple):
    """A part of the expression and the index where it starts."""

    text: str
    start: int

    def error(self, message: str, remedy: str) -> InvalidCron:
        return InvalidCron(message, remedy, start=self.start, end=self.start + len(self.text))

    def replaced(self, message: str, replacement: str) -> InvalidCron:
        """The error whose remedy is another text in this place."""
        end = self.start + len(self.text)
        remedy = f"write {replacement}"
        return InvalidCron(message, remedy, start=self.start, end=end, replacement=replacement)


class CronField(NamedTuple):
    """Name of a field, the range of its numbers, and the short and the full names of some of them."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    full_names: tuple[str, ...] = ()

    @property
    def first(self) -> int:
        """The number with which `*` begins; that of the week is Monday."""
        return 1 if self.full_names is WEEKDAY_NAMES else self.low


SECOND_FIELD = CronField("second", 0, 59)
MINUTE_FIELD = CronField("minute", 0, 59)
HOUR_FIELD = CronField("hour", 0, 23)
DAY_FIELD = CronField("day of month", 1, 31)
MONTH_FIELD = CronField("month", 1, 12, MONTHS, MONTH_NAMES)
WEEKDAY_FIELD = CronField("day of week", 0, 7, WEEKDAYS, WEEKDAY_NAMES)
FIELDS = (SECOND_FIELD, MINUTE_FIELD, HOUR_FIELD, DAY_FIELD, MONTH_FIELD, WEEKDAY_FIELD)

# ASCII digits only: int() and `\d` would also accept digits of other scripts, and int() a sign.
_NUMBER = re.compile(r"[0-9]+")
_BEFORE_LAST = re.compile(r"L(?:-([0-9]+))?")
_NEAREST = re.compile(r"([0-9]+)W")
_NTH = re.compile(r"([^#]+)#([0-9]+)")


def parse_fields(text: str) -> CronFields:
    """Parse six fields or a macro; raises `InvalidCron`."""
    # Not str.split(): that also splits at tabs and at Unicode spaces, which the syntax does not
    # allow, and it loses the columns that an error message needs.
    tokens = [_Token(match[0], match.start()) for match in re.finditer(r"[^ ]+", text)]
    if tokens and tokens[0].text.startswith("@"):
        return parse_fields(_expand_macro(_Token(text.strip(" "), tokens[0].start)))
    if len(tokens) != len(FIELDS):
        start = tokens[6].start if len(tokens) > len(FIELDS) else 0
        raise InvalidCron(
            f"the expression has {count_noun(len(tokens), 'field')} instead of six",
            _advise_fields(text),
            start=start,
            end=len(text),
        )
    second, minute, hour, day, month, weekday = tokens
    # Names are case-insensitive, `L` and `W` of the day of month are not.
    return CronFields(
        text=" ".join(
            [*(token.text for token in tokens[:4]), month.text.upper(), weekday.text.upper()]
        ),
        seconds=_parse_bits(second, SECOND_FIELD),
        minutes=_parse_bits(minute, MINUTE_FIELD),
        hours=_parse_bits(hour, HOUR_FIELD),
        months=_parse_bits(month, MONTH_FIELD),
        days=_parse_days(day, weekday),
    )


def numbers_of_item(text: str, field: CronField) -> list[int]:
    """The numbers that a valid item of a field matches: `*`, a number, a name, a range, or one of them with a step."""
    bits = _parse_item(_Token(text, 0), field)
    return [number for number in range(field.low, field.high + 1) if bits >> number & 1]


def _advise_fields(text: str) -> str:
    """What to write instead of another number of fields."""
    for schedules in translate_fields(text):
        mended = [_mend(schedule) for schedule in schedules]
        valid = [schedule for schedule in mended if schedule is not None]
        if len(valid) == len(mended):
            return advise_schedules(valid)
    return "write second, minute, hour, day of month, month and day of week, separated by spaces"


def _mend(text: str) -> str | None:
    """The expression with the replacements of its errors; None if one has no replacement."""
    while True:
        try:
            parse_fields(text)
        except InvalidCron as error:
            if error.replacement is None:
                return None
            text = f"{text[: error.start]}{error.replacement}{text[error.end :]}"
        else:
            return text


def _expand_macro(macro: _Token) -> str:
    # Outside ASCII, lower() can turn another letter into the one of a macro.
    expanded = MACROS.get(macro.text.lower()) if macro.text.isascii() else None
    if expanded is None:
        macro_names = ", ".join(MACROS)
        raise macro.error(f"{_quote(macro)} is not a macro", f"write one of: {macro_names}")
    return expanded


def _parse_bits(token: _Token, field: CronField) -> int:
    bits = 0
    for item in _split_items(token):
        bits |= _parse_item(item, field)
    return bits


def _parse_days(day: _Token, weekday: _Token) -> DayRule:
    days, before_last, last_workday, nearest = 0, [], False, []
    # `?` is a token of the whole field, never an item of a list: `L,?` is rejected.
    for item in [] if day.text == "?" else _split_items(day):
        if item.text == "LW":
            last_workday = True
        elif match := _BEFORE_LAST.fullmatch(item.text):
            # `L` alone is distance 0; a written distance is 1 to 30. Spring accepts `L-31`, which
            # reaches into the previous month and can move the search backwards.
            before_last.append(_parse_number(item, match[1] or "0", 1 if match[1] else 0, 30))
        elif match := _NEAREST.fullmatch(item.text):
            nearest.append(_parse_number(item, match[1], 1, 31))
        else:
            days |= _parse_item(item, DAY_FIELD)
    weekdays, last_weekdays, nth = 0, 0, []
    for item in [] if weekday.text == "?" else _split_items(weekday):
        if match := _NTH.fullmatch(item.text):
            # More than the fifth weekday never matches. It is syntax nevertheless, and the check of
            # a new schedule reports it as `NeverFires`, which says more than a syntax error.
            nth.append((_parse_weekday(item, match[1]), _parse_number(item, match[2], 1, 99)))
        # Lower case is accepted here, unlike in the day of month, as Spring does: `fril`.
        elif item.text[-1] in "Ll" and len(item.text) > 1:
            last_weekdays |= 1 << _parse_weekday(item, item.text[:-1])
        else:
            bits = _parse_item(item, WEEKDAY_FIELD)
            # Folds bit 7 into bit 0: both are Sunday.
            weekdays |= (bits | bits >> SUNDAY_AS_7) & ALL_WEEKDAYS
    return DayRule(
        days if day.text != "?" else ALL_DAYS,
        tuple(before_last),
        last_workday,
        tuple(nearest),
        weekdays if weekday.text != "?" else ALL_WEEKDAYS,
        last_weekdays,
        tuple(nth),
    )


def _split_items(token: _Token) -> list[_Token]:
    """The items of a field, which commas separate."""
    items, start = [], token.start
    for text in token.text.split(","):
        item = _Token(text, start)
        if not text:
            raise item.error("there is no item before or after a comma", "remove the comma")
        items.append(item)
        start += len(text) + 1
    return items


def _parse_item(item: _Token, field: CronField) -> int:
    """The bits of `*`, a number, a range, or one of them with a step."""
    span, slash, step_text = item.text.partition("/")
    step = _parse_number(item, step_text, 1, MAX_STEP) if slash else 1
    if span == "*":
        # A step over all days of the week starts at Monday.
        # `*` means Monday to Sunday (1 to 7) here.
        low, high = field.first, field.high
    else:
        first, dash, last = span.partition("-")
        low = _parse_value(item, first, field)
        high = _parse_value(item, last, field) if dash else (field.high if slash else low)
        # `SUN-TUE` starts the week: Sunday is 0 at the start of a range and 7 everywhere else.
        if dash and field is WEEKDAY_FIELD and low == SUNDAY_AS_7 and high != SUNDAY_AS_7:
            low = 0
        # `SUN-SUN` is every day in Spring, although it reads as one day: it is rejected. Ranges do
        # not wrap around, because `FRI-MON` could mean four days or be a mistake.
        if high < low or (dash and field is WEEKDAY_FIELD and low == SUNDAY_AS_7):
            message = f"the range {span!r} of the {field.name} is not ascending"
            if low == high:
                raise item.error(message, f"write {first} for this day, or * for every day")
            raise item.replaced(message, _unwrap(first, low, high, step, field))
    return sum(1 << number for number in range(low, high + 1, step))


def _unwrap(first: str, low: int, high: int, step: int, field: CronField) -> str:
    """The items that a descending range stands for."""
    names = [str(number) for number in range(field.high + 1)]
    if not first.isdigit():
        offset = 0 if field is WEEKDAY_FIELD else 1
        names = [*[""] * offset, *field.names, field.names[0]]
    return unwrap_range(low, high, step, first=field.first, last=field.high, names=names)


def _parse_value(item: _Token, text: str, field: CronField) -> int:
    """A number of the field, or the number of a name."""
    if text.isascii() and text.upper() in field.names:
        index = field.names.index(text.upper())
        if field is WEEKDAY_FIELD:
            # A name is looked up as a whole: Spring replaces names as substrings and reads `JAN1`
            # as 11, November.
            return index or SUNDAY_AS_7
        return index + 1
    if _shorten_names(text, field) != text:
        message = f"{_quote(item)} is not a valid {field.name}"
        raise item.replaced(message, _shorten_names(item.text, field))
    if not _NUMBER.fullmatch(text):
        raise item.error(f"{_quote(item)} is not a valid {field.name}", _remedy(field))
    return _parse_number(item, text, field.low, field.high, field)


def _shorten_names(text: str, field: CronField) -> str:
    """The item with `MON` for `Monday`."""
    for short_name, full_name in zip(field.names, field.full_names, strict=True):
        text = re.sub(rf"(?ai)\b{full_name}\b", short_name, text)
    return text


def _parse_weekday(item: _Token, text: str) -> int:
    return _parse_value(item, text, WEEKDAY_FIELD) % 7


def _parse_number(
    item: _Token, text: str, low: int, high: int, field: CronField | None = None
) -> int:
    field_name = field.name if field else "number"
    if not _NUMBER.fullmatch(text):
        raise item.error(f"a whole number is missing in {_quote(item)}", "write digits")
    # The replacement is above every bound, so the error below is the right one.
    number = int(text) if len(text) <= MAX_DIGITS else 10**MAX_DIGITS
    if not low <= number <= high:
        quoted = text[:MAX_QUOTED_CHARS]
        raise item.error(f"the {field_name} {quoted} is out of range", f"write {low} to {high}")
    return number


def _remedy(field: CronField) -> str:
    remedy = f"write *, or numbers from {field.low} to {field.high}"
    if field.names:
        remedy += f" or {field.names[0]} to {field.names[-1]}"
    if field is DAY_FIELD:
        return f"{remedy}, or L, L-3, LW or 15W in capitals, or ? alone"
    if field is WEEKDAY_FIELD:
        return f"{remedy}, or FRIL, MON#2, or ? alone"
    return remedy


def _quote(token: _Token) -> str:
    text = token.text
    return repr(shorten(text, MAX_QUOTED_CHARS))
