"""Rerankers: new hits, the scores of all stages, many queries at once, and bad input."""

from __future__ import annotations

import copy
import json
import logging
import math
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest

from twinvec import CrossEncoderReranker, Encoder, Hit, MaxSimReranker
from twinvec.errors import (
    BadVectorError,
    ConfigurationError,
    InputError,
    ModelIntegrityError,
    ModelNotFoundError,
    TextError,
    UnsupportedModelError,
)
from twinvec.models.cross_encoder_spec import ACTIVATIONS
from twinvec.rerankers.maxsim import maxsim, mixed_scores
from twinvec.rerankers.open import open_reranker
from twinvec.retrieval.base import Passage

QUERIES = ["a fox in the sun", "two men on the moon", "compare two files"]
PASSAGES = [
    "The quick brown fox jumps over the lazy dog.",
    "In 1969 two men walked on the moon.",
    "Show only the lines that differ between two files.",
    "The old cat sleeps in the warm sun.",
    "",
    "Größe, façade 日本語 🎉",
]


def hits_of(texts, seed=0):
    scores = np.random.default_rng(seed).normal(size=len(texts))
    return [
        Hit(id=f"{seed}-{row}", text=text, score=float(score), scores={"dense": float(score)}, payload={"row": row})
        for row, (text, score) in enumerate(zip(texts, scores, strict=True))
    ]


@pytest.fixture(scope="module")
def tiny(tiny_model):
    return Encoder(tiny_model("bert", prompts={"query": "find: ", "document": "text: "}))


@pytest.fixture(scope="module")
def maxsim_reranker(tiny):
    return MaxSimReranker(tiny)


@pytest.fixture(scope="module")
def cross_encoder(tiny_cross_encoder):
    return CrossEncoderReranker(tiny_cross_encoder("bert"))


@pytest.fixture(params=["maxsim", "cross-encoder"])
def reranker(request, maxsim_reranker, cross_encoder):
    return {"maxsim": maxsim_reranker, "cross-encoder": cross_encoder}[request.param]


def test_hits_are_new_and_keep_the_scores_of_every_stage(reranker):
    given = hits_of(PASSAGES)
    before = copy.deepcopy(given)
    found = reranker.rerank(QUERIES[0], given)
    assert given == before
    assert sorted(hit.id for hit in found) == sorted(hit.id for hit in given)
    of_id = {hit.id: hit for hit in given}
    for hit in found:
        assert hit is not of_id[hit.id]
        assert hit.scores == of_id[hit.id].scores | {reranker.stage: hit.scores[reranker.stage]}
        assert (hit.text, hit.payload) == (of_id[hit.id].text, of_id[hit.id].payload)
        assert type(hit.score) is type(hit.scores[reranker.stage]) is float
    order = [hit.score for hit in found]
    assert order == sorted(order, reverse=True)
    assert len(set(order)) > 3
    found[0].scores["dense"] = 99.0
    assert given == before


def test_many_queries_at_once_equal_one_by_one(reranker):
    lists = [hits_of(PASSAGES, seed=1), hits_of(PASSAGES[:2], seed=2), hits_of(PASSAGES[::-1], seed=3)]
    together = reranker.rerank_many(QUERIES, lists)
    for query, hits, found in zip(QUERIES, lists, together, strict=True):
        alone = reranker.rerank(query, hits)
        assert [hit.id for hit in found] == [hit.id for hit in alone]
        stage = reranker.stage
        np.testing.assert_allclose([h.scores[stage] for h in found], [h.scores[stage] for h in alone], atol=1e-5)
        # standardising divides by a spread of some hundredths, and so does rounding, which batches change
        np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in alone], atol=1e-3)


@pytest.mark.parametrize("limit", [1, 3, 6, 100])
def test_limit_takes_the_best(reranker, limit):
    whole = reranker.rerank(QUERIES[0], hits_of(PASSAGES))
    assert reranker.rerank(QUERIES[0], hits_of(PASSAGES), limit) == whole[:limit]


def test_empty_lists(reranker):
    assert reranker.rerank(QUERIES[0], []) == []
    assert reranker.rerank_many([], []) == []
    found = reranker.rerank_many(QUERIES, [[], hits_of(PASSAGES), []])
    assert [len(hits) for hits in found] == [0, 6, 0]


def test_one_hit(reranker):
    [found] = reranker.rerank(QUERIES[0], hits_of(PASSAGES[:1]))
    assert math.isfinite(found.score)


def test_equal_hits_keep_their_order(reranker):
    hits = [Hit(id=str(row), text="The same text.", score=0.5, scores={}, payload={}) for row in range(5)]
    assert [hit.id for hit in reranker.rerank(QUERIES[0], hits)] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("query", "hits", "error", "message"),
    [
        (None, [], TextError, "query 0: expected a string"),
        ("a\ud800", [], TextError, "lone surrogate"),
        ("fox", [Hit(id="h", text="\udc00", score=1.0, scores={}, payload={})], TextError, "query 0, hit 'h'"),
        ("fox", [Hit(id="h", text=None, score=1.0, scores={}, payload={})], TextError, "query 0, hit 'h'"),
        ("fox", [Hit(id="h", text="a", score=math.nan, scores={}, payload={})], InputError, "its score is nan"),
        ("fox", [Hit(id="h", text="a", score=None, scores={}, payload={})], InputError, "its score is None"),
        ("fox", ["a text"], InputError, "query 0: expected hits, got str"),
        ("fox", None, InputError, "hits of query 0: expected a list, got NoneType"),
    ],
)
def test_bad_input_is_named(reranker, query, hits, error, message):
    with pytest.raises(error, match=message):
        reranker.rerank(query, hits)


def test_calls_that_cannot_work(reranker):
    with pytest.raises(InputError, match="2 queries, but 1 lists of hits"):
        reranker.rerank_many(QUERIES[:2], [hits_of(PASSAGES)])
    for limit in (0, -1):
        with pytest.raises(ConfigurationError, match="limit"):
            reranker.rerank(QUERIES[0], hits_of(PASSAGES), limit)
    with pytest.raises(TextError, match="expected a list"):
        reranker.rerank_many("fox", [[]])
    with pytest.raises(InputError, match="lists of hits: expected a list, got NoneType"):
        reranker.rerank_many(["fox"], None)


def test_maxsim_by_hand():
    first, second = np.array([[1.0, 0.0], [0.8, 0.6]], np.float32), np.array([[0.6, 0.8]], np.float32)
    query = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    np.testing.assert_allclose(maxsim(query, [first, second]), [(1.0 + 0.6) / 2, (0.6 + 0.8) / 2], rtol=1e-6)
    np.testing.assert_allclose(maxsim(second, [second, first, second]), [1.0, 0.96, 1.0], rtol=1e-6)


def test_maxsim_without_tokens():
    nothing, first = np.empty((0, 2), np.float32), np.array([[1.0, 0.0], [0.8, 0.6]], np.float32)
    query = np.array([[0.6, 0.8]], np.float32)
    texts = [nothing, first, nothing, nothing, query, nothing]
    np.testing.assert_allclose(maxsim(query, texts), [0, 0.96, 0, 0, 1, 0], rtol=1e-6)
    for empty in (maxsim(nothing, texts), maxsim(query, [nothing] * 6)):
        np.testing.assert_array_equal(empty, np.zeros(6, np.float32))


def test_maxsim_does_not_depend_on_blocks(tiny, monkeypatch):
    """Queries that share texts, far apart: every block has its part of them."""
    texts = [f"fox {number} cat {'sun ' * (number % 7)}" for number in range(40)]
    lists = [hits_of(texts[start::step]) for start, step in ((0, 1), (3, 2), (1, 5))] + [hits_of(texts[::-1])]
    queries = [*QUERIES, "the sun"]
    whole = MaxSimReranker(tiny).rerank_many(queries, lists)
    monkeypatch.setattr("twinvec.rerankers.maxsim._TEXTS_AT_ONCE", 7)
    for found, expected in zip(MaxSimReranker(tiny).rerank_many(queries, lists), whole, strict=True):
        ours, theirs = ({hit.id: hit.scores["maxsim"] for hit in hits} for hits in (found, expected))
        assert ours == pytest.approx(theirs, abs=1e-5)
        assert len(set(theirs.values())) > len(theirs) / 2


def test_maxsim_is_the_mean_of_the_best_cosines(tiny, maxsim_reranker):
    found = maxsim_reranker.rerank(QUERIES[0], hits_of(PASSAGES))
    [query] = tiny.encode_tokens(QUERIES[:1], prompt="query")
    for hit in found:
        [states] = tiny.encode_tokens([hit.text], prompt="document")
        assert hit.scores["maxsim"] == pytest.approx((query @ states.T).max(1).mean(), abs=1e-5)


def test_a_text_finds_itself(encoder):
    texts = [text for text in PASSAGES if text]
    for text in texts:
        best = MaxSimReranker(encoder, mix=1.0).rerank(text, hits_of(texts))[0]
        assert best.text == text
        assert best.scores["maxsim"] == pytest.approx(1, abs=1e-4)


def test_equal_scores_are_standardised_to_0():
    """The mean of three times 0.1 is not 0.1."""
    equal, scores = np.full(3, 0.1), np.array([0.3, 0.1, 0.2])
    assert mixed_scores(equal, equal, 0.4).tolist() == [0, 0, 0]
    expected = 0.4 * ((scores - scores.mean()) / scores.std())
    assert mixed_scores(equal, scores, 0.4).tolist() == expected.tolist()


def test_mix_goes_from_one_order_to_the_other(tiny):
    hits = hits_of(PASSAGES)
    before = [hit.id for hit in sorted(hits, key=lambda hit: -hit.score)]
    assert [hit.id for hit in MaxSimReranker(tiny, mix=0).rerank(QUERIES[0], hits)] == before
    alone = MaxSimReranker(tiny, mix=1).rerank(QUERIES[0], hits)
    assert [hit.scores["maxsim"] for hit in alone] == sorted((hit.scores["maxsim"] for hit in alone), reverse=True)
    assert [hit.id for hit in alone] != before
    standard = lambda values: (values - values.mean()) / values.std()  # noqa: E731
    first = standard(np.array([hit.score for hit in hits]))
    of_id = {hit.id: hit.scores["maxsim"] for hit in alone}
    second = standard(np.array([of_id[hit.id] for hit in hits]))
    mixed = {hit.id: value for hit, value in zip(hits, 0.25 * first + 0.75 * second, strict=True)}
    for hit in MaxSimReranker(tiny, mix=0.75).rerank(QUERIES[0], hits):
        assert hit.score == pytest.approx(mixed[hit.id], abs=1e-3)


@pytest.mark.parametrize("mix", [-0.1, 1.1, math.nan])
def test_a_mix_outside_its_range(tiny, mix):
    with pytest.raises(ConfigurationError, match="mix must lie between 0 and 1"):
        MaxSimReranker(tiny, mix=mix)


def test_pairs_are_scored_in_order_and_once(cross_encoder):
    pairs = [(query, text) for query in QUERIES for text in PASSAGES]
    scores = cross_encoder.score(pairs)
    assert scores.dtype == np.float32
    assert scores.shape == (18,)
    alone = np.concatenate([cross_encoder.score([pair]) for pair in pairs])
    np.testing.assert_allclose(scores, alone, atol=1e-5)
    np.testing.assert_array_equal(cross_encoder.score(pairs[:3] * 3), np.tile(cross_encoder.score(pairs[:3]), 3))
    assert cross_encoder.score([]).shape == (0,)
    assert cross_encoder.score([["fox", "cat"]]).shape == (1,)


@pytest.mark.parametrize("pair", ["ab", ("a",), ("a", "b", "c"), None, 3, ("a", None), ("\ud800", "b")])
def test_what_is_no_pair(cross_encoder, pair):
    with pytest.raises(InputError, match="pair 1"):
        cross_encoder.score([("fox", "cat"), pair])


@pytest.mark.parametrize("pairs", [None, 3])
def test_what_is_no_list_of_pairs(cross_encoder, pairs):
    with pytest.raises(InputError, match=f"pairs: expected a list, got {type(pairs).__name__}"):
        cross_encoder.score(pairs)


def test_long_pairs_are_cut_counted_and_reported_once(tiny_cross_encoder, caplog):
    reranker = CrossEncoderReranker(tiny_cross_encoder("bert"), max_tokens=8)
    pairs = [("fox", "cat"), ("fox", "cat " * 50), ("fox " * 50, "cat"), ("fox", "cat " * 50)]
    with caplog.at_level(logging.DEBUG, logger="twinvec"):
        reranker.score(pairs)
        reranker.rerank("fox", hits_of(["cat " * 50, "cat"]))
    assert reranker.truncated == 3  # distinct pairs of each call
    told = [record for record in caplog.records if "and were truncated" in record.message]
    assert [record.levelno for record in told] == [logging.WARNING, logging.DEBUG]
    assert "2 of 3 distinct pairs exceed the 8-token limit of" in told[0].message
    assert "; see CrossEncoderReranker.truncated)" in told[0].message


def test_the_longest_pair_is_fixed(cross_encoder):
    """The tokenizer would ignore a limit that is assigned later."""
    with pytest.raises(AttributeError, match="max_tokens"):
        cross_encoder.max_tokens = 8


def test_copies_load_an_engine_of_their_own(cross_encoder):
    again = pickle.loads(pickle.dumps(cross_encoder))
    assert again.engine is not cross_encoder.engine
    pairs = [(query, text) for query in QUERIES for text in PASSAGES]
    np.testing.assert_array_equal(again.score(pairs), cross_encoder.score(pairs))


def test_a_broken_engine_is_noticed(tiny_cross_encoder, monkeypatch):
    reranker = CrossEncoderReranker(tiny_cross_encoder("bert"))
    logits = reranker.engine.logits
    monkeypatch.setattr(reranker.engine, "logits", lambda batch: logits(batch) * np.nan)
    with pytest.raises(BadVectorError, match="a score is not finite"):
        reranker.rerank(QUERIES[0], hits_of(PASSAGES))


def test_models_that_are_no_cross_encoders(tiny_model, tiny_cross_encoder):
    with pytest.raises(UnsupportedModelError, match="expected a sequence classifier alone"):
        CrossEncoderReranker(tiny_model("bert"))
    with pytest.raises(UnsupportedModelError, match="3 labels; a reranker has one"):
        CrossEncoderReranker(tiny_cross_encoder("bert", labels=3))


def test_the_number_of_labels_may_be_stated_alone(tiny_cross_encoder, tmp_path):
    folder = shutil.copytree(tiny_cross_encoder("bert"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    assert len(config.pop("id2label")) == 1
    (folder / "config.json").write_text(json.dumps(config | {"num_labels": 1}))
    expected = CrossEncoderReranker(tiny_cross_encoder("bert")).score([("fox", "dog")])
    np.testing.assert_array_equal(CrossEncoderReranker(folder).score([("fox", "dog")]), expected)
    (folder / "config.json").write_text(json.dumps(config | {"num_labels": 3}))
    with pytest.raises(UnsupportedModelError, match="3 labels; a reranker has one"):
        CrossEncoderReranker(folder)


def test_damaged_cross_encoders(tiny_cross_encoder, tmp_path):
    folder = shutil.copytree(tiny_cross_encoder("bert"), tmp_path / "model")
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-5])
    with pytest.raises(ModelIntegrityError, match=r"model\.safetensors: not a complete"):
        CrossEncoderReranker(folder)
    weights.unlink()
    (folder / "pytorch_model.bin").write_bytes(data)
    with pytest.raises(ModelIntegrityError, match=r"pytorch_model\.bin: pickled weights are refused"):
        CrossEncoderReranker(folder)


@pytest.mark.parametrize(
    "options",
    [{"max_tokens": 4}, {"max_tokens": 67}, {"token_budget": 0}, {"device": "abacus"}, {"engine": "abacus"}],
)
def test_settings_that_cannot_work(tiny_cross_encoder, options):
    with pytest.raises(ConfigurationError):
        CrossEncoderReranker(tiny_cross_encoder("bert"), **options)


@pytest.mark.parametrize("options", [{"max_tokens": 20.0}, {"max_tokens": True}, {"token_budget": "x"}])
def test_numbers_that_are_none(tiny_cross_encoder, options):
    with pytest.raises(ConfigurationError, match="must be a whole number"):
        CrossEncoderReranker(tiny_cross_encoder("bert"), **options)


def test_the_relevance_after_a_cross_encoder_is_the_logistic_function_of_the_logit(cross_encoder):
    (first, second) = cross_encoder.rerank(QUERIES[0], hits_of(PASSAGES[:2]))
    for hit in (first, second):
        assert hit.relevance == pytest.approx(hit.scores["cross-encoder"], abs=1e-4)  # its activation is the sigmoid
    spec = cross_encoder._model.spec
    logits = np.array([0.0, 2.0, -2.0], dtype=np.float32)
    plain = replace(spec, activate=ACTIVATIONS["torch.nn.Identity"])
    assert plain.probabilities(plain.activate(logits)) == pytest.approx(1 / (1 + np.exp(-logits)))
    assert spec.probabilities(spec.activate(logits)) == pytest.approx(1 / (1 + np.exp(-logits)))


def test_maxsim_keeps_the_relevance_of_hits_where_its_model_is_not_known(maxsim_reranker, encoder):
    hits = [replace(hit, relevance=0.5) for hit in hits_of([PASSAGES[0], "Interest rates rose again."])]
    assert {hit.relevance for hit in maxsim_reranker.rerank(QUERIES[0], hits)} == {0.5}
    fox, rates = sorted(MaxSimReranker(encoder).rerank(QUERIES[0], hits), key=lambda hit: hit.id)
    assert fox.relevance > 0.5 > rates.relevance


def test_a_reranker_with_token_states_finds_the_passage_anew(tiny, maxsim_reranker):
    text = f"{PASSAGES[0]} {PASSAGES[1] * 4} Then nothing. {PASSAGES[2]}"
    asked = PASSAGES[2].rstrip(".")
    before = Passage(text[:4], 0, 4)
    hits = [Hit("a", text, 1.0, passage=before), Hit("b", "No passage is wanted here.", 0.5)]
    found = {hit.id: hit.passage for hit in maxsim_reranker.rerank(asked, hits)}
    assert found["b"] is None
    assert PASSAGES[2] in found["a"].text
    assert found["a"].text == text[found["a"].start : found["a"].end]
    assert "lines" in [found["a"].text[start:end] for start, end in found["a"].matches]

    class Mute:
        encode_tokens = tiny.encode_tokens

    assert {hit.id: hit.passage for hit in MaxSimReranker(Mute()).rerank(asked, hits)} == {"a": before, "b": None}


def test_tokens_of_the_prompt_stand_nowhere(tiny):
    text = "fox in the sun"
    (spans,) = tiny.token_spans([text], prompt="query")
    (states,) = tiny.encode_tokens([text], prompt="query")
    assert len(spans) == len(states)
    places = [tuple(each) for each in spans.tolist() if each[1] > each[0]]
    assert places[0][0] == 0
    assert places[-1][1] == len(text)
    assert len(places) < len(spans) - 2, "those of the prompt and the special ones"


@pytest.mark.parametrize("wrong", [None, "default", Encoder, object()], ids=["None", "name", "class", "object"])
def test_what_has_no_token_states_is_refused_at_once(wrong):
    with pytest.raises(ConfigurationError, match="encoder: expected an encoder of token states, such as Encoder"):
        MaxSimReranker(wrong)


def test_a_reranker_shows_its_encoder(tiny):
    assert repr(MaxSimReranker(tiny, mix=0.5)) == f"MaxSimReranker({tiny!r}, mix=0.5)"


@pytest.mark.parametrize("name", ["maxsin", "default", "x" * 5000])
def test_an_unknown_name_tells_what_a_reranker_may_be(name):
    with pytest.raises(ModelNotFoundError, match=f"no reranker '{name[:50]}.*: expected 'maxsim', or a cross-encoder"):
        open_reranker(name)
