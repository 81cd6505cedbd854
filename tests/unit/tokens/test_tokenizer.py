"""Token ids: ragged, equal to the library's own, cut and counted, and padded into batches."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
from twinvec import Encoder
from twinvec.errors import ModelIntegrityError, UnsupportedModelError
from twinvec.models.finding import find_model
from twinvec.tokens.tokenizer import TextTokenizer, TokenIds

TEXTS = ["", "fox", "the quick brown fox jumps over the lazy dog " * 5, "日本語 🎉", "Größe"]


@pytest.fixture(scope="module", params=models.BACKBONES)
def folder(request, tiny_model):
    return tiny_model(request.param)


def ragged(tokens: TokenIds) -> list[list[int]]:
    return [tokens.ids[start:end].tolist() for start, end in zip(tokens.offsets, tokens.offsets[1:], strict=False)]


def test_ids_are_those_of_transformers(folder):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(folder)
    tokens = TextTokenizer(folder, 20).encode(TEXTS)
    assert ragged(tokens) == theirs(TEXTS, truncation=True, max_length=20)["input_ids"]
    assert tokens.lengths.tolist() == [len(ids) for ids in ragged(tokens)]
    assert tokens.truncated.tolist() == [False, False, True, False, False]
    assert tokens.types is None
    assert TextTokenizer(folder, 20).pad_id == theirs.pad_token_id


def test_spans_say_where_tokens_stand(folder):
    tokenizer = TextTokenizer(folder, 20)
    spans = tokenizer.spans(TEXTS)
    assert [len(each) for each in spans] == tokenizer.encode(TEXTS).lengths.tolist()
    assert all(each.shape[1] == 2 for each in spans)
    text, places = TEXTS[2], [tuple(each) for each in spans[2].tolist() if each[1] > each[0]]
    assert places == sorted(places)
    assert "".join(text[start:end] for start, end in places).replace(" ", "").startswith("thequickbrown")
    assert {text[start] for start, end in places} <= set(text)


def test_pairs_are_those_of_transformers(folder):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(folder)
    pairs = [(first, second) for first in TEXTS for second in TEXTS]
    expected = theirs(*map(list, zip(*pairs, strict=True)), truncation=True, max_length=24)
    tokens = TextTokenizer(folder, 24).encode_pairs(pairs)
    assert ragged(tokens) == expected["input_ids"]
    assert tokens.truncated.tolist() == [TEXTS[2] in pair for pair in pairs]
    types = np.zeros_like(tokens.ids) if tokens.types is None else tokens.types
    found = [types[start:end].tolist() for start, end in pairwise(tokens.offsets)]
    assert found == expected.get("token_type_ids", [[0] * len(ids) for ids in expected["input_ids"]])


def test_counts_know_no_limit(folder):
    tokenizer = TextTokenizer(folder, 5)
    counts = tokenizer.count(TEXTS)
    assert counts.tolist() == TextTokenizer(folder, 10_000).encode(TEXTS).lengths.tolist()
    assert counts.max() > 40
    assert tokenizer.encode(TEXTS).lengths.tolist() == np.minimum(counts, 5).tolist()
    assert tokenizer.count([]).tolist() == []


def test_characters_of_unknown_tokens_are_counted(folder, monkeypatch):
    from transformers import AutoTokenizer

    for least in ("LEAST_PIECES", "LEAST_HAN"):
        monkeypatch.setattr(f"twinvec.tokens.scripts.{least}", 0)
    theirs = AutoTokenizer.from_pretrained(folder)
    tokenizer, texts = TextTokenizer(folder, 5), [*TEXTS, "fox ราคา fox"]
    found = tokenizer.count_unknown(texts)
    assert found[:, 0].tolist() == tokenizer.count(texts).tolist()
    lacks = [theirs.unk_token_id in ids for ids in theirs(texts)["input_ids"]]
    assert (found[:, 1] > 0).tolist() == lacks
    of_bytes = json.loads((folder / "tokenizer.json").read_text())["model"].get("unk_token", "") is None
    assert found[-1, 1] == (0 if of_bytes else len("ราคา"))
    assert lacks[:3] == [False] * 3
    assert TextTokenizer(folder, 5).count_unknown([]).shape == (0, 2)


@pytest.mark.parametrize("engine", ["torch", "openvino", "onnx"])
def test_a_token_without_an_embedding_is_refused(tiny_copy, engine):
    tokenizer = json.loads((tiny_copy / "tokenizer.json").read_text())
    size = json.loads((tiny_copy / "config.json").read_text())["vocab_size"]
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": size, "content": "foxy", "special": False})
    (tiny_copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    encoder = Encoder(tiny_copy, engine=engine)
    assert encoder.encode("fox").any()
    with pytest.raises(ModelIntegrityError, match=rf"gives the id {size} to 'foxy', but .* below {size} "):
        encoder.encode(["fox", "foxy"])


def test_words_that_are_split_are_counted(default_tokenizer):
    count = default_tokenizer.count_continued
    assert count(["The house, the lake.", "a debounced callback"]) == (2, 6)
    assert count(["das haus am see", "DEBOUNCED Haus 12 日本"]) == (1, 4)
    assert count([]) == count([" ", "?!", "12"]) == (0, 0)


def test_nothing():
    tokens = TextTokenizer(find_model("default").path, 10).encode([])
    assert (len(tokens.ids), tokens.offsets.tolist(), tokens.lengths.tolist()) == (0, [0], [])
    assert tokens.truncated.tolist() == []


def test_many_texts_keep_their_order():
    tokenizer = TextTokenizer(find_model("default").path, 32)
    texts = [f"text {number}" for number in range(2500)]  # more than are tokenised at once
    rows = ragged(tokenizer.encode(texts))
    assert rows[::500] == [ragged(tokenizer.encode([text]))[0] for text in texts[::500]]
    assert len(rows) == 2500


class Sized:
    """A Rust tokenizer that keeps how many texts each call had."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.calls = []

    def encode_batch_fast(self, texts):
        self.calls.append(len(texts))
        return self.tokenizer.encode_batch_fast(texts)


def test_long_texts_are_tokenised_few_at_a_time(monkeypatch):
    tokenizer = TextTokenizer(find_model("default").path, 8)
    texts = ["a fox", "", "a cat", "a long text of the sun", "a dog", "one", "two", "six"]
    pairs = list(zip(texts, reversed(texts), strict=True))
    whole = [tokenizer.encode(texts), tokenizer.encode_pairs(pairs)]
    counts = tokenizer.count(texts)
    monkeypatch.setattr("twinvec.tokens.tokenizer._CHARACTERS_AT_ONCE", 12)
    for name, function, inputs, sizes in (
        ("_truncating", tokenizer.encode, texts, [3, 1, 3, 1]),
        ("_whole", tokenizer.count, texts, [3, 1, 3, 1]),
        ("_truncating", tokenizer.encode_pairs, pairs, [2, 1, 1, 1, 2, 1]),
    ):
        watched = Sized(getattr(tokenizer, name))
        with monkeypatch.context() as patch:
            patch.setattr(tokenizer, name, watched)
            found = function(inputs)
        assert watched.calls == sizes
        if function == tokenizer.count:
            assert found.tolist() == counts.tolist()
        else:
            expected = whole[function == tokenizer.encode_pairs]
            assert ragged(found) == ragged(expected)
            assert found.truncated.tolist() == expected.truncated.tolist()


@pytest.fixture(scope="module")
def default_tokenizer():
    return TextTokenizer(find_model("default").path, 16)


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_categories=("Cs",)), max_size=200))
def test_any_text_has_tokens_within_the_limit(default_tokenizer, text):
    [ids] = ragged(default_tokenizer.encode([text]))
    assert 2 <= len(ids) <= 16
    assert ids[0] == 101
    assert ids[-1] == 102


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=20),
    data=st.data(),
)
def test_batches_hold_the_ids_and_padding(lengths, data):
    rows = [list(range(100 * row, 100 * row + length)) for row, length in enumerate(lengths)]
    flat = np.array([one for row in rows for one in row], dtype=np.int32)
    tokens = TokenIds(flat, np.cumsum([0, *lengths]), (flat % 2).astype(np.int8), np.zeros(len(lengths), dtype=bool))
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=10))
    batch = tokens.batch(np.array(chosen), pad_id=-1, prompt_tokens=3)
    assert batch.prompt_tokens == 3
    assert batch.ids_BT.dtype == batch.mask_BT.dtype == batch.types_BT.dtype == np.int64
    assert batch.ids_BT.shape == (len(chosen), max(1, max(lengths[row] for row in chosen)))
    for ids, mask, types, row in zip(batch.ids_BT, batch.mask_BT, batch.types_BT, chosen, strict=True):
        length = lengths[row]
        assert ids.tolist() == rows[row] + [-1] * (len(ids) - length)
        assert mask.tolist() == [1] * length + [0] * (len(ids) - length)
        assert types.tolist() == [one % 2 for one in rows[row]] + [0] * (len(ids) - length)


def test_a_vocabulary_of_old_is_converted(tmp_path):
    """Folders before the Rust tokenizers hold ``vocab.txt`` alone."""
    source = find_model("default").path
    tokenizer = TextTokenizer(source, 32)
    vocabulary = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    (tmp_path / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n", encoding="utf-8")
    for name in ("config.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    converted = TextTokenizer(tmp_path, 32)
    assert ragged(converted.encode(TEXTS)) == ragged(tokenizer.encode(TEXTS))


def test_a_tokenizer_in_python_is_refused(tiny_copy):
    """As of the Japanese models of BERT, which have no ``tokenizer.json``."""
    vocabulary = json.loads((tiny_copy / "tokenizer.json").read_text())["model"]["vocab"]
    (tiny_copy / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n", encoding="utf-8")
    (tiny_copy / "tokenizer.json").unlink()
    settings = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "basic"}
    (tiny_copy / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UnsupportedModelError, match="BertJapaneseTokenizer is not supported, since it is written in"):
        TextTokenizer(tiny_copy, 32)


@pytest.mark.parametrize("kind", ["PhobertTokenizer", "PhobertTokenizerFast", "BertJapaneseTokenizer"])
def test_a_tokenizer_whose_words_are_separated_in_python_is_refused(tiny_copy, kind):
    """Somebody may have made a ``tokenizer.json``, which cannot separate the words."""
    settings = json.loads((tiny_copy / "tokenizer_config.json").read_text())
    (tiny_copy / "tokenizer_config.json").write_text(json.dumps(settings | {"tokenizer_class": kind}))
    with pytest.raises(UnsupportedModelError, match=f"{kind.removesuffix('Fast')} is not supported, since its words"):
        TextTokenizer(tiny_copy, 32)


def test_a_vocabulary_of_sentencepiece_needs_its_package(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"model_type": "xlm-roberta"}')
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"")
    monkeypatch.setattr("twinvec.tokens.tokenizer.find_spec", lambda name: None)  # as if it were not installed
    with pytest.raises(ModelIntegrityError, match=r"sentencepiece\.bpe\.model needs .* pip install sentencepiece"):
        TextTokenizer(tmp_path, 32)


def test_a_chunker_gets_one_that_cuts_nothing():
    tokenizer = TextTokenizer(find_model("default").path, 8)
    own = tokenizer.for_chunking()
    assert len(own.encode("fox " * 100).ids) == 102
    own.enable_truncation(4)
    assert tokenizer.count(["fox " * 100]).tolist() == [102]
