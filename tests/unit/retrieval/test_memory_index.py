"""The memory index, hits, and two stages in one call, with the default model."""

import copy
import logging
import pickle
import threading
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from twinvec import Document, Hit, MaxSimReranker, MemoryIndex, RetrieveRerank
from twinvec.errors import BadVectorError, ConfigurationError, DocumentError, FilterError, TextError
from twinvec.retrieval.base import Reranker, Retriever
from twinvec.retrieval.fusion import fuse
from twinvec.retrieval.relevance import MODELS, UNLEARNT, Calibration, model_calibration

DOCUMENTS = [
    {"id": "cats", "title": "Cats", "text": "Felines that purr.", "kind": "animal", "legs": 4},
    {"id": "dogs", "text": "A dog barks and fetches the ball.", "kind": "animal", "legs": 4},
    {"id": "birds", "text": "Most birds can fly; penguins cannot.", "kind": "animal", "legs": 2},
    {"id": "tables", "text": "A table is furniture with a flat top.", "kind": "thing", "legs": 4},
    {"id": "blank", "text": " \n", "kind": "thing"},
    {"id": "finance", "text": "The quarterly report shows rising revenue.", "kind": "thing"},
]
MODES = ["hybrid", "dense", "sparse"]


@pytest.fixture(scope="module")
def index(encoder):
    return MemoryIndex(encoder, DOCUMENTS)


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.id for hit in hits]


class Wrapped:
    """A real encoder that counts texts, and whose vectors can be bent."""

    def __init__(self, encoder, bend=lambda vectors: vectors):
        self.encoder, self.bend, self.texts = encoder, bend, []

    def encode_query(self, texts):
        return self.bend(self.encoder.encode_query(texts))

    def encode_document(self, texts, *, progress=False):
        self.texts += texts
        return self.bend(self.encoder.encode_document(texts, progress=progress))


def test_dense_scores_are_the_cosines_of_all_documents_in_order(encoder, index):
    hits = index.search("an animal with feathers", limit=10, mode="dense")
    texts = {d["id"]: f"{d['title']}\n\n{d['text']}" if "title" in d else d["text"] for d in DOCUMENTS}
    query = encoder.encode_query("an animal with feathers")
    cosines = {key: float(query @ encoder.encode_document(text)) for key, text in texts.items() if key != "blank"}
    assert ids(hits) == sorted(cosines, key=cosines.get, reverse=True)
    assert [hit.score for hit in hits] == pytest.approx(sorted(cosines.values(), reverse=True), abs=2e-6)
    assert [hit.text for hit in hits] == [texts[hit.id] for hit in hits]


def test_hits_have_the_passage_that_answers_unless_it_is_left_out(encoder):
    text = "The portal is open all day. Holidays are requested two weeks ahead. Ask the team lead for anything else."
    index = MemoryIndex(encoder, [Document("leave", text)])
    (hit,) = index.search("when are holidays requested")
    assert "Holidays are requested two weeks ahead." in hit.passage.text
    assert [hit.passage.text[start:end] for start, end in hit.passage.matches] == ["Holidays", "requested"]
    assert index.search_many(["holidays"], passages=False)[0][0].passage is None
    bare = index.search("holidays", passages=False)
    assert index.with_passages("holidays", iter(bare)) == index.with_passages("holidays", bare) != []


def test_sparse_search_finds_only_what_shares_a_term(index):
    assert ids(index.search("revenue of dogs", mode="sparse")) == ["dogs", "finance"]
    assert index.search("zebra", mode="sparse") == []
    assert index.search("the", mode="sparse") == []


def test_a_code_is_found_among_lines_that_look_alike(encoder):
    index = MemoryIndex(encoder)
    lines = {number: f"GET /items/{number} took {number % 7} ms, status 200" for number in range(3000, 3400)}
    index.add((str(first), "\n".join(map(lines.get, range(first, first + 10)))) for first in range(3000, 3400, 10))
    index.add((f"shelf {shelf}", f"The items of shelf {shelf} are counted.") for shelf in range(20))
    found = [index.search(f"items {number}", 1)[0].id for number in range(3005, 3400, 20)]
    assert found == [str(number - 5) for number in range(3005, 3400, 20)]


def test_the_title_is_searched_too(index):
    assert ids(index.search("cats", mode="sparse")) == ["cats"]


def test_hits_keep_the_score_of_every_stage(index):
    for mode, stages in [("dense", ["dense"]), ("sparse", ["sparse"]), ("hybrid", ["dense", "sparse", "fused"])]:
        hits = index.search("a dog fetches a ball", mode=mode)
        assert hits
        for hit in hits:
            assert list(hit.scores) == stages
            assert hit.score == hit.scores[stages[-1]]
    dense = {hit.id: hit.score for hit in index.search("a dog fetches a ball", mode="dense")}
    sparse = {hit.id: hit.score for hit in index.search("a dog fetches a ball", mode="sparse")}
    hybrid = index.search("a dog fetches a ball")
    assert {hit.id: hit.scores["dense"] for hit in hybrid} == pytest.approx(dense, abs=2e-6)
    assert {hit.id: hit.scores["sparse"] for hit in hybrid} == pytest.approx({**dict.fromkeys(dense, 0.0), **sparse})
    assert hybrid[0].id == "dogs"


def test_payloads_are_copies_of_the_users_own(index):
    hit = index.search("dog", limit=1)[0]
    assert hit.payload == {"kind": "animal", "legs": 4}
    hit.payload["kind"] = "changed"
    assert index.search("dog", limit=1)[0].payload["kind"] == "animal"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filter", "allowed"),
    [
        ({"kind": "animal"}, {"cats", "dogs", "birds"}),
        ({"legs": {"lt": 4}}, {"birds"}),
        ({"id": ["tables", "cats"]}, {"tables", "cats"}),
        ({"kind": "plant"}, set()),
    ],
)
def test_filters_leave_only_what_satisfies_them(index, mode, filter, allowed):
    found = index.search("cats dogs birds tables revenue", filter=filter, mode=mode)
    assert set(ids(found)) == allowed


@pytest.mark.parametrize("mode", MODES)
def test_limit_cuts_the_same_order(index, mode):
    everything = ids(index.search("dogs and cats and a table", limit=100, mode=mode))
    for limit in range(1, len(everything) + 1):
        assert ids(index.search("dogs and cats and a table", limit=limit, mode=mode)) == everything[:limit]


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, None, "3", 10**30])
def test_a_limit_that_is_no_whole_number_from_one_is_refused(index, limit):
    with pytest.raises(ConfigurationError, match="limit must be a whole number from 1"):
        index.search("dog", limit)


def test_an_unknown_mode_is_refused(index):
    with pytest.raises(ConfigurationError, match="'both'"):
        index.search("dog", mode="both")


@pytest.mark.parametrize("query", [None, 7, b"dog", "\ud800", ["dog"]])
def test_a_query_that_is_no_text_is_refused(index, query):
    with pytest.raises(TextError, match="query"):
        index.search(query)


def test_search_many_names_the_query_at_fault(index):
    with pytest.raises(TextError, match="query 1"):
        index.search_many(["dog", None])


def test_a_filter_without_meaning_is_refused(index):
    with pytest.raises(FilterError):
        index.search("dog", filter={"legs": {"above": 3}})


@pytest.mark.parametrize("query", ["", "  \n"])
@pytest.mark.parametrize("mode", MODES)
def test_a_blank_query_finds_nothing(index, query, mode):
    assert index.search(query, mode=mode) == []


@pytest.mark.parametrize("mode", MODES)
def test_search_many_gives_what_search_gives(index, mode):
    queries = ["dogs", "", "what flies?", "dogs", "table"]
    together = index.search_many(queries, limit=3, mode=mode)
    for query, hits in zip(queries, together, strict=True):
        alone = index.search(query, limit=3, mode=mode)
        assert ids(hits) == ids(alone)
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in alone], abs=1e-5)
    assert index.search_many([]) == []


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_index_finds_nothing(encoder, mode):
    empty = MemoryIndex(encoder)
    assert len(empty) == 0
    assert empty.search("dog", mode=mode) == []


@pytest.mark.parametrize("mode", MODES)
def test_equal_documents_come_in_the_order_of_their_ids(encoder, mode):
    names = [f"{number:03}" for number in range(150)]
    shuffled = np.random.default_rng(0).permutation(names).tolist()
    index = MemoryIndex(encoder, [(name, "the same text about dogs") for name in shuffled])
    assert ids(index.search("dogs", limit=7, mode=mode)) == names[:7]


def test_a_document_that_comes_again_replaces_the_earlier_one(encoder):
    index = MemoryIndex(encoder, [("a", "a text about dogs"), ("b", "a text about cats")])
    index.add([("a", "a text about ships"), ("c", "a text about dogs"), ("c", "a text about trains")])
    assert len(index) == 3
    assert ids(index.search("trains", limit=1)) == ["c"]
    assert ids(index.search("ships", mode="sparse")) == ["a"]
    assert index.search("dogs", mode="sparse") == []


def test_only_new_texts_are_encoded(encoder):
    counting = Wrapped(encoder)
    index = MemoryIndex(counting, [("a", "dogs"), ("b", "cats")])
    index.add([Document("a", "dogs", payload={"new": True}), ("b", "birds")])
    assert counting.texts == ["dogs", "cats", "birds"]
    assert index.search("dogs", 1)[0].payload == {"new": True}


def test_payloads_alone_can_be_replaced(encoder):
    index = MemoryIndex(encoder, [("a", "dogs")])
    index.add([Document("a", "dogs", payload={"new": True})])
    assert index.search("dogs", filter={"new": True})


def test_a_refused_document_leaves_the_index_as_it_was(encoder):
    index = MemoryIndex(encoder, [("a", "dogs")])
    for broken, error in [({"text": "no id"}, DocumentError), (("b", 3), TextError), (("", "no id"), DocumentError)]:
        with pytest.raises(error):
            index.add([("new", "cats"), broken])
        assert len(index) == 1
        assert ids(index.search("cats")) == ["a"]


def test_a_mapping_alone_is_not_a_list_of_documents(encoder):
    with pytest.raises(DocumentError, match="iterable"):
        MemoryIndex(encoder, {"id": "a", "text": "dogs"})


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_bad_vector_is_refused_by_the_name_of_its_document(encoder, value):
    def bend(vectors):
        vectors = vectors.copy()
        vectors[1] = value
        return vectors

    with pytest.raises(BadVectorError, match="'b'"):
        MemoryIndex(Wrapped(encoder, bend), [("a", "dogs"), ("b", "cats")])


def test_vectors_of_another_size_are_refused(encoder):
    bent = Wrapped(encoder)
    index = MemoryIndex(bent, [("a", "dogs")])
    bent.bend = lambda vectors: vectors[:, :100]
    with pytest.raises(BadVectorError, match="384"):
        index.add([("b", "cats")])


def test_an_encoder_that_returns_nothing_is_refused(encoder):
    with pytest.raises(BadVectorError, match=r"the encoder gave vectors of shape \(\)"):
        MemoryIndex(Wrapped(encoder, lambda vectors: None), ["dogs"])


@pytest.mark.parametrize("bend", [lambda vectors: vectors[:, :100], lambda vectors: vectors * np.float32(np.nan)])
def test_bad_vectors_of_queries_are_refused(encoder, bend):
    bent = Wrapped(encoder)
    index = MemoryIndex(bent, [("a", "dogs")])
    bent.bend = bend
    with pytest.raises(BadVectorError, match="queries"):
        index.search("dogs")
    assert ids(index.search("dogs", mode="sparse")) == ["a"]


def test_an_unknown_fusion_is_refused_at_once(encoder):
    with pytest.raises(ConfigurationError, match="'sum'"):
        MemoryIndex(encoder, fusion="sum")


def test_a_calibration_of_a_wrong_type_is_refused_at_once(encoder):
    with pytest.raises(ConfigurationError, match=r"calibration: expected Calibration\(...\), got 0.5"):
        MemoryIndex(encoder, calibration=0.5)


def test_fusion_is_that_of_the_index(encoder):
    for method in ("adaptive", "rrf", "distribution"):
        for calibration in (None, MODELS["default"]):
            index = MemoryIndex(encoder, DOCUMENTS, fusion=method, calibration=calibration)
            hits = index.search("a dog fetches a ball")
            dense, sparse = (np.array([hit.scores[stage] for hit in hits]) for stage in ("dense", "sparse"))
            used = calibration or model_calibration(encoder, len(DOCUMENTS), terms=4)  # few, so the least weight
            expected = fuse(dense, sparse, method=method, terms=3, calibration=used)  # dog, fetch, ball
            assert [hit.score for hit in hits] == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_model_without_landmarks_scales_the_scores_of_each_query(encoder):
    hits = MemoryIndex(Wrapped(encoder), DOCUMENTS).search("a dog fetches a ball")
    dense, sparse = (np.array([hit.scores[stage] for hit in hits]) for stage in ("dense", "sparse"))
    assert [hit.score for hit in hits] == pytest.approx(
        fuse(dense, sparse, terms=3, calibration=Calibration(words=0.6)).tolist(), abs=1e-5
    )
    assert {hit.relevance for hit in hits} == {None}


def test_words_count_more_in_texts_that_say_more_and_in_a_language_that_the_model_has_not_learnt(encoder):
    def parts(documents, language="english"):
        hit = MemoryIndex(encoder, documents, language=language).search("Hund ball", 1)[0]
        vectors, words = (
            MemoryIndex(encoder, documents, language=language).search("Hund ball", 1, weights=weights)[0].score
            for weights in ((1, 0), (0, 1))
        )
        assert vectors + words == pytest.approx(hit.score, abs=1e-5)
        return vectors / hit.scores["dense"], words / hit.scores["sparse"]

    short, long = [("a", "Hund ball")], [("a", f"Hund ball {' '.join(f'w{n}' for n in range(48))}")]
    assert parts(long)[1] == pytest.approx(parts(short)[1] * 2 / 0.6, rel=1e-4)
    repeated = [("a", "Hund ball " * 25)]
    assert parts(repeated)[1] == pytest.approx(parts(short)[1], rel=1e-4)
    english, german = parts(short), parts(short, "german")
    assert german == pytest.approx((UNLEARNT**2 * english[0], english[1]), rel=1e-4)


GERMAN = [
    "Der Antrag auf Verlängerung der Frist muss schriftlich gestellt werden.",
    "Die Straßenbahn fährt am Wochenende alle zwanzig Minuten.",
    "Das Haus am See wurde vor hundert Jahren gebaut und steht unter Denkmalschutz.",
]
ENGLISH = [
    "The application for an extension of the deadline must be made in writing.",
    "At weekends, the tram runs every twenty minutes.",
    "The house at the lake was built a hundred years ago and is protected as a monument.",
]
CODE = [
    "def parse_headers(raw: bytes) -> dict[str, str]:\n    return dict(line.split(b': ') for line in raw.splitlines())",
    "export function debounceCallback(callback, delay) { let timer; return () => { clearTimeout(timer); } }",
    "#define MAX_RETRIES 5\nstatic int open_socket(const char *host, uint16_t port);",
]


def test_words_count_more_if_the_tokenizer_splits_most_words(encoder):
    def dense_part(texts):
        hit = MemoryIndex(encoder, texts).search("Haus house timer", 1, weights=(1, 0))[0]
        return hit.score / model_calibration(encoder, len(texts)).place(hit.scores["dense"])

    english, german, code, mixed = map(dense_part, (ENGLISH, GERMAN, CODE, [GERMAN[0], *ENGLISH[1:]]))
    assert [german / english, code / english, mixed / english] == pytest.approx([UNLEARNT**2, 1, 1], rel=0.05)


def test_vectors_of_any_length_are_compared_by_their_cosine(encoder):
    longer = MemoryIndex(Wrapped(encoder, lambda vectors: vectors * np.float32(3)), DOCUMENTS)
    plain = MemoryIndex(encoder, DOCUMENTS)
    found = {hit.id: hit.score for hit in longer.search("dogs", mode="dense")}
    assert found == pytest.approx({hit.id: hit.score for hit in plain.search("dogs", mode="dense")}, abs=2e-6)


def test_another_language_stems_its_own_words(encoder):
    index = MemoryIndex(encoder, [("a", "Die alten Häuser"), ("b", "Der Garten")], language="german")
    assert ids(index.search("Haus", mode="sparse")) == ["a"]


def test_searches_during_an_addition_see_the_index_before_or_after(encoder):
    index = MemoryIndex(encoder, [(f"old{n}", f"dog number {n}") for n in range(20)])
    seen: list[int] = []
    stop = threading.Event()

    def search() -> None:
        while not seen or not stop.is_set():
            seen.append(len(index.search("dog", limit=100, mode="dense")))

    thread = threading.Thread(target=search)
    thread.start()
    try:
        for start in range(0, 60, 20):
            index.add([(f"new{n}", f"another dog {n}") for n in range(start, start + 20)])
    finally:
        stop.set()
        thread.join()
    assert seen
    assert set(seen) <= {20, 40, 60, 80}


def test_concurrent_additions_lose_nothing(encoder):
    index = MemoryIndex(encoder)
    threads = [
        threading.Thread(target=index.add, args=([(f"{t}-{n}", f"text {t} {n}") for n in range(5)],)) for t in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(index) == 20


def test_a_hit_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Hit("a", "text", 1.0).score = 2.0


class Backwards:
    """A reranker: the last first."""

    def rerank(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        turned = [replace(h, score=float(i), scores={**h.scores, "turned": float(i)}) for i, h in enumerate(hits)]
        return turned[::-1][:limit]


class OneByOne:
    """A retriever with nothing but what the protocol asks for."""

    def __init__(self, index: MemoryIndex) -> None:
        self.index = index
        self.limits: list[int] = []

    def search(self, query, limit=10, filter=None):
        self.limits.append(limit)
        return self.index.search(query, limit, filter)


def test_protocols_know_their_own(index):
    assert isinstance(index, Retriever)
    assert isinstance(RetrieveRerank(index, Backwards()), Retriever)
    assert isinstance(Backwards(), Reranker)
    assert not isinstance(index, Reranker)


def test_two_stages_keep_all_scores_and_the_limit(index):
    two = RetrieveRerank(index, Backwards(), candidates=4)
    first = index.search("dogs", limit=4)
    hits = two.search("dogs", limit=2)
    assert ids(hits) == ids(first)[::-1][:2]
    assert all(list(hit.scores) == ["dense", "sparse", "fused", "turned"] for hit in hits)
    assert (
        ids(two.search("dogs", filter={"kind": "thing"})) == ids(index.search("dogs", filter={"kind": "thing"}))[::-1]
    )


def test_options_go_to_the_retriever(index):
    hits = RetrieveRerank(index, Backwards()).search("dogs", mode="dense")
    assert list(hits[0].scores) == ["dense", "turned"]


def test_as_many_candidates_as_results_are_asked_for(index):
    retriever = OneByOne(index)
    RetrieveRerank(retriever, Backwards(), candidates=3).search("dogs", limit=5)
    RetrieveRerank(retriever, Backwards(), candidates=3).search("dogs", limit=2)
    assert retriever.limits == [5, 3]


def test_many_queries_work_with_and_without_batch_methods(encoder, index):
    queries = ["dogs", "what flies?", "dogs"]
    for retriever in (index, OneByOne(index)):
        for reranker in (Backwards(), MaxSimReranker(encoder)):
            two = RetrieveRerank(retriever, reranker, candidates=4)
            together = two.search_many(queries, limit=2)
            assert [ids(hits) for hits in together] == [ids(two.search(query, limit=2)) for query in queries]
            assert all(len(hits) == 2 for hits in together)


@pytest.mark.parametrize("candidates", [0, -5, 1.5])
def test_a_number_of_candidates_below_one_is_refused(index, candidates):
    with pytest.raises(ConfigurationError, match="candidates"):
        RetrieveRerank(index, Backwards(), candidates=candidates)


def test_a_limit_below_one_is_refused_before_anything_is_searched(index):
    retriever = OneByOne(index)
    with pytest.raises(ConfigurationError, match="limit"):
        RetrieveRerank(retriever, Backwards()).search("dogs", 0)
    with pytest.raises(ConfigurationError, match="limit"):
        RetrieveRerank(retriever, Backwards()).search_many(["dogs"], 0)
    assert retriever.limits == []


def test_a_reranker_of_somebody_else_needs_no_bar(index):
    class Backwards:
        def rerank(self, query, hits, limit=None):
            return self.rerank_many([query], [hits], limit)[0]

        def rerank_many(self, queries, hits_lists, limit=None):
            return [list(reversed(hits))[:limit] for hits in hits_lists]

    found = index.search_many(["fox", "cat"], limit=3)
    pipeline = RetrieveRerank(index, Backwards(), candidates=3)
    assert pipeline.search_many(["fox", "cat"], limit=2) == [hits[::-1][:2] for hits in found]


@pytest.mark.parametrize("value", [b"7", 2j, {"a", "b"}, float("nan"), 2**63])
def test_a_payload_that_no_filter_could_find_is_refused_as_by_a_collection(encoder, value):
    index = MemoryIndex(encoder, [("a", "tea")])
    with pytest.raises(DocumentError, match=r"document 'b': the payload must be plain JSON .*: 'day': "):
        index.add([{"id": "c", "text": "tea"}, {"id": "b", "text": "tea", "day": value}])
    assert len(index) == 1


def test_texts_without_ids_that_replace_others_are_warned_of(encoder, caplog):
    index = MemoryIndex(encoder, ["red", "green", ("x", "pink")])
    with caplog.at_level(logging.WARNING):
        index.add(["red", "green"])
        index.add([("0", "rose"), "green", "yellow"])
        assert (len(index), caplog.records) == (4, [])
        index.add(text for text in ("black", "white", "yellow", "grey"))
    assert len(index) == 5
    (record,) = caplog.records
    assert record.getMessage().startswith("2 texts without ids replace another stored text")
    assert "give ids" in record.getMessage()


def test_a_table_is_refused_with_what_to_give_instead(encoder):
    table = pytest.importorskip("pandas").DataFrame({"id": ["a"], "text": ["tea"]})
    with pytest.raises(DocumentError, match=r"expected documents, got DataFrame; give its rows: table\.to_dict"):
        MemoryIndex(encoder, table)
    assert len(MemoryIndex(encoder, table.to_dict("records"))) == 1


def test_a_list_that_changes_later_changes_no_payload(encoder):
    tags = ["red"]
    index = MemoryIndex(encoder, [{"id": "a", "text": "tea", "tags": tags, "size": (1, 2)}])
    tags.append("blue")
    (hit,) = index.search("tea", filter={"tags": "red"})
    assert hit.payload == {"tags": ["red"], "size": [1, 2]}
    assert index.search("tea", filter={"tags": "blue"}) == []


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))], ids=["deep", "pickle"]
)
def test_a_copy_answers_the_same_and_grows_alone(encoder, index, copied):
    before = index.search("an animal", 3)
    other = copied(index)
    assert other.search("an animal", 3) == before
    other.add([("ants", "An ant is an animal.")])
    assert (len(other), len(index)) == (7, 6)
    stages = copied(RetrieveRerank(index, MaxSimReranker(encoder), candidates=3))
    assert ids(stages.search("an animal", 3)) == ids(
        RetrieveRerank(index, MaxSimReranker(encoder)).search("an animal", 3)
    )


def test_an_index_shows_its_encoder_and_its_size(encoder, index):
    assert repr(index) == f"MemoryIndex({encoder!r}, documents=6)"
