"""Calendars and address books, which older reading versions read with their markup."""

from __future__ import annotations

import pytest
import vobject

from twinvec_qdrant import Root, read_source

CALENDAR = """\
BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VTIMEZONE
TZID:Europe/Berlin
END:VTIMEZONE
BEGIN:VEVENT
UID:1
SUMMARY:Dentist\\, with
  the children
DTSTART;TZID=Europe/Berlin:20040506T090000
DTEND;TZID=Europe/Berlin:20040506T093000
LOCATION:Main Street
DESCRIPTION:Bring the\\ncard
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
BEGIN:VTODO
SUMMARY:Buy tea
DUE;VALUE=DATE:20040601
END:VTODO
END:VCALENDAR
"""
PHONE = """\
BEGIN:VCARD
VERSION:2.1
N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=C3=BCrgen;;;
TEL;CELL:+491701234567
NOTE;ENCODING=QUOTED-PRINTABLE;CHARSET=UTF-8:Plays the violin=0D=0A=
and the piano
END:VCARD
"""


def test_the_entries_of_a_calendar_are_read(tmp_path):
    (tmp_path / "family.ics").write_bytes(CALENDAR.replace("\n", "\r\n").encode())
    (document,) = read_source(tmp_path)
    assert document.text == (
        "# Dentist, with the children\n\nTime: 2004-05-06 09:00 Europe/Berlin – 2004-05-06 09:30 Europe/Berlin\n"
        "Place: Main Street\n\nBring the\ncard\n\n# Buy tea\n\nDue: 2004-06-01"
    )
    assert document.payload == {"path": "family.ics", "format": "markdown"}
    older = Root(str(tmp_path)).read()
    older.read_by(8)
    assert next(older).text == CALENDAR.replace("\n", "\r\n")


def test_the_contacts_of_an_address_book_are_read(tmp_path):
    card = vobject.vCard()
    card.add("n").value = vobject.vcard.Name("Smith", "Ann")
    card.add("fn").value = "Ann Smith"
    card.add("email").value = "ann@example.org"
    card.add("org").value = ["Tea House", "Sales"]
    card.add("note").value = "Likes Sencha, and\nAssam"
    card.add("uid").value = "7f3a"
    (tmp_path / "a.vcf").write_text(PHONE + card.serialize())
    (document,) = read_source(tmp_path)
    assert document.text == (
        "# Jürgen Müller\n\nTelephone: +491701234567\nNote: Plays the violin and the piano\n\n"
        "# Ann Smith\n\nOrganisation: Tea House, Sales\nE-mail: ann@example.org\nNote: Likes Sencha, and Assam"
    )
    older = Root(str(tmp_path)).read()
    older.read_by(8)
    assert next(older).text.startswith("BEGIN:VCARD")


@pytest.mark.parametrize("name", ["a.ics", "a.vcf"])
@pytest.mark.parametrize(
    "text", ["Tea at four.", "BEGIN:VCARD\nFN:Ann", "BEGIN:VCALENDAR\nEND:VCALENDAR", "END:VCARD\n"]
)
def test_a_file_without_entries_is_a_text(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (document,) = read_source(tmp_path)
    assert document.text == text
