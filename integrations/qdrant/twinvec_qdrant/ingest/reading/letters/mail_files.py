"""Files of e-mails by the names and formats of mail programs: of Apple Mail (.emlx), and of a Maildir."""

from __future__ import annotations

import re
from pathlib import PurePath

from twinvec.errors import DocumentError
from twinvec_qdrant.ingest.reading.letters.mail import MAIL_SUFFIX

APPLE_MAIL = ".emlx"
"""Ending of e-mails of Apple Mail; reading versions 1 to 8 read them as text."""

_MAILDIR = re.compile(  # the time, a number of the delivery, and the host, perhaps with flags such as ":2,S"
    r"(?:^|/)(?:cur|new)/\d{9,}\.[^/]+$|(?:^|/)\d{9,}\.[^/.]+\.[^/]+[:;!]2,[A-Za-z]*$"
)
_LONGEST_NUMBER = 12  # digits


def suffix_of(path: PurePath, version: int) -> str:
    """Return the ending of a file's name in lower case; from reading version 9 on, ".eml" for e-mails of a Maildir."""
    is_mail = version > 8 and _MAILDIR.search(path.as_posix())
    return MAIL_SUFFIX if is_mail else path.suffix.lower()


def mail_of_apple(data: bytes) -> bytes:
    """Return the e-mail in a file of Apple Mail: its length, the e-mail, and a property list.

    Raises:
        DocumentError: the file does not begin with a length.
    """
    length, _, rest = data.partition(b"\n")
    number = length.strip()
    if not number.isdigit() or len(number) > _LONGEST_NUMBER:
        raise DocumentError("not an e-mail of Apple Mail: it does not begin with the length of the e-mail")
    return rest[: int(number)]
