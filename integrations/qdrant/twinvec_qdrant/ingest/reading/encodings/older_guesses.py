"""Encodings that reading versions 1 to 8 guess by charset-normalizer.

If several encodings fit a short text equally well, the first one in ``IN_USE_OF_VERSION_8`` wins. From version 5 on, a
text that has only letters shared by the encodings of Western and Central Europe (Windows-1252 and -1250), at positions
usual in Western European words (``_WESTERN``), counts as Windows-1252 without a ranking.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_USUAL = "cp1252"

IN_USE_OF_VERSION_8 = (
    *(_USUAL, "cp1250", "iso8859_2", "cp1251", "koi8_r", "cp866", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
"""The encodings that these versions know."""

_SHARED = "ÁÂÄÇÉËÍÎÓÔÖÚÜßáâäçéëíîóôöúü"  # letters that are the same bytes in Windows-1250 and Windows-1252
_WESTERN = re.compile(
    rf"(?<![{_SHARED}])(?:"
    # one or two such letters in a word with ASCII letters
    rf"(?<=[A-Za-z])[{_SHARED}]{{1,2}}(?![{_SHARED}])|[{_SHARED}]{{1,2}}(?=[A-Za-z])"
    rf"|(?<![A-Za-z])[{_SHARED}](?![{_SHARED}]))"  # such a letter as a word of its own
    r"|[\xa0‘’‚“”„«»–—…•]|(?<![A-Za-z])[§©µ€£¼½¾](?![A-Za-z])|(?<=[\dnN\s])°|(?<=[\s\d])±(?=[\s\d])|^±(?=\d)"
    r"|(?<=[\dm])[²³]|[®™](?![A-Za-z])|(?<=[\s\d])µ(?=[A-Za-z])"
)


def guess_of_version_8(sample: bytes, candidates: Sequence[str], version: int) -> str | None:
    """Return the likeliest of these encodings; None if the lines resemble no text in any of them."""
    from charset_normalizer import from_bytes

    if version > 4 and _USUAL in candidates and _WESTERN.sub("", sample.decode(_USUAL)).isascii():
        return _USUAL
    matches = from_bytes(sample, cp_isolation=list(candidates), preemptive_behaviour=False)
    best = matches.best()
    if best is None:
        return None
    equal = [each for each in matches if (each.chaos, each.coherence) == (best.chaos, best.coherence)]
    names = {name for each in equal for name in each.could_be_from_charset}
    return next((name for name in candidates if name in names), best.encoding)
