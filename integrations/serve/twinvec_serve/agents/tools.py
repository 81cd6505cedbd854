"""The tools for agents, with the descriptions by which a language model learns to use them.

Every answer is cut at a size. It names the parts that were left out, and how to get them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from itertools import islice
from typing import Annotated, Any, ParamSpec, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from twinvec.errors import CollectionNotFoundError, StoreBusyError, StoreError, StoreUnavailableError, TwinvecError
from twinvec.retrieval.base import Hit
from twinvec.retrieval.documents import Document
from twinvec_qdrant import Collection, CollectionHit, best_first
from twinvec_serve.agents.library import Shelf
from twinvec_serve.agents.results import CollectionInfo, Collections, Documents, DocumentText, Found, Search, SourceInfo
from twinvec_serve.agents.texts import LineRange, cut_text, lines_of, metadata_of, parse_place, passage_of, place_of
from twinvec_serve.errors import RequestError, error_for_client

P = ParamSpec("P")
T = TypeVar("T")

MAX_CHARS = 20_000
"""Characters of the texts in one answer: about 5,000 tokens."""

_PASSAGE_CHARS = 3_000
_MOST_QUERIES = 8
_MOST_RESULTS = 50
_MOST_IDS = 100
_MOST_DOCUMENTS = 50  # largest number in one answer; the fields of each document take some 300 characters
_MOST_KEYS = 50
_TITLE_CHARS = 300
_ID_CHARS = 300  # longer ids count as text
_SUGGESTIONS = 5

_FILTERED = (
    "Nothing was found with this filter. "
    "list_collections names the keys of each collection and the kind of their values."
)
_EMPTY = "There are no collections, so that nothing can be found. Tell the user: the path of the store may be wrong."

Query = Annotated[str, Field(min_length=1, max_length=4_000)]
OneCollection = Annotated[
    str | None, Field(max_length=4_000, description="Name of the collection; default: the one that has the document.")
]


def with_readable_errors(tool: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a tool so that its errors become messages for the language model; the log has the server's own errors."""

    @wraps(tool)
    async def run(*args: P.args, **options: P.kwargs) -> T:
        try:
            return await tool(*args, **options)
        except ToolError:
            raise
        except Exception as error:
            raise ToolError(error_for_client(error).message) from None

    return run


class _Failures:
    """Errors of the collections that one call could not read; the call reads the other collections all the same."""

    def __init__(self) -> None:
        self._errors: dict[str, Exception] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """In the block, note an error of this collection instead of raising it."""
        try:
            yield
        except (TwinvecError, RequestError) as error:
            self._errors[name] = error

    def raise_if_all(self, names: Sequence[str]) -> None:
        """Raise the first error if all of these collections have failed."""
        if self._errors and self._errors.keys() >= set(names):
            raise next(iter(self._errors.values()))

    def by_name(self) -> dict[str, str]:
        """Return the names of the collections with the messages of their errors."""
        return {name: error_for_client(error).message for name, error in self._errors.items()}

    def hint(self) -> str:
        """Return an error suffix such as ``; not read: mail (the store is busy)``, or "" if all were read."""
        told = ", ".join(f"{name} ({message})" for name, message in self.by_name().items())
        return f"; not read: {told}" if told else ""


class Tools:
    """The tools over the collections of one store."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def list_collections(self) -> Collections:
        """List the collections: what each holds, in its owner's words, and how many documents.

        Call this first to learn which collections can answer a question.
        """
        listed, failures = Collections(collections=[]), _Failures()
        for name in await self._shelf.names():
            with failures.of(name):
                async with self._opened(name) as opened:
                    listed.collections.append(_described(await asyncio.to_thread(opened.info)))
        listed.failed = failures.by_name()
        return listed

    async def search(
        self,
        queries: Annotated[
            list[Query],
            Field(
                min_length=1,
                max_length=_MOST_QUERIES,
                description="The question, as a sentence or in key words. Further entries are other phrasings of the "
                "same question (synonyms, another language, a sentence that the answer may contain): they find more.",
            ),
        ],
        collections: Annotated[
            list[str] | None, Field(min_length=1, description="Names of the collections to search; default: all.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=_MOST_RESULTS, description="Largest number of passages.")] = 8,
        min_relevance: Annotated[
            float | None,
            Field(
                ge=0,
                le=1,
                description="Leave out passages with a lower relevance. 0.5 keeps the passages that "
                "likely answer the question.",
            ),
        ] = None,
        filter: Annotated[
            dict[str, Any] | None,
            Field(
                description='Conditions on metadata, such as {"lang": "en"} or {"year": {"gte": 2020}}; '
                "list_collections names the keys."
            ),
        ] = None,
    ) -> Search:
        """Search by meaning and by words, and return the passages that answer, with their source, place and score.

        Give several phrasings of the question in one call rather than several calls. If a passage is not enough,
        get_document returns the lines around it. If nothing relevant is found, try other words, or say so.
        """
        if not all(map(str.strip, queries)):
            raise ToolError("a query is empty; expected a question or key words")
        best: dict[tuple[str, str], tuple[int, CollectionHit]] = {}
        failures = _Failures()
        names = await self._shelf.names() if collections is None else list(dict.fromkeys(collections))
        for name in names:
            with failures.of(name):
                async with self._opened(name) as opened:
                    found = await opened.asearch_many(queries, limit, filter=filter, min_relevance=min_relevance)
                for hits in found:
                    for rank, hit in enumerate(hits):
                        _keep_better(best, rank, CollectionHit(name, hit))
        failures.raise_if_all(names)
        shown = await self._shown(best_first(best.values())[:limit], failures)
        shown.hint = _EMPTY if not names else _FILTERED if filter and not best else None
        return shown

    @asynccontextmanager
    async def _opened(self, name: str) -> AsyncIterator[Collection]:
        """Yield an open collection.

        If the collection is dropped meanwhile, raise CollectionNotFoundError, which lists the existing collections.
        """
        opened = await self._shelf.open(name)
        try:
            with self._shelf.using(opened):
                yield opened
        except (StoreBusyError, StoreUnavailableError):
            raise
        except StoreError as error:
            if name in (names := await self._shelf.names()):
                raise
            raise CollectionNotFoundError(
                f"there is no collection {name!r} any more; there are: {', '.join(names) or 'none'}"
            ) from error

    async def _shown(self, ranked: Sequence[CollectionHit], failures: _Failures) -> Search:
        result = Search(results=[])
        documents = await self._documents_of(ranked, failures)
        left = MAX_CHARS
        first: dict[str, Found] = {}
        for each in ranked:
            name, hit = each.collection, each.hit
            passage = passage_of(hit)
            text = passage[: min(_PASSAGE_CHARS, max(left, 0))]
            if not text:
                result.left_out += 1
                continue
            document, described = documents.get((name, hit.id), (None, None))
            lines = None if document is None else lines_of(hit, document.text)
            found = _found(name, hit, text, place_of(hit, lines), described)
            if (earlier := first.setdefault(passage, found)) is not found:
                found.text, found.shortened, found.same_as = "", False, earlier.place
            result.results.append(found)
            left -= len(found.text) + 2 * _excess(hit.id)  # in the source and in the place
        result.failed = failures.by_name()
        return result

    async def get_document(
        self,
        id: Annotated[
            str,
            Field(
                min_length=1,
                max_length=4_000,
                description="Id of the document, or a place of search with lines, such as guides/tls.md:12-15.",
            ),
        ],
        collection: OneCollection = None,
        from_line: Annotated[int | None, Field(ge=1, description="First line to return; default: 1.")] = None,
        to_line: Annotated[int | None, Field(ge=1, description="Last line to return; default: the last.")] = None,
        from_char: Annotated[
            int | None, Field(ge=1, description="First character to return of the first line; default: 1.")
        ] = None,
    ) -> DocumentText:
        """Return the text of one document, or lines of it; an unknown id is answered with the nearest ids.

        A long document is cut: next_line says where to go on, and next_char too if a single line is too long.
        """
        names = [collection] if collection is not None else await self._shelf.names()
        place = parse_place(id)
        wanted = [id] if place is None else [id, place.id]
        nearest: list[str] = []
        failures = _Failures()
        for name in names:
            with failures.of(name):
                async with self._opened(name) as opened:
                    for each in await opened.aget(wanted):
                        if place is not None and each.id == place.id and from_line is None and to_line is None:
                            from_line, to_line = place.first, place.last
                        described = await asyncio.to_thread(opened.described, [each.id])
                        lines = LineRange(from_line, to_line, from_char)
                        return _text(name, each, lines, MAX_CHARS, described.get(each.id))
                    nearest += await asyncio.to_thread(opened.nearest_ids, wanted[-1], _SUGGESTIONS)
        failures.raise_if_all(names)
        where = f"the collection {collection!r}" if collection is not None else "the collections"
        hint = f"; the nearest ids: {', '.join(map(repr, [*dict.fromkeys(nearest)][:_SUGGESTIONS]))}" if nearest else ""
        raise ToolError(f"no document {id!r} in {where}{hint}{failures.hint()}")

    async def get_documents(
        self,
        pattern: Annotated[
            str,
            Field(
                min_length=1,
                max_length=4_000,
                description="Ids to return: * stands for any characters, as in guides/*.md.",
            ),
        ],
        collection: OneCollection = None,
        max_chars: Annotated[
            int, Field(ge=200, le=MAX_CHARS, description="Largest size of all documents together, in characters.")
        ] = MAX_CHARS,
    ) -> Documents:
        """Return all documents whose ids fit a pattern, cut at a size; documents left out are listed by id.

        If a document has next_line, get_document returns the rest of it.
        """
        found, failures = Documents(documents=[]), _Failures()
        names = [collection] if collection is not None else await self._shelf.names()
        for name in names:
            with failures.of(name):
                async with self._opened(name) as opened:
                    await _add_fitting(found, opened, pattern, max_chars)
        failures.raise_if_all(names)
        if not found.documents:
            raise ToolError(f"no id fits {pattern!r}; search finds documents by their content{failures.hint()}")
        found.failed = failures.by_name()
        return found

    async def _documents_of(
        self, ranked: Sequence[CollectionHit], failures: _Failures
    ) -> dict[tuple[str, str], tuple[Document, str | None]]:
        """Return the documents of hits, each with the description of its source, by collection and id."""
        documents = {}
        for name in {each.collection for each in ranked}:
            ids = [each.hit.id for each in ranked if each.collection == name]
            with failures.of(name):
                async with self._opened(name) as opened:
                    described = await asyncio.to_thread(opened.described, ids)
                    for each in await opened.aget(ids):
                        documents[name, each.id] = each, described.get(each.id)
        return documents


async def _add_fitting(found: Documents, opened: Collection, pattern: str, max_chars: int) -> None:
    """Add the documents of a collection whose ids fit a pattern."""
    left = max_chars - sum(map(_size, found.documents))
    for fitting in sorted(await opened.afind(pattern=pattern)):
        if left <= 0 or len(found.documents) >= _MOST_DOCUMENTS:
            found.left_out_count += 1
            if len(found.left_out) < _MOST_IDS and sum(map(len, found.left_out)) + len(fitting) <= MAX_CHARS:
                found.left_out.append(fitting)
            continue
        for each in await opened.aget([fitting]):
            found.documents.append(_text(opened.name, each, LineRange(), max(left - _excess(fitting), 1)))
            left -= _size(found.documents[-1])


def _described(info: dict[str, Any]) -> CollectionInfo:
    keys = info.get("payload_indexes", {})
    sources = [
        SourceInfo(name=each["name"], documents=each["documents"], describes=each.get("described", {}))
        for each in info.get("roots", [])
    ]
    return CollectionInfo(
        name=info["name"],
        documents=info["sources"],
        chunks=info["points"],
        model=info["model"],
        language=info["language"],
        sources=sources,
        metadata=dict(islice(keys.items(), _MOST_KEYS)),
        metadata_left_out=max(len(keys) - _MOST_KEYS, 0),
    )


def _keep_better(best: dict[tuple[str, str], tuple[int, CollectionHit]], rank: int, found: CollectionHit) -> None:
    """Keep the more relevant one of two hits of a document, and the better one of their ranks."""
    key = found.collection, found.hit.id
    first, known = best.get(key, (rank, found))
    is_better = (found.hit.relevance or 0.0) > (known.hit.relevance or 0.0)
    best[key] = min(rank, first), found if is_better else known


def _found(name: str, hit: Hit, text: str, place: str, described: str | None) -> Found:
    title = hit.payload.get("title")
    return Found(
        collection=name,
        source=hit.id,
        place=place,
        title=title[:_TITLE_CHARS] if isinstance(title, str) else None,
        relevance=None if hit.relevance is None else round(hit.relevance, 3),
        score=round(hit.score, 4),
        text=text,
        shortened=len(text) < len(passage_of(hit)),
        describes=described or None,
    )


def _text(name: str, document: Document, wanted: LineRange, chars: int, described: str | None = None) -> DocumentText:
    """Return the ``wanted`` part of a document, cut at ``chars`` characters.

    Raise ToolError if the document lacks the wanted lines.
    """
    lines = document.text.split("\n")
    first, last, char = wanted.first or 1, wanted.last or len(lines), wanted.char or 1
    if first > len(lines):
        raise ToolError(f"{document.id!r} has no line {first}: its last line is {len(lines)}")
    if last < first:
        raise ToolError(f"the last line to return is {last}, which is before the first line to return, {first}")
    asked = lines[first - 1 : last]
    asked[0] = asked[0][char - 1 :]
    whole = "\n".join(asked)
    text, is_within_line = cut_text(whole, chars)
    last = first + text.count("\n")
    hidden = document.hidden.llm if document.hidden else ()
    payload = {key: value for key, value in document.payload.items() if key not in hidden}
    metadata = metadata_of(payload)
    return DocumentText(
        collection=name,
        id=document.id,
        text=text,
        first_line=first,
        last_line=last,
        lines=len(lines),
        next_line=None if text == whole else last if is_within_line else last + 1,
        next_char=char + len(text) if is_within_line else None,
        metadata=metadata,
        metadata_left_out=len(payload) - len(metadata),
        describes=described or None,
    )


def _size(document: DocumentText) -> int:
    return len(document.id) + len(document.text) + len(json.dumps(document.metadata, ensure_ascii=False))


def _excess(identity: str) -> int:
    """Return by how many characters an id exceeds ``_ID_CHARS``; these count as text."""
    return max(len(identity) - _ID_CHARS, 0)
