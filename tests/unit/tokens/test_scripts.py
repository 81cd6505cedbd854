"""Scripts that a vocabulary only spells."""

from __future__ import annotations

import pytest

from twinvec import Encoder
from twinvec.tokens.scripts import LEAST_HAN, LEAST_PIECES, letters_by_script, spelled_scripts

TEXTS = {
    "Japanese": "図書館は朝九時から夜八時まで開いています。",
    "Korean": "도서관은 아침 아홉 시부터 저녁 여덟 시까지 엽니다.",
    "Chinese": "图书馆的开放时间是早上九点到晚上八点。",
    "Thai": "ห้องสมุดเปิดตั้งแต่เก้าโมงเช้า",
    "Arabic": "تفتح المكتبة أبوابها من التاسعة صباحا",
    "Hebrew": "הספרייה פתוחה מתשע בבוקר",
    "Russian": "Библиотека открыта с девяти утра.",
    "Greek": "Η βιβλιοθήκη ανοίγει στις εννέα.",
    "Hindi": "पुस्तकालय सुबह नौ बजे खुलता है।",
    "Georgian": "ბიბლიოთეკა დილის ცხრა საათზე იხსნება",
}


@pytest.fixture(scope="module")
def tokenizer():
    return Encoder("default").tokenizer


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_an_english_vocabulary_knows_the_words_of_no_other_script(tokenizer, text):
    (tokens, unknown) = tokenizer.count_unknown([text])[0]
    assert tokens == tokenizer.count([text])[0]
    assert len(text) // 2 < unknown <= len(text)


@pytest.mark.parametrize("text", ["the α of Köln", "Heute ist das Wetter schön.", "thời tiết rất đẹp", "¼ µm ª ② 🎉"])
def test_letters_among_latin_words_do_not_make_a_text_unknown(tokenizer, text):
    assert 2 * tokenizer.count_unknown([text])[0][1] <= len(text.replace(" ", ""))


def test_a_vocabulary_with_pieces_of_words_knows_the_script():
    letters = "абвгдежзийклмнопрстуфхцчшщ"
    single = [*letters, *(f"##{each}" for each in letters)]
    pieces = [a + b for a in letters for b in letters][:LEAST_PIECES]
    assert "CYRILLIC" in spelled_scripts([*single, *pieces[1:], pieces[1]])
    assert "CYRILLIC" not in spelled_scripts([*single, *pieces])
    han = [chr(0x4E00 + place) for place in range(LEAST_HAN)]
    assert "CJK" in spelled_scripts([*han[1:], f"##{han[1]}"])
    assert "CJK" not in spelled_scripts(han)
    assert "LATIN" not in spelled_scripts([])


def test_letters_are_counted_with_their_marks():
    assert letters_by_script("a я\u0301 ё, 5 ไทย ที่ 한국 글") == {"CYRILLIC": 2, "THAI": 6, "HANGUL": 3}
    assert not letters_by_script("plain, 5")
