"""Code: cuts a source file into sections, one for each function and class, with the enclosing names as heading path.

tree-sitter parses the file, with one grammar package for each language (extra ``code``). A definition that fits into a
chunk is one section, with the comments before it. In a larger definition, each definition inside is a section.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

from twinvec.errors import EngineError
from twinvec.retrieval.documents import Document
from twinvec.support.checks import check_choice, check_settings
from twinvec.support.extras import import_extra
from twinvec_qdrant.settings import ChunkSettings

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_CHARACTERS = 1_000_000
"""Longest code that is parsed into sections. Longer code is mostly generated; it becomes one section."""

_DEEPEST = 20  # number of levels of nested definitions that become sections
_LONGEST_NAME = 80  # characters of a definition's name
_CLOSING = re.compile(r"(?:[\W_]|\b(?:end|endif|fi|done|esac)\b)*")


class _Language(NamedTuple):
    """A language: its grammar's module, its files' endings, its types of definition nodes, its grammar's function."""

    module: str
    suffixes: tuple[str, ...]
    definitions: frozenset[str]
    function: str = "language"


_SCRIPT = frozenset(
    {
        *("function_declaration", "generator_function_declaration", "class_declaration", "method_definition"),
        *("abstract_class_declaration", "interface_declaration", "enum_declaration", "type_alias_declaration"),
        *("internal_module", "module", "lexical_declaration", "variable_declaration"),
    }
)
_C = frozenset({"function_definition", "struct_specifier", "union_specifier", "enum_specifier"})
_TYPES = frozenset({"class_declaration", "interface_declaration", "enum_declaration", "record_declaration"})

LANGUAGES = {
    "bash": _Language("bash", (".bash", ".sh"), frozenset({"function_definition"})),
    "c": _Language("c", (".c",), _C),
    "c-sharp": _Language(
        "c_sharp",
        (".cs",),
        _TYPES
        | {"method_declaration", "constructor_declaration", "struct_declaration"}
        | {"namespace_declaration", "property_declaration", "delegate_declaration"},
    ),
    "cpp": _Language(
        "cpp", (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"), _C | {"class_specifier", "namespace_definition"}
    ),
    "go": _Language("go", (".go",), frozenset({"function_declaration", "method_declaration", "type_declaration"})),
    "java": _Language(
        "java", (".java",), _TYPES | {"method_declaration", "constructor_declaration", "annotation_type_declaration"}
    ),
    "javascript": _Language("javascript", (".cjs", ".js", ".jsx", ".mjs"), _SCRIPT),
    "php": _Language(
        "php",
        (".php",),
        _TYPES | {"trait_declaration", "function_definition", "method_declaration", "namespace_definition"},
        "language_php",
    ),
    "python": _Language("python", (".py", ".pyi"), frozenset({"function_definition", "class_definition"})),
    "ruby": _Language("ruby", (".rb",), frozenset({"module", "class", "method", "singleton_method"})),
    "rust": _Language(
        "rust",
        (".rs",),
        frozenset({"function_item", "struct_item", "enum_item", "union_item", "trait_item", "impl_item"})
        | {"mod_item", "macro_definition"},
    ),
    "tsx": _Language("typescript", (".tsx",), _SCRIPT, "language_tsx"),
    "typescript": _Language("typescript", (".cts", ".mts", ".ts"), _SCRIPT, "language_typescript"),
}

_BY_SUFFIX = {suffix: name for name, language in LANGUAGES.items() for suffix in language.suffixes}
_WRAPPERS = frozenset(
    {"decorated_definition", "export_statement", "ambient_declaration", "template_declaration", "type_definition"}
)
_VALUES = frozenset({"arrow_function", "function_expression", "generator_function", "class"})
_MODIFIERS = frozenset(
    {
        *("modifiers", "modifier", "attribute_list", "visibility_modifier", "accessibility_modifier", "decorator"),
        *("storage_class_specifier", "abstract_modifier", "final_modifier", "static_modifier", "readonly_modifier"),
    }
)
# the declarations inside these nodes have names; the nodes have none
_LISTS = frozenset({"lexical_declaration", "variable_declaration", "type_declaration"})
_WITH_BODY = frozenset({"struct_specifier", "union_specifier", "enum_specifier", "class_specifier"})


def language_of(name: str) -> str | None:
    """Return the language of a file by the ending of its name; None if it is not code in a known language."""
    return None if "://" in name else _BY_SUFFIX.get(PurePosixPath(name).suffix.lower())


def code_language(document: Document) -> str | None:
    """Return the language of a document's code, by its path or else its id; None if it is not code."""
    return None if document.payload.get("format") in ("markdown", "rst") else language_of(code_name(document))


def code_name(document: Document) -> str:
    """Return the name of a document's file: the path in the payload, or else the id."""
    path = document.payload.get("path")
    return path if isinstance(path, str) else document.id


def installed_languages() -> tuple[str, ...]:
    """Return the languages whose grammars are installed, sorted."""
    if find_spec("tree_sitter") is None:
        return ()
    return tuple(name for name, each in LANGUAGES.items() if find_spec(f"tree_sitter_{each.module}") is not None)


def checked_chunking(value: ChunkSettings | Literal[False] | None) -> ChunkSettings | None:
    """Return the chunk settings of a caller; raise ConfigurationError for another type or an unknown language.

    Recorded settings are not checked, because a newer version of twinvec may know more languages.
    """
    if value is False:
        return ChunkSettings(enabled=False)
    check_settings(value, ChunkSettings, "chunking")
    for language in () if value is None else value.code or ():
        check_choice(language, LANGUAGES, "code: the language")
    return value


@cache
def grammar(name: str) -> object:
    """Return the grammar of a language, for semantic-text-splitter and tree-sitter.

    Raises:
        MissingExtraError: the grammar's package is missing.
        EngineError: the language is unknown; a later version of twinvec may know it.
    """
    if name not in LANGUAGES:
        raise EngineError(f"code in the language {name!r} cannot be cut; expected one of {', '.join(LANGUAGES)}")
    language = LANGUAGES[name]
    purpose = f"cutting {name} code at functions and classes, as this collection does,"
    import_extra("tree_sitter", "code", purpose, "twinvec-qdrant")
    module = import_extra(f"tree_sitter_{language.module}", "code", purpose, "twinvec-qdrant")
    found: object = getattr(module, language.function)()
    return found


def code_sections(
    text: str, language: str, file: Sequence[str], fits: Callable[[Sequence[str], str], bool]
) -> list[tuple[list[str], str]]:
    """Return the heading path and the body of every section, in order; ``file`` is the heading path of the whole file.

    ``fits`` says whether a body fits into one chunk below a heading path.
    """
    if len(text) > MAX_CHARACTERS or fits(file, text):
        return [(list(file), text)]
    return _Sections(text, language, fits).of_file(list(file))


class _Definition(NamedTuple):
    """A function or class: where it starts (with its comments) and ends, its name, and its node."""

    start: int
    end: int
    name: str
    node: Node


class _Sections:
    def __init__(self, text: str, language: str, fits: Callable[[Sequence[str], str], bool]) -> None:
        from tree_sitter import Language, Parser

        self._data = text.encode()
        self._types = LANGUAGES[language].definitions
        self._fits = fits
        self._root = Parser(Language(grammar(language))).parse(self._data).root_node
        self._found: list[tuple[list[str], str]] = []

    def of_file(self, path: list[str]) -> list[tuple[list[str], str]]:
        self._add_below(self._root, 0, len(self._data), path)
        return self._found

    def _add_below(self, node: Node, start: int, end: int, path: list[str], depth: int = 0) -> bool:
        """Add the sections of a node; if it has no definitions inside, add nothing and return False."""
        definitions = list(self._definitions(node))
        if not definitions and depth:
            return False
        for each in definitions:
            self._add(path, start, each.start)
            own, body = [*path, each.name], self._text(each.start, each.end)
            whole = self._fits(own, body) or depth == _DEEPEST
            if whole or not self._add_below(each.node, each.start, each.end, own, depth + 1):
                self._found.append((own, body))
            start = each.end
        self._add(path, start, end)
        return True

    def _add(self, path: list[str], start: int, end: int) -> None:
        """Add the text between two definitions; closing brackets belong to the section before."""
        text = self._text(start, end)
        if not text.strip():
            return
        if not self._found or not _CLOSING.fullmatch(text):
            self._found.append((path, text))
        else:
            before, body = self._found[-1]
            self._found[-1] = (before, body + text)

    def _definitions(self, node: Node) -> Iterator[_Definition]:
        """Yield the outermost definitions inside a node, in order."""
        left = list(reversed(node.named_children))
        last = 0
        while left:
            each = left.pop()
            defined = self._defined(each)
            if defined is None:
                left += reversed(each.named_children)
                continue
            start, end = max(self._start(each), last), self._line_end(each.end_byte)
            if start < end:
                yield _Definition(start, end, self._name(defined), defined)
                last = end

    def _defined(self, node: Node) -> Node | None:
        """Return the node if it is a definition, or the definition inside a wrapper such as a decorator; else None."""
        if node.type in _WRAPPERS:
            inner = (self._defined(child) for child in node.named_children)
            return next((each for each in inner if each is not None), None)
        if node.type not in self._types or (node.type in _WITH_BODY and node.child_by_field_name("body") is None):
            return None
        if node.type in ("lexical_declaration", "variable_declaration"):
            values = [child.child_by_field_name("value") for child in node.named_children]
            if not any(value is not None and value.type in _VALUES for value in values):
                return None
        return node if self._name(node) else None

    def _start(self, node: Node) -> int:
        """Return where a definition starts, with the comments and attributes before it and the indentation."""
        first = node
        while (before := first.prev_sibling) is not None:
            is_note = "comment" in before.type or before.type == "attribute_item"
            ahead = before.prev_sibling
            shares_line = ahead is not None and ahead.end_point.row == before.start_point.row and ahead.end_point.column
            if not is_note or shares_line or first.start_point.row - before.end_point.row > 1:
                break
            first = before
        line = self._data.rfind(b"\n", 0, first.start_byte) + 1
        return line if not self._data[line : first.start_byte].strip() else first.start_byte

    def _line_end(self, end: int) -> int:
        """Return the end of the line if only punctuation follows on it, otherwise ``end``."""
        line = self._data.find(b"\n", end)
        line = len(self._data) if line < 0 else line + 1
        rest = self._data[end:line]
        return end if any(chr(each).isalnum() or each > 127 for each in rest) else line

    def _name(self, node: Node) -> str:
        """Return the name of a definition with its keyword: "class Server", "def start", "impl Display for Url"."""
        end = _name_end(node)
        if end is None:
            return ""
        first = next((each for each in node.children if each.type not in _MODIFIERS), node)
        return " ".join(self._text(first.start_byte, end).split())[:_LONGEST_NAME].rstrip()

    def _text(self, start: int, end: int) -> str:
        return self._data[start:end].decode()


def _name_end(node: Node) -> int | None:
    """Return where the name of a definition ends; None if it has no name."""
    if node.type == "impl_item":
        body = node.child_by_field_name("body")
        return node.end_byte if body is None else body.start_byte
    named = node.child_by_field_name("name")
    if named is None and node.type in _LISTS:
        named = next((name for each in node.named_children if (name := each.child_by_field_name("name"))), None)
    if named is not None:
        return named.end_byte
    inner = node
    while (deeper := inner.child_by_field_name("declarator")) is not None:
        inner = deeper
    return None if inner is node else inner.end_byte
