"""Encodings of web pages whose bytes fit neither Unicode nor a stated encoding, as Beautiful Soup tries them.

Beautiful Soup guesses by charset-normalizer only if chardet is not installed.
"""

from __future__ import annotations

from collections.abc import Collection

from twinvec.support.extras import import_extra


def encodings_of_page(data: bytes, wrong: Collection[str] = ()) -> list[str]:
    """Return the encodings that a page may have, the likeliest first; those in ``wrong`` are left out."""
    from charset_normalizer import detect

    dammit = import_extra("bs4.dammit", "documents", "reading web pages", "twinvec-qdrant")
    detector = dammit.EncodingDetector(data, is_html=True, exclude_encodings=wrong)
    detector.chardet_encoding = detect(detector.markup)["encoding"] or "utf-8"
    return list(detector.encodings)


def encoding_of_page(data: bytes, given: str | None) -> str | None:
    """Return the encoding in which Beautiful Soup reads a page that may be in the ``given`` one; None if none fits."""
    try:
        if given is not None:
            data.decode(given)
            return given
    except (LookupError, ValueError):
        pass
    dammit = import_extra("bs4.dammit", "documents", "reading web pages", "twinvec-qdrant")
    known = [*([] if given is None else [given]), *encodings_of_page(data)]
    return dammit.UnicodeDammit(data, known, is_html=True).original_encoding  # type: ignore[no-any-return]
