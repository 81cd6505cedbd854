"""Parts: a letter -> the texts that a mail program shows one after the other.

Of several alternatives, one is shown: the plain text, or else the HTML. The event of an invitation follows, without a
description that the text repeats. Texts between and after attachments follow, and so do short text files that the
sender wants to be shown. A forwarded letter is shown with its subject, sender and date.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from email.message import EmailMessage, MIMEPart
from functools import cached_property
from typing import NamedTuple

from twinvec.interrupts import raise_of_handler
from twinvec_qdrant.ingest.reading.decoding import check_not_binary, decode, decode_as_stated, without_escapes
from twinvec_qdrant.ingest.reading.letters.invitations import events_text

HTML = "text/html"

_PLAIN, _CALENDAR, _LETTER = "text/plain", "text/calendar", "message/rfc822"
_ALTERNATIVE, _RELATED = "multipart/alternative", "multipart/related"
_LONGEST_FILE = 256 * 1024  # characters of a file that is shown in the text
_HEADERS = ("from", "to", "date", "message-id")
_FORWARDED = ("subject", "from", "date")


class ShownText(NamedTuple):
    """A text of a letter, and whether it is HTML."""

    text: str
    is_html: bool = False


class _Part:
    """A part that can be shown. ``texts`` decodes it when first used, and then sets ``error`` if this fails."""

    def __init__(self, part: MIMEPart) -> None:
        self.part = part
        self.kind = part.get_content_type()
        self.error: Exception | None = None

    @property
    def is_only_attached(self) -> bool:
        """Whether the part is a file that mail programs offer to open, and do not show."""
        if self.kind in (_CALENDAR, _LETTER) or not self.part.get_filename():
            return False
        is_long = sum(len(each.text) for each in self.texts) > _LONGEST_FILE
        return self.part.get_content_disposition() != "inline" or is_long

    @cached_property
    def texts(self) -> list[ShownText]:
        """What is shown of the part, without blank texts."""
        try:
            return [each for each in self._decoded() if each.text.strip()]
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # the parser raises many types for odd parts, and one part does not hide the others
            raise_of_handler(error)
            self.error = error
            return []

    def event(self, told: str) -> str:
        """Return the events of an invitation; ``told`` is the text of the letter."""
        return events_text(self.texts[0].text, told) if self.kind == _CALENDAR and self.texts else ""

    def _decoded(self) -> list[ShownText]:
        if self.kind == _LETTER:
            return _forwarded(self.part)
        text = text_of(self.part, 5)
        if self.kind == HTML:
            return [ShownText(text, is_html=True)]
        return [ShownText(without_escapes(text))]


def is_letter(message: EmailMessage) -> bool:
    """Return whether a message has one of the headers that letters have."""
    return any(name in message for name in _HEADERS)


def header(message: EmailMessage, name: str) -> str:
    """Return a header in one line; "" if it is missing or cannot be parsed."""
    try:
        text = str(message.get(name) or "")
    except Exception as error:  # the parser raises many types for odd letters
        raise_of_handler(error)
        return ""
    return " ".join(text.split()).encode("utf-8", "replace").decode()


def shown_texts(message: EmailMessage) -> list[ShownText]:
    """Return the texts that a mail program shows of a letter, as reading versions from 5 on do.

    Raises:
        Exception: a part cannot be decoded, and no other part has text.
    """
    parts = _shown(message)
    left = [each for row, each in enumerate(parts) if row == 0 or not each.is_only_attached]
    texts = [text for each in left if each.kind != _CALENDAR for text in each.texts]
    told = " ".join(" ".join(each.text for each in texts).split())
    texts += [ShownText(event) for each in left if (event := each.event(told))]
    error = next((each.error for each in left if each.error is not None), None)
    if error is not None and not texts:
        raise error
    return texts


def attachment_names(part: MIMEPart) -> Iterator[str]:
    """Yield the names of the files in a letter and in the letters that it forwards, but of no pictures in the text."""
    inner = part.get_payload() if part.is_multipart() else []
    for row, each in enumerate(inner if isinstance(inner, list) else []):
        assert isinstance(each, MIMEPart)
        if part.get_content_type() == _RELATED and row and not each.is_attachment():
            continue
        if name := each.get_filename():
            yield name
        yield from attachment_names(each)


def text_of(part: MIMEPart, version: int) -> str:
    """Return the decoded text of a part, with line ends \\n; errors as for ``decode``."""
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    stated = part.get_content_charset()
    try:
        text = decode_as_stated(data, stated or "") if version > 4 else data.decode(stated or "ascii")
    except (LookupError, UnicodeDecodeError):  # the stated encoding is wrong
        text = None
    text = decode(data, version)[0] if text is None else text
    if version > 4:
        check_not_binary(text)
    return text.replace("\r\n", "\n")


def _shown(part: MIMEPart) -> list[_Part]:
    """Return a part that can be shown, or those of its inner parts that can be shown, in order."""
    kind = part.get_content_type()
    if kind == _LETTER:
        return [_Part(part)]
    if part.is_attachment():
        return []
    if kind in (_PLAIN, HTML, _CALENDAR):
        return [_Part(part)]
    inner = list(_inner(part, kind))
    if kind == _ALTERNATIVE:
        return _chosen(inner)
    return [each for parts in inner for each in parts]


def _inner(part: MIMEPart, kind: str) -> Iterator[list[_Part]]:
    """Yield ``_shown`` of each part inside a part; of related parts, only of the main part."""
    if not (kind.startswith("multipart/") and part.is_multipart()):
        return
    parts = list(part.iter_parts())
    if kind == _RELATED:
        root = part.get_param("start")
        parts = [each for each in parts if root and each["content-id"] == root][:1] or parts[:1]
    yield from map(_shown, parts)


def _chosen(alternatives: Sequence[list[_Part]]) -> list[_Part]:
    """Return the parts of the alternative that is shown, and then the invitations of the other alternatives."""
    for kind in (_PLAIN, HTML, _CALENDAR, _LETTER):
        for parts in alternatives:
            if any(each.kind == kind and each.texts for each in parts):
                events = (each for others in alternatives if others is not parts for each in others)
                return [*parts, *(each for each in events if each.kind == _CALENDAR)]
    return alternatives[0] if alternatives else []


def _forwarded(part: MIMEPart) -> list[ShownText]:
    """Return the texts of a forwarded letter, with its headers before them."""
    letters = part.get_payload()
    message = letters[0] if isinstance(letters, list) and letters else None
    if not isinstance(message, EmailMessage) or not is_letter(message):
        return []
    lines = [f"{name.capitalize()}: {value}" for name in _FORWARDED if (value := header(message, name))]
    return [ShownText("\n".join(lines)), *shown_texts(message)]
