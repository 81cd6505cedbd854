"""Texts unlike those that an export is calibrated on: repeated tokens, lists of digits, code, and other scripts.

int8 loses most on these texts, because their activations leave the calibrated ranges. Most texts exceed the token limit
of a model.
"""

from __future__ import annotations

UNUSUAL_TEXTS = (
    "x",
    "x " * 500,
    "the " * 500,
    "retrieval " * 400,
    "a" * 5000,
    "." * 1000,
    "- " * 500,
    "LOREM IPSUM DOLOR SIT AMET " * 60,
    " ".join(map(str, range(1000))),
    "0123456789" * 100,
    "1;2.5;3,7;;\n" * 200,
    "QmFzZTY0IGlzIGEgZ3JvdXAgb2YgYmluYXJ5LXRvLXRleHQ" * 20,
    "https://example.com/a/b?c=d&e=f " * 50,
    "def f(x): return {k: v**2 for k, v in x.items() if v is not None}\n" * 40,
    '{"a": [1, 2, 3], "b": {"c": null}}, ' * 60,
    "The library opens at nine in the morning and closes at eight in the evening. " * 200,
    "図書館は朝九時から夜八時まで開いています。" * 20,
    "도서관은 아침 아홉 시부터 저녁 여덟 시까지 엽니다. " * 20,
    "Библиотека открыта с девяти утра до восьми вечера. " * 20,
    "تفتح المكتبة أبوابها من التاسعة صباحا " * 20,
    "ห้องสมุดเปิดตั้งแต่เก้าโมงเช้า " * 20,
    "🎉 👩‍👩‍👧 " * 100,
)
