"""Calendars (iCalendar, RFC 5545), alone and in a letter -> the summary, time, place and description of each event."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

_FOLD = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(r'([\w-]++)((?:"[^"]*"|[^":])*+):(.*)')  # possessive: the time is linear without a colon
_ZONE = re.compile(r';TZID="?([^";]+)', re.IGNORECASE)
_ESCAPED = re.compile(r"\\([nN,;\\])")
_ENTRIES = ("VEVENT", "VJOURNAL", "VTODO")
_DAY = "%Y%m%d"
_TIMES = {_DAY: "%Y-%m-%d", f"{_DAY}T%H%M%S": "%Y-%m-%d %H:%M", f"{_DAY}T%H%M%SZ": "%Y-%m-%d %H:%M UTC"}


class _Property(NamedTuple):
    """The parameters of a property of an event, such as ``;TZID=Europe/Berlin``, and its value."""

    parameters: str
    value: str


def events_text(calendar: str, told: str) -> str:
    """Return the summary, time, place and description of each event of a calendar; "" without an event.

    A description is left out if ``told`` contains it; single spaces separate the words of ``told``.
    """
    return "\n\n".join(filter(None, (_event_text(event, told) for event in _events(calendar))))


def markdown_of_calendar(calendar: str) -> str:
    """Return the events, tasks and notes of a calendar, each below its summary as heading; "" if it has none."""
    return "\n\n".join(filter(None, (_event_markdown(event) for event in _events(calendar, _ENTRIES))))


def _event_markdown(event: Mapping[str, _Property]) -> str:
    summary, due = " ".join(_text(event, "SUMMARY").split()), _moment(event.get("DUE"), 0)
    rest = _event_text({name: value for name, value in event.items() if name != "SUMMARY"}, "")
    return "\n\n".join(filter(None, [f"# {summary}" if summary else "", f"Due: {due}" if due else "", rest]))


def _events(calendar: str, kinds: Collection[str] = ("VEVENT",)) -> Iterator[Mapping[str, _Property]]:
    """Yield the properties of each event by name, without those of the alarms in it."""
    within: list[str] = []
    event: dict[str, _Property] = {}
    for line in _FOLD.sub("", calendar).splitlines():
        if (found := _LINE.match(line)) is None:
            continue
        name, value = found[1].upper(), found[3].strip()
        if name == "BEGIN":
            within.append(value.upper())
            event = {} if within[-1] in kinds else event
        elif name == "END":
            if within and within.pop() in kinds:
                yield event
        elif within and within[-1] in kinds:
            event.setdefault(name, _Property(found[2], value))


def _event_text(event: Mapping[str, _Property], told: str) -> str:
    summary, place, description = (_text(event, name) for name in ("SUMMARY", "LOCATION", "DESCRIPTION"))
    facts = [f"Time: {time}" if (time := _time(event)) else "", f"Place: {place}" if place else ""]
    if " ".join(description.split()) in told:
        description = ""
    return "\n\n".join(filter(None, [summary, "\n".join(filter(None, facts)), description]))


def _text(event: Mapping[str, _Property], name: str) -> str:
    found = event.get(name)
    if found is None:
        return ""
    return _ESCAPED.sub(lambda sign: "\n" if sign[1] in "nN" else sign[1], found.value).strip()


def _time(event: Mapping[str, _Property]) -> str:
    """Return when an event begins and ends.

    The end of an event of whole days is its last day; iCalendar states the day after.
    """
    start, end = (_moment(event.get(name), days) for name, days in (("DTSTART", 0), ("DTEND", 1)))
    return start if end in ("", start) else f"{start} – {end}"


def _moment(found: _Property | None, days: int) -> str:
    """Return a time with its zone, or the date some ``days`` before; return a value of another form unchanged."""
    if found is None:
        return ""
    zone = f" {named[1]}" if (named := _ZONE.search(found.parameters)) else ""
    for form, shown in _TIMES.items():
        try:
            moment = datetime.strptime(found.value, form)
            return f"{moment - timedelta(days if form == _DAY else 0):{shown}}{zone}"
        except (ValueError, OverflowError):
            continue
    return found.value
