"""Mailboxes: a file of e-mails (.mbox, RFC 4155, or a folder of Thunderbird) -> documents, one for each e-mail."""

from __future__ import annotations

import mailbox
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from email import policy
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from pathlib import Path

from twinvec.retrieval.documents import Document, as_document
from twinvec_qdrant.ingest.reading.letters.mail import document_of_mail, read_mail
from twinvec_qdrant.ingest.reading.letters.parts import is_letter
from twinvec_qdrant.ingest.reading.results import (
    CHANGED,
    Failure,
    Read,
    hiding,
    is_unchanged,
    or_empty,
    printable,
    reason_of,
    unreadable,
)

MAILBOX_SUFFIX = ".mbox"

_BEGINNING = b"From "
_BEGINNING_BYTES = 64 * 1024  # the headers of an e-mail have fewer
_HEADER = re.compile(rb"[!-9;-~]+:")  # the name of a header, with its colon (RFC 5322, section 2.2)
_END_OF_HEADERS = re.compile(rb"\r?\n\r?\n")
_DELETED = re.compile(rb"^X-Mozilla-Status: *[0-9a-f]{3}[89a-f]", re.MULTILINE | re.IGNORECASE)  # the flag 0x0008
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)  # a line of the text, which would look like the next e-mail


def is_mailbox(path: Path, *, named: bool) -> bool:
    """Return whether a file begins as a mailbox does.

    If the file is not ``named`` as one, as those of Thunderbird are not, the headers of an e-mail must follow.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(_BEGINNING)) != _BEGINNING:
                return False
            return named or _begins_as_letter(file.read(_BEGINNING_BYTES).partition(b"\n")[2])
    except OSError:
        return False


def _begins_as_letter(data: bytes) -> bool:
    message = BytesHeaderParser(policy=policy.default).parsebytes(data)
    assert isinstance(message, EmailMessage)
    return bool(_HEADER.match(data)) and is_letter(message)


def read_mailbox(path: Path, name: str, prefix: str, version: int) -> Iterator[Read]:
    """Yield the e-mails of a mailbox; ``name`` is its name in failures, and ``prefix`` comes before the ids.

    The id of an e-mail is its Message-ID, or its number in the mailbox if it has none. The ids of further e-mails with
    the same Message-ID end with "#2", "#3" and so on. E-mails that Thunderbird has marked as deleted are left out; they
    stay in the file until Thunderbird compacts the folder.
    """
    seen: Counter[str] = Counter()
    shown = printable(name)
    try:
        before = path.stat()
        for number, data in enumerate(_letters(path), 1):
            if not _DELETED.search(_END_OF_HEADERS.split(data, 1)[0]):
                yield Read(_read(data, (name, number), prefix, version, seen), len(data))
        if not is_unchanged(before, path.stat()):
            yield Read(hiding(shown, CHANGED, prefix), 0)
    except OSError as error:
        yield Read(unreadable(name, error, prefix), 0)
    except mailbox.Error:
        yield Read(hiding(shown, CHANGED, prefix), 0)


def count_letters(path: Path) -> int:
    """Estimate the number of e-mails; 0 for an unreadable file."""
    try:
        with closing(mailbox.mbox(path, create=False)) as box:
            return len(box)
    except (OSError, mailbox.Error):
        return 0


def _read(data: bytes, place: tuple[str, int], prefix: str, version: int, seen: Counter[str]) -> Document | Failure:
    name, number = place
    try:
        letter = read_mail(data, version)
        identity = prefix + letter.id if letter.id else f"{name}/{number}"
        seen[identity] += 1
        if seen[identity] > 1:
            identity = f"{identity}#{seen[identity]}"
        return or_empty(as_document(document_of_mail(letter, identity, name), number))
    except Exception as error:  # a bad e-mail does not stop the others
        where = f"{printable(name)}, e-mail {number}"
        return hiding(where, reason_of(error, where), prefix)


def _letters(path: Path) -> Iterator[bytes]:
    """Yield the e-mails, without the lines between them.

    Some programs do not quote a line of a text that begins with "From ", which then looks like the next e-mail. An
    e-mail therefore begins only where a header follows such a line.
    """
    pieces: list[bytes] = []
    with closing(mailbox.mbox(path, create=False)) as box:
        for key in box.iterkeys():
            line, _, data = box.get_bytes(key, from_=True).partition(b"\n")
            if any(pieces) and not _HEADER.match(data):
                pieces += [line, data]
                continue
            if letter := b"\n".join(pieces):
                yield _QUOTED.sub(rb"\1", letter)
            pieces = [data]
    if letter := b"\n".join(pieces):
        yield _QUOTED.sub(rb"\1", letter)
