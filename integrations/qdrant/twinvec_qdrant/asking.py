"""Search a collection with its tuned settings and a reranker; read and delete documents by their ids; reindex.

The commands and the HTTP API both use these functions, so their answers have the same fields.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from twinvec.errors import ConfigurationError, FilterError
from twinvec.retrieval.base import Hit, Mode, Passage, Reranker, relevant, unknown_texts
from twinvec.retrieval.documents import check_ids
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.relevance import LEAST_MEASURED
from twinvec.retrieval.syntax import parse_query
from twinvec.support.checks import check_flags
from twinvec.text import check_texts
from twinvec_qdrant.report import IndexReport
from twinvec_qdrant.search.named_ids import named_ids, other_forms
from twinvec_qdrant.search.nearest_ids import nearest_ids
from twinvec_qdrant.settings import MOST_HITS, ChunkSettings, IndexSettings, Quantization

if TYPE_CHECKING:
    from twinvec.retrieval.tuned_search import Setting
    from twinvec_qdrant.collection import Collection
else:
    Collection = Any  # annotations can be resolved without importing the class, which is slow

Passages = Literal["auto", "words", "states"]
"""Ways to find passages; see ``Asked.passages``."""

_PAGE_ENDS = (0, 100, 200, 400, 800, 1600, 3200, 6400, MOST_HITS)  # pages of a search with ``Asked.everything``
_SUGGESTED = 10  # largest number of missing ids for which the nearest existing ids are looked up
_NEAREST = 3  # largest number of nearest ids for a missing id


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a search. Fields that are not listed here are arguments of ``Collection.search``.

    Attributes:
        mode: Search mode. Default: the collection's tuned mode if ``rerank`` is None too, else "hybrid".
        rerank: "none", "maxsim", the name of a cross-encoder's model, or a reranker. Default: the collection's tuned
            reranker if ``mode`` is None too, else "none".
        candidates: Number of hits to rerank.
        chunks: Return every chunk instead of the best one of each document.
        least: Smallest relevance of a hit.
        everything: Return all hits whose relevance is at least ``least``, at most ``MOST_HITS``, instead of the best
            ``limit`` hits.
        phrasings: The arguments ``words`` and ``answers`` of ``Collection.search``.
        passages: How to find passages. "words" compares the words of the query. "states" compares token states, which
            takes about 10 ms a hit. "auto" compares words first, and token states if the passage of the best hit lacks
            a word of the query. If the model does not know most words of the query, passages are found by words.
    """

    mode: Mode | None = None
    rerank: str | Reranker | None = None
    limit: int = 10
    offset: int = 0
    candidates: int = 100
    filter: Filter | None = None
    chunks: bool = False
    least: float | None = None
    everything: bool = False
    phrasings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    syntax: bool = True
    passages: Passages = "auto"


@dataclass(frozen=True, slots=True)
class FoundHit:
    """A hit with the id of its document, the description of its source, and its collection.

    Attributes:
        hit: The hit.
        source: The id of its document.
        described: The user's description of the document's source, or "" without one.
        collection: Name of the hit's collection if several were searched, else "".
    """

    hit: Hit
    source: str
    described: str = ""
    collection: str = ""

    def as_fields(self) -> dict[str, Any]:
        """Return the hit as the JSON object that ``twinvec search --json`` prints."""
        named = {"page": self.hit.page, "described": self.described, "collection": self.collection}
        hit = {name: value for name, value in asdict(self.hit).items() if name != "hidden"}
        return hit | {name: value for name, value in named.items() if value not in (None, "")}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any], *, chunks: bool) -> FoundHit:
        """Build the hit from the result of ``as_fields``; ``chunks`` is ``Asked.chunks`` of its search."""
        hit = {name: value for name, value in fields.items() if name in Hit.__slots__}
        if passage := hit.get("passage"):
            hit["passage"] = Passage(**{**passage, "matches": tuple(tuple(each) for each in passage["matches"])})
        found = Hit(**hit)
        return cls(found, _source(found, chunks), fields.get("described", ""), fields.get("collection", ""))


class Answer(NamedTuple):
    """The hits of one query, and the seconds that the search and the reranker took.

    ``reranked`` is None without a reranker. ``unknown`` says whether the query consists mostly of words that the model
    does not know. ``corrected`` is the query with corrected spelling. It is "" if nothing was corrected, or if several
    collections correct the query differently. ``named`` holds the id of the document that the query names, or nothing.
    After a search of several collections, it may hold one id for each collection.
    """

    query: str
    hits: list[FoundHit]
    searched: float = 0.0
    reranked: float | None = None
    unknown: bool = False
    named: tuple[str, ...] = ()
    corrected: str = ""

    def named_elsewhere(self) -> tuple[str, ...]:
        """Return ``named``, or an empty tuple if the best hit is a named document."""
        return () if self.hits and self.hits[0].source in self.named else self.named


def search_as_asked(
    opened: Collection, queries: Sequence[str], asked: Asked, *, load_first: bool = False
) -> list[Answer]:
    """Search a collection with its tuned settings, which the options in ``asked`` override.

    Args:
        opened: The collection.
        queries: The queries.
        asked: How to search.
        load_first: Load the model before the first query, so that the measured times do not include loading.

    Raises:
        TextError: ``queries`` is not a list of strings.
        ConfigurationError: a relevance is required (``least``), and the collection is not calibrated.
        TwinvecError: see ``Collection.search``.
    """
    queries = check_texts(queries, name="query", argument="queries")
    setting, reranker = _setting(opened, asked)
    if load_first and setting.mode != "sparse":
        opened.encoder.encode_query(["ready"])
    return [_answer(opened, query, asked, setting, reranker) for query in queries]


def joined_answers(found: Mapping[str, Answer], asked: Asked) -> Answer:
    """Merge the answers of several collections to one query; times are added up."""
    from twinvec_qdrant.several import best_first

    named = {name: [replace(each, collection=name) for each in answer.hits] for name, answer in found.items()}
    best = best_first(ranked for hits in named.values() for ranked in enumerate(hits))
    most = MOST_HITS if asked.everything else asked.offset + asked.limit
    first = next(iter(found.values()))
    corrected = {each.corrected for each in found.values()}
    reranked = [each.reranked for each in found.values() if each.reranked is not None]
    return Answer(
        first.query,
        best[asked.offset : most],
        sum(each.searched for each in found.values()),
        sum(reranked) if reranked else None,
        any(each.unknown for each in found.values()),
        tuple(dict.fromkeys(identity for each in found.values() for identity in each.named)),
        corrected.pop() if len(corrected) == 1 else "",
    )


def _answer(opened: Collection, query: str, asked: Asked, setting: Setting, reranker: Reranker | None) -> Answer:
    """Search for one query, rerank the hits, and find the passages of the hits that are returned."""
    needed = asked.limit + asked.offset
    depth = asked.limit if reranker is None else max(needed, setting.candidates or asked.candidates)
    options: dict[str, Any] = {
        "filter": asked.filter,
        "group": not asked.chunks,
        **setting.first_stage,
        **asked.phrasings,
        "syntax": asked.syntax,
        "passages": reranker is None,
    }
    start, reranked = time.perf_counter(), None
    if reranker is None and asked.everything:
        hits = _all_relevant(opened, query, asked.least or 0.0, options)
    else:
        hits = opened.search(query, depth, **options, offset=0 if reranker else asked.offset)
    searched = time.perf_counter() - start
    given = (parse_query(query).text if asked.syntax else query).strip()
    text = opened.corrected(given)
    if reranker is not None:
        hits = reranker.rerank(text, hits, None if asked.everything else needed)
        hits = opened.with_passages(text, hits if asked.everything else hits[asked.offset :])
        reranked = time.perf_counter() - start - searched
    hits = _relevant(hits, asked.least, opened)
    unknown = setting.mode != "sparse" and unknown_texts(opened.encoder, [text])[0]
    if setting.mode != "sparse" and not unknown:
        hits = _with_passages(text, hits, opened, asked.passages)
    sources = [_source(hit, asked.chunks) for hit in hits]
    described = opened.described(sources)
    found = [FoundHit(hit, source, described.get(source, "")) for hit, source in zip(hits, sources, strict=True)]
    named = _named(opened, given, asked.filter)
    return Answer(query, found, searched, reranked, unknown, named, "" if text == given else text)


def _named(opened: Collection, text: str, filter: Filter | None) -> tuple[str, ...]:
    """Return the id of the document that a query names, in a tuple; an empty tuple if it names no document."""
    from twinvec_qdrant.ingest.reading.files import NAMED_SUFFIXES

    if not named_ids(text, (), ()):
        return ()
    ids = named_ids(text, [root.prefix for root in opened.roots() if not root.first], NAMED_SUFFIXES)
    wanted: Filter = {"id": ids}
    there = set(opened.find({"$and": [filter, wanted]} if filter else wanted))
    return tuple([each for each in ids if each in there][:1])


def _with_passages(text: str, hits: list[Hit], opened: Collection, how: Passages) -> list[Hit]:
    """Return the hits; their passages are chosen by token states if ``how`` requires it (see ``Asked.passages``)."""
    from twinvec.retrieval.passages import has_all_words, with_state_passages

    best = hits[0].passage if hits else None
    if how == "words" or (how == "auto" and best is not None and has_all_words(text, best, opened.analyzer)):
        return hits
    return with_state_passages(text, hits, opened.encoder, opened.analyzer)


def _setting(opened: Collection, asked: Asked) -> tuple[Setting, Reranker | None]:
    from twinvec.retrieval.tuned_search import Setting, TunedSearch

    if asked.mode is None and asked.rerank is None:
        tuned = TunedSearch(opened)
        return tuned.setting, tuned.reranker
    return Setting(asked.mode or "hybrid"), _reranker(asked.rerank or "none", opened)


def _reranker(wanted: str | Reranker, collection: Collection) -> Reranker | None:
    if not isinstance(wanted, str):
        return wanted
    if wanted == "none":
        return None
    if wanted == "maxsim":
        return collection.maxsim()
    from twinvec.rerankers.open import open_reranker

    return open_reranker(wanted)


def _all_relevant(opened: Collection, query: str, least: float, options: dict[str, Any]) -> list[Hit]:
    """Search page by page until a page has no relevant hit, and return all relevant hits.

    A search ranks the hits of all earlier pages again, so the pages double in size.
    """
    found: list[Hit] = []
    for offset, end in pairwise(_PAGE_ENDS):
        page = opened.search(query, end - offset, **options, offset=offset)
        relevant = _relevant(page, least, opened)
        found += relevant
        if len(page) < end - offset or not relevant:
            break
    return found


def _relevant(hits: list[Hit], least: float | None, opened: Collection) -> list[Hit]:
    """Return the hits whose relevance is at least ``least``; raise ConfigurationError if a hit has no relevance."""
    if least is None:
        return hits
    if any(hit.relevance is None for hit in hits):
        raise ConfigurationError(
            f"the collection {opened.name!r} is not calibrated, so its hits have no relevance; with {LEAST_MEASURED} "
            f"chunks or more, twinvec reindex -c {opened.name} calibrates it"
        )
    return relevant(hits, least)


def _source(hit: Hit, chunks: bool) -> str:
    """Return the id of a hit's document; ``chunks`` says that hits may have ids of chunks, such as "guide.md#3"."""
    source, _, position = hit.id.rpartition("#")
    is_chunk = chunks and position.isdecimal() and hit.payload.get("source") != hit.id
    return source if is_chunk else hit.id


def stored_documents(opened: Collection, ids: Sequence[str], *, nearest: bool = True) -> dict[str, Any]:
    """Return the ``documents`` with these ids, the ``missing`` ids, and the existing ids ``nearest`` to missing ones.

    An id is found in either Unicode form: accented letters as one character (NFC), or as a letter and a mark (NFD).

    Args:
        opened: The collection.
        ids: Ids of documents.
        nearest: Whether to look for the nearest ids; this reads all ids of the collection.

    Raises:
        TextError: see ``Collection.get``.
    """
    ids = check_ids(ids)
    found = opened.get(ids)
    missing = _missing(ids, [each.id for each in found])
    if forms := {form: each for each in missing for form in other_forms(each)}:
        others = opened.get(list(forms))
        same, there = {forms[each.id] for each in others}, {each.id for each in found}
        found += [each for each in others if each.id not in there]
        missing = [each for each in missing if each not in same]
    described = opened.described([each.id for each in found])
    documents = [
        {"id": each.id, "text": each.text, "payload": dict(each.payload)}
        | ({"described": described[each.id]} if each.id in described else {})
        for each in found
    ]
    looked_up = missing[:_SUGGESTED] if nearest else []
    existing = opened.find() if looked_up else []
    near = {each: nearest_ids(each, existing, _NEAREST) for each in looked_up}
    return {"documents": documents, "missing": missing, "nearest": near}


def delete_documents(
    opened: Collection, ids: Sequence[str] | None, filter: Filter | None, source: str | None = None, *, dry_run: bool
) -> dict[str, Any]:
    """Delete documents by id or by filter, or a source and its documents; with ``dry_run``, only find them.

    Returns:
        The number of ``deleted`` documents, the ids of the ``documents`` found, and the ``missing`` ids.

    Raises:
        TextError: see ``Collection.get``.
        FilterError: the filter is invalid, or every document satisfies it.
        ConfigurationError: not exactly one of ``ids``, ``filter`` and ``source`` is given, or see ``Collection.find``.
    """
    # imported here, because a search through a server does not need this module
    from twinvec.retrieval.filters import matches_all, parse_filter

    check_flags(dry_run=dry_run)
    if sum(each is not None for each in (ids, filter, source)) != 1:
        raise ConfigurationError("give one of ids, filter and source")
    if filter is not None and matches_all(parse_filter(filter)):
        raise FilterError(
            "every document satisfies the filter; to delete them all, delete their source, or drop the collection"
        )
    found = [each.id for each in opened.get(ids)] if ids is not None else sorted(opened.find(filter, source=source))
    deleted = 0
    if not dry_run:
        deleted = opened.delete(found) if source is None else opened.delete_source(source)
    return {"deleted": deleted, "documents": found, "missing": _missing(ids or (), found)}


def reindex_as_asked(
    opened: Collection,
    *,
    quantization: Quantization | None = None,
    cut_code: bool | None = None,
    pages: bool | None = None,
    surroundings: int | None = None,
    **settings: Any,
) -> IndexReport:
    """Rebuild the indexes, as ``Collection.reindex`` does. A setting that is None keeps its value.

    Args:
        opened: The collection.
        quantization: Number format of the small copies of vectors.
        cut_code: Whether to cut code at functions and classes, in all languages that are installed.
        pages: Whether to keep the page of each chunk of a PDF.
        surroundings: Tokens of text around a chunk that are embedded with it.
        settings: ``payload_indexes`` and ``cluster`` of ``Collection.reindex``.

    Raises:
        ConfigurationError: see ``Collection.reindex``.
    """
    from twinvec_qdrant.ingest.cutting.code import installed_languages

    code = None if cut_code is None else installed_languages() if cut_code else ()
    cutting = {"code": code, "pages": pages, "surroundings": surroundings}
    given: dict[str, Any] = {name: value for name, value in cutting.items() if value is not None}
    info = opened.info()
    return opened.reindex(
        None if quantization is None else replace(IndexSettings.from_dict(info["index"]), quantization=quantization),
        chunking=replace(ChunkSettings.from_dict(info["chunking"]), **given) if given else None,
        **settings,
    )


def _missing(ids: Sequence[str], found: Sequence[str]) -> list[str]:
    there = set(found)
    return [each for each in dict.fromkeys(ids) if each not in there]
