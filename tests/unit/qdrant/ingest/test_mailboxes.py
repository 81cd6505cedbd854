"""Mailboxes: each e-mail of an .mbox file is a document."""

from __future__ import annotations

import mailbox
import plistlib
from email.message import EmailMessage
from operator import length_hint

import pytest

from reading_ahead import read_ahead
from twinvec_qdrant import Empty, Failure, Root, read_source

FIRST = b"From a@example.org Thu Jan  1 00:00:00 2026\n"


def write(path, *mails):
    """Write e-mails, each a pair of its Message-ID (or None) and its text."""
    box = mailbox.mbox(path)
    for number, (identity, text) in enumerate(mails):
        message = EmailMessage()
        message["From"], message["Subject"] = "Ann <a@example.org>", f"Tea {number}"
        message["Date"] = "Thu, 01 Jan 2026 10:00:00 +0100"
        if identity:
            message["Message-ID"] = f"<{identity}>"
        message.set_content(text)
        box.add(message)
    box.close()


def test_each_mail_is_a_document(tmp_path):
    path = tmp_path / "mail.mbox"
    write(path, ("a@x", "Tea at four."), (None, "Milk?\n\nFrom here on, no milk."), ("a@x", "Sent twice."), ("b@x", ""))
    before = path.read_bytes(), path.stat().st_mtime_ns
    read = list(read_source(tmp_path))
    assert [each.id for each in read[:3]] == ["mail.mbox/a@x", "mail.mbox/2", "mail.mbox/a@x#2"]
    assert [each.title for each in read[:3]] == ["Tea 0", "Tea 1", "Tea 2"]
    assert read[1].text.strip() == "Milk?\n\nFrom here on, no milk."
    payload = {
        "from": "Ann <a@example.org>",
        "date": "2026-01-01T10:00:00+01:00",
        "path": "mail.mbox",
        "format": "text",
    }
    assert read[0].payload == payload
    assert read[3].id == "mail.mbox/b@x"  # the subject is its text
    assert length_hint(read_source(path)) == 4
    assert [each.id for each in read_source(path)][:2] == ["a@x", "mail.mbox/2"]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    reading = Root(str(path)).read()
    list(reading)
    assert 0 < reading.done <= reading.size


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_of_a_text_does_not_begin_a_mail(end, tmp_path):
    path = tmp_path / "mail.mbox"
    lines = [FIRST.rstrip(), b"From: a@example.org", b"", b"From here on:", b"no quoting", b"", b"From there on, too."]
    path.write_bytes(end.join([*lines, b"", FIRST.rstrip(), b"From: b@example.org", b"", b"Next", b""]))
    read = list(read_source(path))
    assert [each.text.split() for each in read] == [
        ["From", "here", "on:", "no", "quoting", "From", "there", "on,", "too."],
        ["Next"],
    ]


@pytest.mark.slow
def test_the_time_is_linear_in_the_number_of_lines_that_look_like_a_mail(tmp_path):
    path = tmp_path / "mail.mbox"
    path.write_bytes(FIRST + b"From: a@example.org\n\n" + b"From me\n" * 500_000)
    (mail,) = read_source(path)
    assert mail.text.count("From me") == 500_000


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_mails_that_thunderbird_has_marked_as_deleted_are_left_out(end, tmp_path):
    """Bit 0x0008 of the status is "expunged"; the others mean that an e-mail was read, answered and so on."""
    path = tmp_path / "mail.mbox"
    mails = []
    for number, status in enumerate([b"0009", b"0001", b"8008", b"000F", b"0017", b"1000"]):
        headers = [FIRST.rstrip(), b"X-Mozilla-Status: " + status, b"Message-ID: <a@x>", b"Subject: Tea %d" % number]
        mails += [*headers, b"", b"X-Mozilla-Status: 0008", b""]
    path.write_bytes(end.join(mails))
    read = list(read_source(path))
    assert [(each.id, each.title) for each in read] == [("a@x", "Tea 1"), ("a@x#2", "Tea 4"), ("a@x#3", "Tea 5")]


def test_a_damaged_mail_does_not_stop_the_others(tmp_path):
    path = tmp_path / "mail.mbox"
    path.write_bytes(FIRST + b"no headers\n\n" + FIRST + b"From: a@example.org\n\nTea\n")
    failure, mail = read_source(path)
    assert isinstance(failure, Failure)
    assert (failure.source, failure.hides) == ("mail.mbox, e-mail 1", True)
    assert failure.reason.startswith("not an e-mail")
    assert mail.id == "mail.mbox/2"


def test_a_file_of_another_format_is_a_text(tmp_path):
    path = tmp_path / "notes.mbox"
    path.write_text("Notes about mailboxes")
    assert [(each.id, each.text) for each in read_source(path)] == [("notes.mbox", "Notes about mailboxes")]


@pytest.mark.parametrize(("version", "records"), [(5, True), (6, False)])
def test_older_collections_and_records_false_read_one_text(version, records, tmp_path):
    write(tmp_path / "mail.mbox", ("a@x", "Tea at four."), ("b@x", "Milk"))
    reading = Root(str(tmp_path), records=records).read()
    reading.read_by(version)
    assert [each.id for each in reading] == ["mail.mbox"]


def test_a_mailbox_that_changes_meanwhile_hides_its_mails(tmp_path):
    path = tmp_path / "mail.mbox"
    write(path, ("a@x", "Tea at four."), ("b@x", "Milk"))
    reading = iter(read_source(path))
    assert next(reading).id == "a@x"
    with path.open("ab") as file:
        file.write(b"\n" + FIRST + b"From: c@example.org\n\nLate\n")
    *_, failure = reading
    assert failure.hides
    assert failure.reason == "the file changed while it was read; ingest it again"


def maildir(path):
    """Make a Maildir of two e-mails, one of them new, and return their names."""
    box = mailbox.Maildir(path)
    for number, text in enumerate(("Tea at four.", "Milk?")):
        message = EmailMessage()
        message["From"], message["Subject"] = "Ann <a@example.org>", f"Tea {number}"
        message.set_content(text)
        kept = mailbox.MaildirMessage(message)
        if number == 0:
            kept.set_subdir("cur")
            kept.set_flags("RS")
        box.add(kept)
    return sorted(each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file())


@pytest.mark.parametrize("options", [(), (read_ahead,)])
def test_the_mails_of_a_maildir_are_read(tmp_path, options):
    names = maildir(tmp_path / "Mail")
    read = list(Root(str(tmp_path / "Mail")).read(*options))
    assert [(each.id, each.title, each.text.strip()) for each in read] == [
        (names[0], "Tea 0", "Tea at four."),
        (names[1], "Tea 1", "Milk?"),
    ]
    assert read[0].payload["from"] == "Ann <a@example.org>"
    (alone,) = read_source(tmp_path / "Mail" / names[0])
    assert alone.title == "Tea 0"
    older = Root(str(tmp_path / "Mail")).read(*options)
    older.read_by(8)
    assert next(older).text.startswith("From: Ann")


def test_a_file_whose_name_is_a_number_is_no_mail(tmp_path):
    for name in ("1700000000.notes.txt", "1700000000.csv", "new/2024.notes"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("id,text\n1,Tea\n")
    assert not any(isinstance(each, Failure) for each in read_source(tmp_path))


INDEX = '// <!-- <mdb:mork:z v="1.4"/> -->\n< <(a=c)> // (f=iso-8859-1)\n  (B8=Custom)(B9=flags)>\n'


def test_a_folder_of_thunderbird_is_a_mailbox(tmp_path):
    """Thunderbird keeps the e-mails of a folder in a file without an ending, and the index of the folder in another."""
    write(tmp_path / "Inbox", ("a@x", "Tea at four."), ("b@x", "Milk?"))
    data = (tmp_path / "Inbox").read_bytes().replace(b"\nFrom:", b"\nX-Mozilla-Status: 0001\nFrom:")
    (tmp_path / "Inbox").write_bytes(data)
    (tmp_path / "Inbox.msf").write_text(INDEX)
    (tmp_path / "LICENSE").write_text("From now on, this is\nfree: for all.\n")
    read = list(read_source(tmp_path))
    assert [each.id for each in read if not isinstance(each, Failure)] == ["Inbox/a@x", "Inbox/b@x", "LICENSE"]
    (index,) = (each for each in read if isinstance(each, Failure))
    assert isinstance(index, Empty)
    assert "mail index" in index.reason
    assert [each.id for each in read_source(tmp_path / "Inbox")] == ["a@x", "b@x"]
    older = Root(str(tmp_path)).read()
    older.read_by(8)
    assert [each.id for each in older] == ["Inbox", "Inbox.msf", "LICENSE"]


def test_a_mail_of_apple_is_read(tmp_path):
    message = EmailMessage()
    message["From"], message["Subject"] = "Ann <a@example.org>", "Tea"
    message.set_content("Tea at four.")
    listed = plistlib.dumps({"flags": 8590195713, "date-received": 1700000000})
    (tmp_path / "1.emlx").write_bytes(b"%-10d\n%b%b" % (len(bytes(message)), bytes(message), listed))
    (tmp_path / "2.emlx").write_bytes(bytes(message))
    mail, failed = read_source(tmp_path)
    assert (mail.title, mail.text.strip(), mail.payload["from"]) == ("Tea", "Tea at four.", "Ann <a@example.org>")
    assert "does not begin with the length" in failed.reason
    older = Root(str(tmp_path)).read()
    older.read_by(8)
    assert "plist" in next(older).text
