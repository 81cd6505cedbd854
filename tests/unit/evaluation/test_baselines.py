"""The paper's baselines: averages of word vectors, and encoders without training for sentences."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec import Encoder
from twinvec.errors import ConfigurationError, InputError, ModelError
from twinvec.evaluation.models.baselines import load_model, untrained

GLOVE = "cats 1.0 0.0 0.5\ndogs 0.0 1.0 0.5\nsleep -1.0 0.25 0.0\n"


def test_glove_is_the_mean_of_known_words(write):
    model = load_model(f"glove:{write('tiny.txt', GLOVE)}")
    assert model.name == "glove:tiny.txt"
    found = model.encode(["cats sleep", "Dogs, dogs!", "nothing known"])
    np.testing.assert_allclose(found[:2], [[0, 0.125, 0.25], [0, 1, 0.5]], atol=1e-6)
    assert found[2].tolist() == [0, 0, 0]
    assert model.encode_query(["cats"]).tolist() == model.encode_document(["cats"]).tolist()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("only\nwords\n", ":2: expected a word and its numbers"),
        ("cats 1.0 x\n", ":1: expected a word and its numbers"),
        ("cats 1.0 0.5\ndogs 1.0 0.0\nsleep 1.0 much\n", ":3: no word vectors"),
    ],
)
def test_a_file_of_something_else_is_refused(write, content, said):
    path = write("tiny.txt", content)
    with pytest.raises(InputError) as error:
        load_model(f"glove:{path}")
    assert str(path) in str(error.value)
    assert said in str(error.value)


def test_a_missing_file_is_refused_and_nothing_is_fetched(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_model(f"glove:{tmp_path / 'glove.6B.300d.txt'}")


def test_untrained_encoders_give_the_states_of_the_backbone(tiny_model):
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = tiny_model("bert", dense=((16, "Tanh"),))
    texts = ["The quick brown fox.", "Retrieval finds documents; reranking orders them."]
    tokens = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder)(**tokens).last_hidden_state.numpy()
    mask = tokens["attention_mask"].numpy()[:, :, None]
    np.testing.assert_allclose(load_model(f"cls:{folder}").encode(texts), states[:, 0], atol=1e-5)
    mean = (states * mask).sum(1) / mask.sum(1)
    found = load_model(f"mean:{folder}").encode(texts)
    np.testing.assert_allclose(found, mean, atol=1e-5)
    assert found.shape[1] != Encoder(folder).dim  # the Dense head is left out


def test_what_is_no_baseline_is_a_model(tiny_model):
    folder = tiny_model("bert")
    assert isinstance(load_model(str(folder)), Encoder)
    with pytest.raises(ModelError):
        load_model("mean:/no/such/folder")
    with pytest.raises(ConfigurationError, match="'max' is not one of mean, cls"):
        untrained(folder, "max")


def test_texts_pass_the_input_gate(write):
    model = load_model(f"glove:{write('tiny.txt', GLOVE)}")
    with pytest.raises(InputError, match="surrogate"):
        model.encode(["cats", "\ud800"])
