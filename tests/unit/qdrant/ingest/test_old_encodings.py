"""Texts in the encodings that were in use before Unicode."""

from __future__ import annotations

import random
from contextlib import suppress

import chardet
import pytest

from twinvec.errors import DocumentError
from twinvec_qdrant import read_source
from twinvec_qdrant.ingest.reading import decoding
from twinvec_qdrant.ingest.reading.converting import convert

GERMAN_LETTER = (
    "Sehr geehrter Herr Müller,\n\nfür die Überweisung der Gebühren bedanken wir uns. Die Unterlagen über das Gelände "
    "in Köln schicken wir Ihnen nächste Woche. Größere Änderungen möchten wir mündlich erklären.\n"
)
FRENCH_LETTER = (
    "Monsieur,\n\nNous avons bien reçu votre règlement du mois de février et vous en remercions. La réunion prévue à "
    "la mairie aura lieu après les fêtes, elle sera dirigée par le président de la société.\n"
)
POLISH_LETTER = (
    "Szanowny Panie,\n\ndziękujemy za wpłatę. Dokumenty dotyczące działki w Łodzi prześlemy w przyszłym tygodniu. "
    "Większe zmiany chcielibyśmy wyjaśnić ustnie, ponieważ część z nich jest już nieważna.\n"
)
RUSSIAN_LETTER = (
    "Уважаемый господин Иванов!\n\nБлагодарим Вас за оплату счёта. Документы на участок мы отправим на следующей "
    "неделе. Крупные изменения мы хотели бы объяснить устно.\n"
)
OLD_TEXTS = [
    *((GERMAN_LETTER, encoding) for encoding in ("cp1252", "cp437", "cp850", "mac_roman")),
    *((FRENCH_LETTER, encoding) for encoding in ("cp1252", "cp437", "cp850", "mac_roman")),
    *((POLISH_LETTER, encoding) for encoding in ("cp1250", "cp852", "iso8859_2", "mac_latin2")),
    *((RUSSIAN_LETTER, encoding) for encoding in ("cp1251", "cp866", "iso8859_5", "koi8_r", "mac_cyrillic")),
    ("拝啓　先日はお支払いをいただき、ありがとうございました。書類は来週お送りします。\n", "cp932"),
    ("尊敬的先生：感谢您的付款。有关土地的文件我们将在下周寄出。重要的变更我们希望当面说明。\n", "gb18030"),
    ("敬啟者：感謝您的付款。有關土地的文件我們將在下週寄出。重要的變更我們希望當面說明。\n", "big5"),
    ("Sayın Yılmaz,\n\nödemeniz için teşekkür ederiz. Belgeleri gelecek hafta göndereceğiz.\n", "cp1254"),
]


@pytest.mark.parametrize(("text", "encoding"), OLD_TEXTS)
def test_a_letter_in_an_old_encoding_is_read(text, encoding, tmp_path):
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    table = f'id;text\n1;"{text}"\n'
    (tmp_path / "b.csv").write_bytes(table.encode(encoding))
    letter, row = read_source(tmp_path)
    assert letter.text == text
    assert letter.payload["encoding"]
    assert row.text == text


def test_a_page_that_states_no_encoding_is_read_in_the_likeliest():
    page = f"<html><h1>Ein Brief</h1><p>{GERMAN_LETTER}</p></html>".encode("cp850")
    assert GERMAN_LETTER.split("\n")[-2] in convert(page, ".html")


def test_few_signs_in_english_are_taken_for_the_most_usual_encoding():
    lines = "The price list of the shop is below.\n" * 40
    text = (
        f"{lines}© 2004 The Tea Shop, all rights reserved — prices in €\n{lines}“Sencha” costs 5 €, Müller’s tea 6 €\n"
    )
    assert decoding.decode(text.encode("cp1252")) == (text, "cp1252")


def test_bytes_that_resemble_no_language_are_refused():
    noise = bytes(each for each in random.Random(1).randbytes(4_000) if each > 31)
    with pytest.raises(DocumentError, match="not text in a known encoding"):
        decoding.decode(noise)


def test_a_text_in_two_encodings_is_in_the_one_of_most_characters():
    text = "Signed off by Rogério Brito\nSigned off by Reimar Döffinger\nCafé, déjà vu\n"
    mixed = text.encode() + "Köln\n".encode("cp1252")
    assert decoding.decode(mixed) == (f"{text}K\ufffdln\n", "utf-8")
    with suppress(DocumentError):  # older collections guess or fail, as the version of charset-normalizer decides
        assert decoding.decode(mixed, 8)[1] != "utf-8"


@pytest.mark.parametrize("version", range(1, 9))
def test_older_versions_guess_the_encoding_of_a_page_by_charset_normalizer(version, monkeypatch):
    """Beautiful Soup would guess by chardet as soon as it is installed, and change what was read."""
    page = f"<html><body><h1>Brief</h1><p>{POLISH_LETTER}</p></body></html>".encode("iso8859_2")
    monkeypatch.setattr("bs4.dammit.chardet_module", None)
    alone = convert(page, ".html", version)
    monkeypatch.setattr("bs4.dammit.chardet_module", chardet)
    assert convert(page, ".html", version) == alone
    assert "dziękujemy" in alone
