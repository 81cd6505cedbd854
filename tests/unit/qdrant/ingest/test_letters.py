"""Letters of several parts: texts around attachments, forwarded letters, and invitations."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from twinvec_qdrant import Failure, Root, read_source
from twinvec_qdrant.ingest.reading.letters.invitations import events_text
from twinvec_qdrant.ingest.reading.letters.mail import read_mail

EVENT = """BEGIN:VCALENDAR
BEGIN:VTIMEZONE
DTSTART:19700101T000000
END:VTIMEZONE
BEGIN:VEVENT
SUMMARY:Tea\\, and more
DTSTART;TZID="Europe/Berlin":20240506T150000
DTEND;TZID="Europe/Berlin":20240506T163000
LOCATION:Kitchen
DESCRIPTION;ALTREP="cid:a@b":Bring your o
 wn cup.\\nMilk is there.
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
END:VCALENDAR
"""
TOLD = "Tea, and more\n\nTime: 2024-05-06 15:00 Europe/Berlin – 2024-05-06 16:30 Europe/Berlin\nPlace: Kitchen\n\n"
TOLD += "Bring your own cup.\nMilk is there."


def text(content: str, kind: str = "plain", **options) -> EmailMessage:
    part = EmailMessage()
    part.set_content(content, subtype=kind, **options)
    return part


def of(kind: str, *parts: EmailMessage) -> EmailMessage:
    whole = EmailMessage()
    whole["content-type"] = f"multipart/{kind}"
    for each in parts:
        whole.attach(each)
    return whole


def forwarded(message: EmailMessage, **options) -> EmailMessage:
    part = EmailMessage()
    part.set_content(message, **options)
    return part


def file(name: str = "a.pdf") -> EmailMessage:
    part = EmailMessage()
    part.set_content(b"%PDF", maintype="application", subtype="pdf", filename=name)
    return part


def letter(message: EmailMessage, sender: str = "ann@example.org", **headers: str) -> EmailMessage:
    message["from"] = sender
    for name, value in headers.items():
        message[name] = value
    return message


def body(message: EmailMessage, version: int = 5) -> str:
    return read_mail(letter(message).as_bytes(), version).body.strip()


def named(part: EmailMessage, name: str) -> EmailMessage:
    """A part with a file name, which does not say whether it is to be shown."""
    part.set_param("name", name)
    return part


TEA, MILK = "Tea at four.\n", "Milk at five.\n"


def mixed() -> EmailMessage:
    return of("mixed", text(TEA), file(), text(MILK))


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (mixed(), "Tea at four.\n\nMilk at five."),
        (of("alternative", text("see below\n"), of("mixed", text("<p>no", "html"), file())), "see below"),
        (of("alternative", text(" \n"), of("mixed", text("<p>a", "html"), file(), text("<p>b", "html"))), "a\n\nb"),
        (
            of("mixed", text("<p>Tea at <b>four</b>", "html"), text("-- \nthe list\n")),
            "Tea at **four**\n\n-- \nthe list",
        ),
        (of("mixed", of("alternative", text(TEA), text("<p>no", "html")), text(MILK)), "Tea at four.\n\nMilk at five."),
        (of("mixed", text(TEA), text("log", disposition="inline", filename="a.log")), "Tea at four.\n\nlog"),
        (of("mixed", text(TEA), text("log\n" * 99_999, disposition="inline", filename="a.log")), "Tea at four."),
        (of("mixed", text(TEA), named(text("log"), "a.log")), "Tea at four."),
        (of("mixed", text(TEA), text("log", disposition="attachment")), "Tea at four."),
        (of("mixed", text(TEA), text("half\0", cte="base64")), "Tea at four."),
        (of("signed", text(TEA), file("smime.p7s")), "Tea at four."),
        (of("related", text("<p>Tea", "html"), text("<p>a frame", "html")), "Tea"),
        (text(TEA), "Tea at four."),
    ],
)
def test_all_texts_that_are_shown_are_the_body(message, wanted):
    assert body(message) == wanted


def test_older_versions_read_the_first_text_alone():
    assert [body(mixed(), version) for version in (1, 2, 3, 4)] == ["Tea at four."] * 4


@pytest.mark.parametrize("options", [{}, {"disposition": "attachment", "filename": "a.eml"}])
def test_a_forwarded_letter_is_text_with_its_subject_sender_and_date(options):
    inner = letter(
        of("mixed", text(MILK), file()), "zoë <zoe@example.org>", subject="Milk", date="Mon, 6 May 2024 07:08:00 +0000"
    )
    last = letter(text("<p>Bread at <b>six</b>", "html"), "bob@example.org", subject="Bread")
    message = letter(of("mixed", text(TEA), forwarded(inner, **options), forwarded(last, **options)), subject="Tea")
    read = read_mail(message.as_bytes())
    assert read.subject == "Tea"
    assert read.is_markdown
    assert read.body == (
        "Tea at four.\n\nSubject: Milk\nFrom: zoë <zoe@example.org>\nDate: Mon, 06 May 2024 07:08:00 +0000\n\n"
        "Milk at five.\n\nSubject: Bread\nFrom: bob@example.org\n\nBread at **six**"
    )


def test_an_invitation_is_text():
    assert body(text(EVENT, "calendar")) == TOLD
    assert body(of("mixed", of("alternative", text(EVENT.replace("\n", "\r\n"), "calendar")))) == TOLD
    assert body(of("alternative", text(TEA), text(EVENT, "calendar"))) == f"Tea at four.\n\n{TOLD}"
    assert body(of("mixed", text(TEA), named(text(EVENT, "calendar"), "a.ics"))) == f"Tea at four.\n\n{TOLD}"
    assert body(of("mixed", text(TEA), text(EVENT, "calendar", disposition="attachment"))) == "Tea at four."
    assert body(of("alternative", text(TEA), text(EVENT, "calendar")), 4) == "Tea at four."
    assert body(text(EVENT, "calendar"), 4) == ""


def test_an_invitation_does_not_repeat_the_text_of_its_letter():
    same = "Hello,\n\nBring your own\ncup. Milk is there.\n"
    for kinds in ([text(same)], [text(same), text(f"<p>{same}", "html")], [text(f"<p>{same}", "html")]):
        found = body(of("alternative", *kinds, text(EVENT, "calendar")))
        assert found.count("Milk is there.") == 1
        assert found.endswith("2024-05-06 16:30 Europe/Berlin\nPlace: Kitchen")


@pytest.mark.slow
def test_the_time_is_linear_in_the_length_of_a_line_of_an_invitation():
    assert events_text(f"BEGIN:VEVENT\n{'a' * 2**21}\nSUMMARY:Tea\nEND:VEVENT\n", "") == "Tea"


def test_files_are_named_also_those_of_forwarded_letters():
    picture = named(text("x", disposition="inline"), "logo.png")
    page = of("related", text("<p>Milk", "html"), picture)
    inner = letter(of("mixed", page, of("mixed", file("b.pdf"), file("c.pdf"))), subject="Milk")
    message = of("mixed", text(TEA), file("a.pdf"), forwarded(inner, disposition="attachment", filename="milk.eml"))
    read = read_mail(letter(message).as_bytes())
    assert read.payload["attachments"] == ["a.pdf", "milk.eml", "b.pdf", "c.pdf"]
    assert read_mail(letter(of("mixed", text(TEA), file("a.pdf"))).as_bytes(), 4).payload["attachments"] == ["a.pdf"]
    assert "attachments" not in read_mail(letter(text(TEA)).as_bytes()).payload


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        ("DTSTART:20240506T130000Z", "DTEND:20240506T140000Z", "2024-05-06 13:00 UTC – 2024-05-06 14:00 UTC"),
        ("DTSTART;VALUE=DATE:20240506", "DTEND;VALUE=DATE:20240507", "2024-05-06"),
        ("DTSTART;VALUE=DATE:20240506", "DTEND;VALUE=DATE:20240509", "2024-05-06 – 2024-05-08"),
        ("DTSTART:soon", "DTEND:00010101", "soon – 00010101"),
    ],
)
def test_the_time_of_an_event_is_readable(start, end, told):
    assert body(text(f"BEGIN:VEVENT\n{start}\n{end}\nEND:VEVENT\nEND:x\nodd\n", "calendar")) == f"Time: {told}"


def test_a_letter_of_which_nothing_can_be_decoded_fails(tmp_path):
    message = letter(of("alternative", text("half\0", cte="base64"), file()))
    (tmp_path / "a.eml").write_bytes(message.as_bytes())
    (found,) = read_source(tmp_path / "a.eml")
    assert isinstance(found, Failure)
    assert "binary" in found.reason


def test_a_part_that_cannot_be_decoded_does_not_hide_the_others():
    head = b"From: ann@example.org\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nTea at four.\n--x\n"
    odd = b"Content-Transfer-Encoding: =?utf-7?Q?+2AA-?="  # half a character
    assert read_mail(head + odd + b"\n\nMilk\n--x--\n").body == "Tea at four."


def test_letters_in_letters_are_read_once_each(tmp_path):
    message = text("the innermost\n")
    for depth in range(20):
        message = forwarded(letter(of("alternative", message), subject=f"at {depth}"))
    (tmp_path / "a.eml").write_bytes(letter(message).as_bytes())
    (found,) = Root(str(tmp_path)).read()
    assert found.text.count("Subject: at ") == 20
    assert found.text.endswith("the innermost")
