"""E-mail: a message (.eml, RFC 5322) -> its subject, body, sender, recipients and date."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from twinvec.errors import DocumentError, TwinvecError
from twinvec_qdrant.ingest.reading.converting import convert
from twinvec_qdrant.ingest.reading.decoding import (
    check_not_binary,
    check_not_compressed,
    decode,
    decode_as_stated,
    without_escapes,
)
from twinvec_qdrant.ingest.reading.results import one_line
from twinvec_qdrant.settings import NEWEST_READING

MAIL_SUFFIX = ".eml"

_HEADERS = ("from", "to", "date", "message-id")


class Letter(NamedTuple):
    """An e-mail: subject, body, whether the body is Markdown, and the payload."""

    subject: str
    body: str
    is_markdown: bool
    payload: dict[str, Any]


def read_mail(data: bytes, version: int = NEWEST_READING) -> Letter:
    """Return an e-mail, with ``from``, ``to``, ``cc``, ``date`` (ISO 8601) and ``attachments`` (names) as payload.

    The body is the plain text. If there is no plain text, the body is converted from HTML, which needs the extra
    ``documents``. From reading version 5 on, a blank plain text counts as missing.

    Raises:
        DocumentError: the data are not an e-mail, or a damaged one.
        MissingExtraError: the e-mail has only HTML, and markitdown is missing.
    """
    if version > 4:
        check_not_compressed(data)
    try:
        message = message_from_bytes(data, policy=policy.default)
        assert isinstance(message, EmailMessage)
        if not any(name in message for name in _HEADERS):
            raise DocumentError("not an e-mail: it does not begin with headers such as From, To, Date or Message-ID")
        part = message.get_body(("plain", "html"))
        body = "" if part is None else _text_of(part, version)
        if version > 4 and not body.strip() and (html := message.get_body(("html",))) is not None:
            part, body = html, _text_of(html, version)
        is_html = part is not None and part.get_content_type() == "text/html"
        attachments = [name for each in message.iter_attachments() if (name := each.get_filename())]
    except TwinvecError:
        raise
    except Exception as error:  # the parser raises many types for odd letters
        raise DocumentError(f"damaged e-mail: {one_line(error)}") from error
    if not is_html and version > 4:
        body = without_escapes(body)
    if is_html and body.strip():
        body = convert(body.encode("utf-8", "replace"), ".html", version)  # UTF-7 can give lone surrogates
    payload = _payload(message) | ({"attachments": attachments} if attachments else {})
    return Letter(_header(message, "subject"), body, is_html, payload)


def _text_of(part: MIMEPart, version: int) -> str:
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


def _payload(message: EmailMessage) -> dict[str, Any]:
    addresses = {name: _header(message, name) for name in ("from", "to", "cc")}
    payload: dict[str, Any] = {name: text for name, text in addresses.items() if text}
    if date := _header(message, "date"):
        try:
            payload["date"] = parsedate_to_datetime(date).isoformat()
        except (TypeError, ValueError, IndexError, OverflowError):
            payload["date"] = date
    return payload


def _header(message: EmailMessage, name: str) -> str:
    """Return a header in one line; "" if it is missing or cannot be parsed."""
    try:
        text = str(message.get(name) or "")
    except Exception:  # as in ``read_mail``
        return ""
    return " ".join(text.split()).encode("utf-8", "replace").decode()
