"""Mail: a letter (.eml, RFC 5322) -> its subject, its body, and who wrote it to whom and when."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage, MIMEPart
from typing import Any, NamedTuple

from twinvec.errors import DocumentError
from twinvec_qdrant.ingest.reading.converting import convert
from twinvec_qdrant.ingest.reading.decoding import decode

MAIL_SUFFIX = ".eml"

_HEADERS = ("from", "to", "date", "message-id")


class Letter(NamedTuple):
    """A letter: subject, body, whether the body is Markdown, and the payload."""

    subject: str
    body: str
    is_markdown: bool
    payload: dict[str, Any]


def read_mail(data: bytes) -> Letter:
    """Return a letter, with ``from``, ``to``, ``cc``, ``date`` (ISO 8601) and ``attachments`` (names) as payload.

    The body is the plain text, or else the HTML, which is converted and needs the extra ``documents``.

    Raises:
        DocumentError: not a letter.
        MissingExtraError: the letter has only HTML, and markitdown is missing.
    """
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    if not any(message.get(name) for name in _HEADERS):
        raise DocumentError("not a letter: no From, To, Date or Message-ID at its beginning")
    try:
        part = message.get_body(("plain", "html"))
        is_html = part is not None and part.get_content_type() == "text/html"
        body = "" if part is None else _text_of(part)
        if is_html and body.strip():
            body = convert(body.encode(), ".html")
        return Letter(_header(message, "subject"), body, is_html, _payload(message))
    except (MessageError, LookupError, ValueError, AttributeError) as error:  # what the parser raises for odd headers
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"a broken letter: {error}") from error


def _text_of(part: MIMEPart) -> str:
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    charset = part.get_content_charset()
    try:
        text = data.decode(charset or "ascii")
    except (LookupError, UnicodeDecodeError):  # the stated encoding is wrong
        text = decode(data)[0]
    return text.replace("\r\n", "\n")


def _payload(message: EmailMessage) -> dict[str, Any]:
    addresses = {name: _header(message, name) for name in ("from", "to", "cc")}
    date = getattr(message.get("date"), "datetime", None)
    attachments = list(_attachments(message))
    return {
        **{name: text for name, text in addresses.items() if text},
        **({"date": date.isoformat()} if date else {}),
        **({"attachments": attachments} if attachments else {}),
    }


def _attachments(message: EmailMessage) -> Iterator[str]:
    for part in message.iter_attachments():
        if name := part.get_filename():
            yield name


def _header(message: EmailMessage, name: str) -> str:
    return " ".join(str(message.get(name) or "").split()).encode("utf-8", "replace").decode()
