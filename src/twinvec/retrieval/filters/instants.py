"""Dates as text: the moments that payloads and filters name.

``moment`` reads every form of date that Qdrant's engine reads, ISO 8601 among them. ``limit`` accepts only ISO 8601,
so that a mistake in a filter is an error. Without an offset, times are in UTC. Moments are microseconds since 1970.

A leap second (23:59:60) is half a microsecond before the next minute: after all other moments of its day, as the engine
orders it. As a bound, it is the next minute.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from math import ceil

_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?)?"
)
_DATE = r"\s*(?P<year>[+-]\d{1,18}+|\d{1,4}+)~-\s*(?P<month>\d{1,2}+)~-\s*(?P<day>\d{1,2}+)"
_MINUTES = r"\s*(?P<hour>\d{1,2}+)~:\s*(?P<minute>\d{1,2}+)"
_SECONDS = rf"{_MINUTES}~:\s*(?P<second>\d{{1,2}}+)(?:\.(?P<fraction>\d++))?"
_AHEAD = r"\s*(?P<sign>[+−-])(?P<hours>\d\d)"
# "~" marks white space that only _SPACED allows; "\s*+" takes all white space at once, so that the cost stays linear
_STRICT = (
    _DATE,
    rf"{_DATE}(?:T|\s*+){_MINUTES}",
    rf"{_DATE}(?:T|\s*+){_SECONDS}",
    rf"{_DATE}(?:T|\s*+){_SECONDS}(?:\s*[zZ]|{_AHEAD}[:\s]*(?P<minutes>\d\d)?)",
)
_SPACED = rf"{_DATE}(?:[tT]|\s++){_SECONDS}(?:\s*(?:[zZ]|[uU][tT][cC])|{_AHEAD}[:\s]*(?P<minutes>\d\d))\s*"
_FORMS = [re.compile(form.replace("~", ""), re.ASCII) for form in _STRICT]
_FORMS.append(re.compile(_SPACED.replace("~", r"\s*"), re.ASCII))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # the calendar repeats itself after this time
_YEARS = range(-262_143, 262_143)


def limit(value: object) -> datetime | None:
    """Return the moment that a bound of a filter names, or None if ``value`` is not a date."""
    try:
        if isinstance(value, str):
            found = moment(value) if _ISO.fullmatch(value) else None
            return None if found is None else _EPOCH + ceil(found) * _MICROSECOND
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:  # the offset leads beyond Python's years
        return None
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None


def microseconds(value: datetime) -> int:
    """Return a datetime that has a time zone as a moment."""
    return (value - _EPOCH) // _MICROSECOND


def is_leap_second(text: str) -> bool:
    """Return whether a text is a date in a leap second."""
    return isinstance(moment(text), Fraction)


def moment(text: str) -> int | Fraction | None:
    """Return the moment that a text names, or None if the text is not a date."""
    for form in _FORMS:
        if found := form.fullmatch(text):
            return _moment(found.groupdict())
    return None


def _moment(parts: dict[str, str | None]) -> int | Fraction | None:
    def number(name: str) -> int:
        return int(parts.get(name) or 0)

    cycles, year = divmod(number("year"), _CYCLE_YEARS)
    try:
        days = date(year + _CYCLE_YEARS, number("month"), number("day")).toordinal() - _EPOCH.toordinal()
    except ValueError:
        return None
    hour, minute, second = number("hour"), number("minute"), number("second")
    hours, minutes = number("hours"), number("minutes")
    if number("year") not in _YEARS or hour > 23 or minute > 59 or second > 60 or hours > 23 or minutes > 59:
        return None
    offset = (60 * hours + minutes) * (1 if parts.get("sign") == "+" else -1)
    days += (cycles - 1) * _CYCLE_DAYS
    seconds = ((24 * days + hour) * 60 + minute - offset) * 60 + second
    if second > 59:
        return seconds * 1_000_000 - Fraction(1, 2)
    return seconds * 1_000_000 + int(f"{parts.get('fraction') or '':0<6}"[:6])
