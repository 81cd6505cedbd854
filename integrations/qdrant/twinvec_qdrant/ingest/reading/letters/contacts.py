"""Contacts: an address book (vCard, versions 2.1 to 4.0) -> Markdown with a heading for each contact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twinvec.support.extras import import_extra

_NAMES = {  # property -> its name in the text; all others are left out
    "NICKNAME": "Nickname",
    "ORG": "Organisation",
    "TITLE": "Title",
    "ROLE": "Role",
    "EMAIL": "E-mail",
    "TEL": "Telephone",
    "ADR": "Address",
    "URL": "Web",
    "BDAY": "Birthday",
    "ANNIVERSARY": "Anniversary",
    "CATEGORIES": "Categories",
    "NOTE": "Note",
}


def markdown_of_contacts(text: str) -> str:
    """Return the contacts of an address book; "" if it has none that can be read.

    Raises:
        MissingExtraError: vobject is missing.
    """
    package = import_extra("vobject", "documents", "reading .vcf files", "twinvec-qdrant")
    try:
        cards = list(package.readComponents(text, ignoreUnreadable=True, allowQP=True))
        return "\n\n".join(filter(None, map(_contact, cards)))
    except Exception:  # vobject raises many types for broken address books, which then are texts
        return ""


def _contact(card: Any) -> str:
    if card.name != "VCARD":
        return ""
    name = next((value for each in ("fn", "n") for value in _values(card, each)), "")
    facts = [f"{shown}: {value}" for kind, shown in _NAMES.items() for value in _values(card, kind.lower())]
    return "\n\n".join(filter(None, [f"# {name}" if name else "", "\n".join(facts)]))


def _values(card: Any, kind: str) -> Iterator[str]:
    """Yield the values of a property in one line each."""
    for line in card.contents.get(kind, ()):
        value = ", ".join(map(str, line.value)) if isinstance(line.value, list) else str(line.value)
        if shown := " ".join(value.removeprefix("tel:").removeprefix("mailto:").split()).strip(" ,"):
            yield shown
