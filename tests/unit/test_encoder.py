"""Encoder: shapes, order, what reaches the engine, streams, prompts, limits and bad input."""

from __future__ import annotations

import itertools
import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import numpy as np
import pandas
import polars
import pytest

from twinvec import Encoder
from twinvec.errors import (
    BadVectorError,
    ConfigurationError,
    EngineError,
    InputError,
    ModelError,
    ModelNotFoundError,
    TextError,
)

TEXTS = ["a fox", "", "the old cat sleeps in the warm sun", "a fox", " ", "fox a", "Größe, façade 日本語 🎉", "a fox"]


class Watched:
    """A real engine that notes the batches it gets; ``bend`` spoils what it gives back."""

    def __init__(self, engine, bend=lambda vectors: vectors):
        self._engine, self._bend, self.batches = engine, bend, []
        self.name, self.workers, self.token_budget = engine.name, engine.workers, engine.token_budget

    @property
    def rows(self):
        return sum(len(batch.ids_BT) for batch in self.batches)

    def vectors(self, batch):
        self.batches.append(batch)
        return self._bend(self._engine.vectors(batch))

    def states(self, batch):
        self.batches.append(batch)
        return self._bend(self._engine.states(batch))


@pytest.fixture(scope="module")
def tiny(tiny_model):
    return Encoder(tiny_model("bert"))


@pytest.fixture
def watched(tiny):
    """An encoder of its own over the tiny model, whose engine is watched."""
    return watch(tiny)


def watch(encoder, **options):
    again = pickle.loads(pickle.dumps(encoder))
    again._engine = Watched(encoder.engine, **options)
    return again


def test_shapes_and_types(tiny):
    many = tiny.encode(TEXTS)
    assert many.shape == (len(TEXTS), tiny.dim)
    assert many.dtype == np.float32
    assert tiny.normalizes
    np.testing.assert_allclose(np.linalg.norm(many, axis=1), 1, atol=1e-5)
    for method in (tiny.encode, tiny.encode_query, tiny.encode_document):
        one = method(TEXTS[2])
        assert one.shape == (tiny.dim,)
        np.testing.assert_allclose(one, many[2], atol=1e-6)
        assert method([]).shape == (0, tiny.dim)
        assert method([]).dtype == np.float32


def test_any_sequence_will_do(tiny):
    expected = tiny.encode(TEXTS)
    for texts in (tuple(TEXTS), np.array(TEXTS, dtype=object), dict.fromkeys(TEXTS).keys()):
        np.testing.assert_array_equal(tiny.encode(texts)[:3], expected[:3])


def test_order_is_restored(tiny):
    texts = [" ".join(["fox", "cat", "sun"][index % 3] for index in range(length)) for length in range(1, 60, 5)]
    shuffled = np.random.default_rng(0).permutation(len(texts))
    alone = np.stack([tiny.encode(text) for text in texts])
    np.testing.assert_allclose(tiny.encode([texts[i] for i in shuffled]), alone[shuffled], atol=1e-5)
    assert np.abs(alone[1:] - alone[:-1]).max(axis=1).min() > 1e-3  # a wrong order would show


def test_duplicates_are_computed_once(watched):
    vectors = watched.encode(TEXTS)
    assert watched.engine.rows == len(set(TEXTS))
    assert (vectors[0] == vectors[3]).all()
    assert (vectors[0] == vectors[7]).all()
    assert (vectors[0] != vectors[5]).any()


def test_batches_keep_the_budget(watched):
    watched._token_budget = 32
    watched.encode(["fox " * length for length in range(1, 30, 2)])
    sizes = [batch.ids_BT.shape for batch in watched.engine.batches]
    assert len(sizes) > 5
    assert all(rows == 1 or rows * width <= 32 for rows, width in sizes)


def test_nothing_is_computed_for_no_text(watched):
    assert watched.encode([]).shape == (0, watched.dim)
    assert watched.encode_tokens([]) == []
    assert list(watched.encode_stream([])) == []
    assert watched.count_tokens([]).shape == (0,)
    assert watched.engine.batches == []


@pytest.mark.parametrize("window", [1, 7, 100])
def test_stream_reads_no_further_than_a_window(watched, window):
    taken = 0

    def endless():
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield f"fox {number}"

    stream = watched.encode_stream(endless(), window=window)
    assert taken == 0
    for part in range(1, 4):
        vectors = next(stream)
        assert vectors.shape == (window, watched.dim)
        assert taken <= (part + 1) * window
    expected = watched.encode([f"fox {number}" for number in range(2 * window, 3 * window)])
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_stream_is_bounded_by_characters_too(tiny, monkeypatch):
    monkeypatch.setattr("twinvec.encoder._STREAM_CHARACTERS", 100)
    texts = [f"{number} {'fox ' * 10}" for number in range(8)]  # 42 characters each
    parts = list(tiny.encode_stream(texts))
    assert [len(part) for part in parts] == [3, 3, 2]
    np.testing.assert_allclose(np.concatenate(parts), tiny.encode(texts), atol=1e-5)


def test_stream_ends_with_what_is_left_and_closes(tiny):
    assert [len(part) for part in tiny.encode_stream((f"{n}" for n in range(5)), window=2)] == [2, 2, 1]
    stream = tiny.encode_stream(itertools.repeat("fox"), window=3)
    next(stream)
    stream.close()
    assert list(stream) == []


def test_stream_names_a_bad_text_by_its_place_in_the_whole(tiny):
    texts = ["fox"] * 10 + [None]
    stream = tiny.encode_stream(texts, window=4)
    assert len(next(stream)) == len(next(stream)) == 4
    with pytest.raises(TextError, match="text 10: expected a string, got NoneType"):
        next(stream)


@pytest.mark.parametrize("window", [0, -1])
def test_stream_refuses_a_senseless_call_at_once(tiny, window):
    with pytest.raises(ConfigurationError, match="window"):
        tiny.encode_stream(["fox"], window=window)
    with pytest.raises(ConfigurationError, match="not one string"):
        tiny.encode_stream("fox")


def test_token_states(tiny):
    texts = [*TEXTS, "the old cat"]
    states = tiny.encode_tokens(texts)
    counts = tiny.count_tokens(texts)
    assert [part.shape for part in states] == [(count, tiny.dim) for count in counts]
    assert len(set(counts)) > 3
    for part in states:
        assert part.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(tiny.encode_tokens([TEXTS[2]])[0], states[2], atol=1e-5)
    np.testing.assert_array_equal(states[0], states[3])


def test_token_states_pool_to_the_vector(tiny_model):
    encoder = Encoder(tiny_model("bert", normalize=False, pooling=("cls",)))
    [states] = encoder.encode_tokens([TEXTS[2]])
    vector = encoder.encode(TEXTS[2])
    np.testing.assert_allclose(states[0], vector / np.linalg.norm(vector), atol=1e-5)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["fox", 3], "text 1: expected a string, got int"),
        (["fox", None], "text 1: expected a string, got NoneType"),
        ([b"fox"], "text 0: expected a string, got bytes"),
        (["fox", "a\ud800b"], r"text 1: lone surrogate U\+D800 at character 1"),
        (b"fox", "expected a list of strings, got bytes"),
        (None, "expected a list of strings, got NoneType"),
        (3.5, "expected a list of strings, got float"),
        (str, "expected a list of strings, got type"),
        ([["fox"]], "text 0: expected a string, got list"),
        ({"fox"}, r"expected a list of strings, got set, which has no order; give a list: sorted\(texts\)"),
        ({"a": "fox"}, r"expected a list of strings, got dict; give its values: list\(texts.values\(\)\)"),
        (pandas.DataFrame({"text": ["fox"]}), r"got DataFrame; give the column of texts: list\(table\['text'\]\)"),
        (polars.DataFrame({"text": ["fox"]}), "got DataFrame; give the column of texts"),
    ],
)
def test_bad_texts_are_named_before_anything_is_computed(watched, texts, message):
    for method in (watched.encode, watched.encode_query, watched.encode_document):
        with pytest.raises(TextError, match=message):
            method(texts)
    with pytest.raises(TextError, match=message):
        watched.encode_tokens(texts)
    if not isinstance(texts, bytes):
        with pytest.raises(TextError, match=message):
            list(watched.encode_stream(texts))
    assert watched.engine.batches == []


def test_one_bad_text(tiny):
    with pytest.raises(TextError, match=r"^text: lone surrogate"):
        tiny.encode("\udfff")


def test_large_texts_are_refused_and_the_limit_can_be_set(tiny_model):
    encoder = Encoder(tiny_model("bert"), max_text_bytes=10)
    assert encoder.encode("0123456789").shape == (encoder.dim,)
    for text in ("01234567890", "日本語の"):
        with pytest.raises(TextError, match="more than the limit of 10"):
            encoder.encode([text])
        with pytest.raises(TextError, match=r"text 1: .* more than the limit of 10"):
            list(encoder.encode_stream(["fox", text]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_broken_engine_is_noticed(tiny, value):
    def spoil(vectors):
        vectors = vectors.copy()
        vectors[-1, -1] = value
        return vectors

    broken = watch(tiny, bend=spoil)
    for call in (broken.encode, broken.encode_query, broken.encode_document, broken.encode_tokens):
        with pytest.raises(BadVectorError, match="not finite"):
            call(["fox", "cat"])
    with pytest.raises(BadVectorError):
        next(broken.encode_stream(["fox"]))


def test_vectors_of_the_wrong_size_are_noticed(tiny):
    broken = watch(tiny, bend=lambda vectors: vectors[:, :-1])
    with pytest.raises(BadVectorError, match="expected 32"):
        broken.encode(["fox"])


def test_prompts(tiny_model):
    folder = tiny_model("bert", prompts={"query": "find: ", "document": "text: ", "topic": "about "})
    encoder = Encoder(folder)
    assert encoder.prompts == {"query": "find: ", "document": "text: ", "topic": "about "}
    assert encoder.document_prompt == "text: "
    plain = encoder.encode(["find: fox", "text: fox", "about fox", "fox"])
    given = [encoder.encode_query("fox"), encoder.encode_document("fox"), encoder.encode("fox", prompt="topic")]
    np.testing.assert_allclose(np.stack([*given, encoder.encode("fox")]), plain, atol=1e-5)
    with pytest.raises(ConfigurationError, match="no prompt 'title'; its prompts: document, query, topic"):
        encoder.encode("fox", prompt="title")
    with pytest.raises(ConfigurationError, match="no prompt"):
        encoder.encode_tokens(["fox"], prompt="title")
    with pytest.raises(ConfigurationError, match=r"encode_query uses the prompt 'query'; .* encode\("):
        encoder.encode_query("fox", prompt="topic")


def test_prompts_can_be_replaced(tiny_model, tiny):
    encoder = Encoder(tiny_model("bert"), prompts={"query": "find: "}, default_prompt="query")
    assert encoder.prompts == {"query": "find: ", "document": ""}
    np.testing.assert_allclose(encoder.encode("fox"), tiny.encode("find: fox"), atol=1e-5)
    np.testing.assert_allclose(encoder.encode("fox", prompt=""), tiny.encode("fox"), atol=1e-5)
    assert encoder.space != tiny.space


def test_overrides_are_those_of_the_beginning(tiny_model):
    prompts = {"query": "find: "}
    encoder = Encoder(tiny_model("bert"), prompts=prompts)
    prompts["query"] = "another: "
    assert encoder.overrides == {"prompts": {"query": "find: "}}


def test_long_texts_are_cut_counted_and_reported(tiny_model, caplog):
    encoder = Encoder(tiny_model("bert"), max_tokens=8)
    texts = ["fox", "fox " * 50, "cat " * 50, "fox " * 50]
    with caplog.at_level(logging.WARNING, logger="twinvec"):
        vectors = encoder.encode(texts)
    assert encoder.truncated == 2  # distinct texts
    assert "2 of 3 distinct texts exceed the 8-token limit of" in caplog.text
    np.testing.assert_allclose(vectors[1], encoder.encode("fox " * 6), atol=1e-5)
    assert (encoder.count_tokens(texts) > 8).tolist() == [False, True, True, True]
    assert [len(states) for states in encoder.encode_tokens(texts)] == [3, 8, 8, 8]
    assert encoder.truncated == 4
    assert caplog.text.count("distinct texts") == 1  # later ones are counted


@pytest.mark.parametrize("dim", [1, 5, 32])
def test_truncated_dimension(tiny, tiny_model, dim):
    encoder = Encoder(tiny_model("bert"), dim=dim)
    assert encoder.dim == dim
    whole = tiny.encode(TEXTS)[:, :dim]
    expected = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    assert (encoder.space == tiny.space) == (dim == 32)


def test_storage(tiny):
    vectors = tiny.encode(TEXTS)
    half = tiny.encode(TEXTS, storage="float16")
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, vectors.astype(np.float16))
    bits = tiny.encode(TEXTS, storage="binary")
    assert bits.dtype == np.uint8
    assert bits.shape == (len(TEXTS), 4)
    np.testing.assert_array_equal(np.unpackbits(bits, axis=1), vectors > 0)
    assert tiny.encode(TEXTS[0], storage="binary").shape == (4,)
    with pytest.raises(ConfigurationError, match="storage 'float8'"):
        tiny.encode(TEXTS, storage="float8")


@pytest.mark.parametrize("codes", [[[1, 2]], None, "codes"])
def test_codes_come_in_an_array(tiny, codes):
    with pytest.raises(
        InputError, match=f"expected a NumPy array of int8 codes in 32 columns, got {type(codes).__name__}"
    ):
        tiny.restore(codes)


def test_progress_is_told_in_texts(tiny):
    told = []
    tiny.encode(TEXTS, on_batch=told.append)
    assert sum(told) == len(set(TEXTS))


def test_a_callers_bar_moves_by_work(tiny):
    told = []
    texts = ["a", "word " * 1000, "word " * 2000, "a"]
    tiny.encode(texts, advance=lambda count, work: told.append((count, work)))
    assert [sum(each) for each in zip(*told, strict=True)] == [3, 3 * 8 + 1 + 2 * 4 * tiny.max_tokens]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "tensorflow"}, "engine 'tensorflow'"),
        ({"engine": "torch", "precision": "int3"}, "int3"),
        ({"engine": "torch", "device": "abacus"}, "abacus"),
        ({"dim": 0}, "dim must lie between 1 and the model's 32"),
        ({"dim": 33}, "dim must lie between 1 and the model's 32"),
        ({"max_tokens": 2}, "max_tokens must lie between 3 and the model's 66"),
        ({"max_tokens": 67}, "max_tokens must lie between 3 and the model's 66"),
        ({"token_budget": 0}, "token_budget"),
        ({"max_text_bytes": "8 MB"}, "max_text_bytes must be a whole number"),
        ({"token_budget": "x"}, "token_budget must be a whole number"),
        ({"dim": 3.0}, "dim must be a whole number"),
        ({"dim": True}, "dim must be a whole number"),
        ({"max_tokens": "9"}, "max_tokens must be a whole number"),
        ({"prompts": ["a"]}, "prompts must be a table"),
        ({"prompts": {"query": None}}, "prompts must be a table"),
        ({"prompts": iter(())}, "prompts must be a table"),
        ({"default_prompt": iter(())}, "default_prompt must be a string"),
        ({"default_prompt": "topic"}, "default_prompt 'topic'"),
    ],
)
def test_settings_that_cannot_work(tiny_model, options, message):
    with pytest.raises(ConfigurationError, match=message):
        Encoder(tiny_model("bert"), **options).encode("fox")


def test_prompts_may_be_any_mapping(tiny_model):
    given = {"query": "find: "}
    encoder = Encoder(tiny_model("bert"), prompts=MappingProxyType(given))
    given["query"] = "changed later"
    assert pickle.loads(pickle.dumps(encoder)).overrides == {"prompts": {"query": "find: "}}
    assert encoder.prompts["query"] == "find: "


@pytest.mark.parametrize("name", ["", "  ", None, 7])
def test_names_that_are_none(name):
    with pytest.raises(ConfigurationError, match="a model is a folder"):
        Encoder(name)


def test_names_that_lead_nowhere(tmp_path):
    for name in (tmp_path / "nowhere", "./nowhere", "~/nowhere/at/all", "a b"):
        with pytest.raises(ModelError, match=r"nowhere|a b"):
            Encoder(name)


def test_copies_load_an_engine_of_their_own(tiny):
    copy = pickle.loads(pickle.dumps(tiny))
    assert copy._engine is None
    assert copy.space == tiny.space
    np.testing.assert_array_equal(copy.encode(TEXTS), tiny.encode(TEXTS))


def test_many_threads_share_one_encoder(tiny_model):
    encoder = Encoder(tiny_model("bert"))
    calls = [[f"fox {thread} {number}" for number in range(30)] for thread in range(8)]
    barrier = threading.Barrier(8)

    def encode(texts):
        barrier.wait()
        return encoder.encode(texts)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(encode, calls))
    for texts, vectors in zip(calls, results, strict=True):
        np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-5)


def test_failure_of_the_engine_has_its_name(tiny):
    from twinvec.tokens.batching import Batch

    beyond = np.full((1, 3), 10**6)
    with pytest.raises(EngineError, match=r"engine \w+"):
        tiny.engine.vectors(Batch(beyond, np.ones_like(beyond)))


def test_repr_names_model_and_space(tiny):
    assert tiny.name in repr(tiny)
    assert tiny.space[:12] in repr(tiny)


def test_numbers_of_numpy_are_numbers(tiny_model):
    given = Encoder(tiny_model("bert"), dim=np.int64(7), max_tokens=np.int32(20), token_budget=np.int64(64))
    plain = Encoder(tiny_model("bert"), dim=7, max_tokens=20)
    assert given.space == plain.space
    assert given.overrides == plain.overrides
    assert all(type(value) is int for value in given.overrides.values())
    np.testing.assert_allclose(given.encode(["a fox"]), plain.encode(["a fox"]), atol=1e-6)


def test_a_column_of_a_table_is_encoded(tiny_model):
    encoder = Encoder(tiny_model("bert"))
    expected = encoder.encode(["a fox", "the old cat"])
    for column in (pandas.Series(["a fox", "the old cat"]), polars.Series(["a fox", "the old cat"])):
        np.testing.assert_array_equal(encoder.encode(column), expected)


def test_similarity_is_the_cosine_of_every_pair(tiny_model):
    encoder = Encoder(tiny_model("bert", normalize=False))
    first, second = encoder.encode(["a fox", "the old cat", "the dog"]), encoder.encode(["a fox", "the sun"])
    found = encoder.similarity(first, second)
    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)
    np.testing.assert_allclose(found, first @ second.T / lengths, atol=1e-6)
    assert (found.shape, found.dtype) == ((3, 2), np.float32)
    assert found[0, 0] == pytest.approx(1)
    np.testing.assert_allclose(encoder.similarity(first[1], second), found[1:2], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(first.tolist(), second.astype(np.float16)), found, atol=1e-2)
    assert encoder.similarity(first, np.zeros((1, encoder.dim))).tolist() == [[0], [0], [0]]
    assert encoder.similarity(encoder.encode([]), second).shape == (0, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a fox", "first: expected an array of numbers, got a str; encode texts first"),
        (["a fox", "the old cat"], "first: expected an array of numbers, got a list; encode texts first"),
        (None, "first: expected an array of numbers"),
        ([[1.0, 2.0], [1.0]], "first: expected an array of numbers"),
        (np.zeros((2, 32), np.int8), "first: expected float vectors, got int8; Encoder.restore"),
        (np.zeros((2, 4), np.uint8), "binary codes have no vectors"),
        (np.zeros((2, 31)), "first: vectors of 31 numbers, expected 32"),
        (np.zeros((2, 2, 32)), r"first: expected an array of shape \(n, dim\)"),
        (np.full((1, 32), np.nan), "first: row 0 is not finite"),
    ],
)
def test_similarity_of_other_things(tiny_model, given, message):
    encoder = Encoder(tiny_model("bert"))
    vector = encoder.encode("a fox")
    with pytest.raises(InputError, match=message):
        encoder.similarity(given, vector)
    with pytest.raises(InputError, match=message.replace("first", "second", 1)):
        encoder.similarity(vector, given)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("all-MiniLM-L6-v2", "; this model is 'default'"),
        ("all-minilm-l6-v2", "; this model is 'default'"),
        ("all-mpnet-base-v2", "; perhaps 'sentence-transformers/all-mpnet-base-v2'"),
        ("./all-mpnet-base-v2", "'org/name@commit'"),
    ],
)
def test_a_name_without_its_organisation_is_completed_in_the_error(name, hint):
    with pytest.raises(ModelNotFoundError) as raised:
        Encoder(name)
    assert str(raised.value).endswith(hint)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prmpt": "query"}, "unknown arguments: prmpt"),
        ({"storage": "bits"}, "storage 'bits' is not one of"),
        ({"prompt": "absent"}, "the model has no prompt 'absent'"),
        ({"storage": "int8"}, "int8 storage needs the value range"),
    ],
)
def test_wrong_options_of_a_stream_fail_at_the_call(tiny_model, options, said):
    with pytest.raises(ConfigurationError, match=said):
        Encoder(tiny_model("bert")).encode_stream(["a"], **options)


@pytest.mark.parametrize("name", ["dim", "max_tokens"])
def test_what_decides_the_vectors_does_not_change(tiny_model, name):
    encoder = Encoder(tiny_model("bert"))
    before = getattr(encoder, name)
    with pytest.raises(ConfigurationError, match=rf"make another encoder, Encoder\(..., {name}=8\)"):
        setattr(encoder, name, 8)
    assert getattr(encoder, name) == before
    assert getattr(Encoder(tiny_model("bert"), **{name: 8}), name) == 8
