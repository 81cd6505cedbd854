"""Conversion by markitdown: a document, book, slides, notebook, Outlook message or web page -> Markdown.

markitdown has a converter for each format. twinvec calls the converter of the format that a file's name states.
markitdown's own entry point (``MarkItDown``) first guesses format and encoding by a neural network, which takes longer
than most conversions. Only older reading versions use it, for notebooks and web pages, with the encoding that it
guesses.
"""

from __future__ import annotations

import json
import re
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from twinvec.errors import MissingExtraError
from twinvec.interrupts import raise_of_handler
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec_qdrant.ingest.reading.encodings.page_encodings import encoding_of_page

if TYPE_CHECKING:
    from markitdown import DocumentConverter, MarkItDown

_PURPOSE = "reading {} files"
_CONVERTERS = {
    **dict.fromkeys((".htm", ".html"), "HtmlConverter"),
    ".docx": "DocxConverter",
    ".epub": "EpubConverter",
    ".ipynb": "IpynbConverter",
    ".msg": "OutlookMsgConverter",
    ".pdf": "PdfConverter",
    ".pptx": "PptxConverter",
}
_DECODED = (".htm", ".html", ".ipynb")  # files whose converter is told the encoding
_UNESCAPED = {"escape_asterisks": False, "escape_underscores": False}  # searches then find names such as a_b
_WITH_COMMENTS = {"style_map": "comment-reference => sup"}  # mammoth leaves comments out otherwise
_LINE_END = re.compile(r"\r?\n")
_BLANK_LINES = re.compile(r"\n{3,}")


def by_markitdown(data: bytes, suffix: str, version: int) -> str:
    """Return the Markdown of a file; ``suffix`` is the ending of its name.

    From reading version 2 on, a web page counts as UTF-8. From version 5 on, a notebook counts as JSON: UTF-8, or
    UTF-16 or UTF-32, which its first bytes show. From version 9 on, the comments of a Word document stand at its end.

    Raises the errors of ``load_markitdown`` and of the converter.
    """
    package = load_markitdown(suffix)
    options: dict[str, Any] = _UNESCAPED if version > 1 else {}
    if suffix == ".docx" and version > 8:
        options = _UNESCAPED | _WITH_COMMENTS
    is_guessed = version < (5 if suffix == ".ipynb" else 2) and suffix in _DECODED
    try:
        if is_guessed:
            info = package.StreamInfo(extension=suffix)
            return str(_guessing(suffix).convert_stream(BytesIO(data), stream_info=info, **options).markdown)
        encoding = json.detect_encoding(data) if suffix == ".ipynb" else "utf-8"
        info = package.StreamInfo(extension=suffix, charset=encoding if suffix in _DECODED else None)
        return _without_trailing_blanks(_converter(suffix, version).convert(BytesIO(data), info, **options).markdown)
    except Exception as error:
        raise_of_handler(first_reason(error))
        if isinstance(first_reason(error), package.MissingDependencyException):
            raise MissingExtraError("markitdown", "documents", _PURPOSE.format(suffix), "twinvec-qdrant") from error
        raise


def load_markitdown(suffix: str) -> Any:
    """Return the package ``markitdown``.

    Raises:
        MissingExtraError: markitdown, or another package that it needs for this format, is missing.
    """
    telemetry.switch_off()  # markitdown imports ONNX Runtime, which sends telemetry
    return import_extra("markitdown", "documents", _PURPOSE.format(suffix), "twinvec-qdrant")


def first_reason(error: BaseException) -> BaseException:
    """Return the error of the first converter that tried, instead of a list of all attempts."""
    attempts: list[Any] = getattr(error, "attempts", None) or []
    for attempt in attempts:
        if attempt.exc_info and attempt.exc_info[1] is not None:
            return _root(attempt.exc_info[1])
    return _root(error)


def _root(error: BaseException) -> BaseException:
    """Return the cause of an error whose own message is empty."""
    while not str(error).strip() and (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


@cache
def _guessing(suffix: str) -> MarkItDown:
    """Return markitdown's own entry point, with one converter only."""
    from markitdown import MarkItDown

    entry = MarkItDown(enable_builtins=False, enable_plugins=False)
    entry.register_converter(_converter(suffix, 1))
    return entry


def _converter(suffix: str, version: int) -> DocumentConverter:
    """Return the converter of a format; HTML inside a file of this format is read by ``_page_converter``."""
    from markitdown import converters

    if _CONVERTERS[suffix] == "HtmlConverter":
        return _page_converter()
    converter: Any = getattr(converters, _CONVERTERS[suffix])()
    if hasattr(converter, "_html_converter"):
        converter._html_converter = _page_converter()
    if hasattr(converter, "_convert_chart_to_markdown") and version > 8:
        table_of_chart = converter._convert_chart_to_markdown
        # blank lines end the table of a chart before the text behind it
        converter._convert_chart_to_markdown = lambda chart: f"{table_of_chart(chart)}\n\n"
    return converter  # type: ignore[no-any-return]


@cache
def _page_converter() -> DocumentConverter:
    """Return markitdown's HTML converter, changed for pages that are nested too deeply to convert.

    markitdown returns the plain text of such a page, and issues a Python warning. The changed converter returns the
    same text without the warning. A warning filter is no alternative, because it would affect the user's whole program.
    """
    from bs4 import BeautifulSoup
    from markitdown import DocumentConverterResult, StreamInfo
    from markitdown.converters import HtmlConverter

    class Pages(HtmlConverter):
        def convert(self, file_stream: Any, stream_info: StreamInfo, **kwargs: Any) -> DocumentConverterResult:
            data = file_stream.read()
            encoding = encoding_of_page(data, stream_info.charset or "utf-8")
            try:
                known = StreamInfo(extension=stream_info.extension, charset=encoding)
                return super().convert(BytesIO(data), known, strict=True, **kwargs)
            except RecursionError:
                page = BeautifulSoup(data, "html.parser", from_encoding=encoding)
                for unseen in page(["script", "style"]):
                    unseen.extract()
                return DocumentConverterResult(markdown=(page.body or page).get_text("\n", strip=True).strip())

    return Pages()


def _without_trailing_blanks(markdown: str) -> str:
    """Return Markdown without trailing blanks, and with at most one blank line in a row, as ``MarkItDown`` does."""
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in _LINE_END.split(markdown)))
