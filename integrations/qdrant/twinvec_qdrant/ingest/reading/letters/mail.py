"""E-mail: a message (.eml, RFC 5322) -> its subject, body, sender, recipients and date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from twinvec.errors import DocumentError, TwinvecError
from twinvec.retrieval.documents import Document
from twinvec_qdrant.ingest.reading.converting import convert
from twinvec_qdrant.ingest.reading.decoding import check_not_compressed
from twinvec_qdrant.ingest.reading.letters.parts import (
    HTML,
    ShownText,
    attachment_names,
    header,
    is_letter,
    shown_texts,
    text_of,
)
from twinvec_qdrant.ingest.reading.results import one_line
from twinvec_qdrant.settings import NEWEST_READING

MAIL_SUFFIX = ".eml"


class Letter(NamedTuple):
    """An e-mail: subject, body, whether the body is Markdown, the payload, and the Message-ID without its brackets."""

    subject: str
    body: str
    is_markdown: bool
    payload: dict[str, Any]
    id: str


def read_mail(data: bytes, version: int = NEWEST_READING) -> Letter:
    """Return an e-mail, with ``from``, ``to``, ``cc``, ``date`` (ISO 8601) and ``attachments`` (names) as payload.

    The body is the plain text. If there is no plain text, the body is converted from HTML, which needs the extra
    ``documents``. From reading version 5 on, a blank plain text counts as missing, and the body consists of all texts
    that a mail program shows (``parts``).

    Raises:
        DocumentError: the data are not an e-mail, or a damaged one.
        MissingExtraError: the e-mail has only HTML, and markitdown is missing.
    """
    if version > 4:
        check_not_compressed(data)
    try:
        message = message_from_bytes(data, policy=policy.default)
        assert isinstance(message, EmailMessage)
        if not is_letter(message):
            raise DocumentError("not an e-mail: it does not begin with headers such as From, To, Date or Message-ID")
        texts = shown_texts(message) if version > 4 else _body(message, version)
        attachments = list(attachment_names(message) if version > 4 else _attachments(message))
    except TwinvecError:
        raise
    except Exception as error:  # the parser raises many types for unusual letters
        raise DocumentError(f"damaged e-mail: {one_line(error)}") from error
    payload = _payload(message) | ({"attachments": attachments} if attachments else {})
    is_markdown = any(each.is_html for each in texts)
    identity = header(message, "message-id").strip().strip("<>")
    return Letter(header(message, "subject"), _joined(texts, version), is_markdown, payload, identity)


def document_of_mail(letter: Letter, identity: str, path: str) -> Document:
    """Return the document of an e-mail, whose payload also has the ``path`` of its file and its ``format``."""
    own = {"path": path, "format": "markdown" if letter.is_markdown else "text"}
    return Document(identity, letter.body, letter.subject, letter.payload | own)


def _attachments(message: EmailMessage) -> Iterator[str]:
    """Yield the names of the files that are attached to the letter itself, for reading versions 1 to 4."""
    return (name for each in message.iter_attachments() if (name := each.get_filename()))


def _body(message: EmailMessage, version: int) -> list[ShownText]:
    """Return the only text that reading versions 1 to 4 read: the first plain text, or else the first HTML."""
    part = message.get_body(("plain", "html"))
    return [] if part is None else [ShownText(text_of(part, version), part.get_content_type() == HTML)]


def _joined(texts: Sequence[ShownText], version: int) -> str:
    """Join texts to one text, and convert HTML to Markdown."""
    parts = []
    for text, is_html in texts:
        # UTF-7 can give lone surrogates
        is_converted = is_html and text.strip()
        parts.append(convert(text.encode("utf-8", "replace"), ".html", version) if is_converted else text)
    return parts[0] if len(parts) == 1 else "\n\n".join(each.strip("\n") for each in parts if each.strip())


def _payload(message: EmailMessage) -> dict[str, Any]:
    addresses = {name: header(message, name) for name in ("from", "to", "cc")}
    payload: dict[str, Any] = {name: text for name, text in addresses.items() if text}
    if date := header(message, "date"):
        try:
            payload["date"] = parsedate_to_datetime(date).isoformat()
        except (TypeError, ValueError, IndexError, OverflowError):
            payload["date"] = date
    return payload
