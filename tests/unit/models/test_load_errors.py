"""Settings that no library expects: the model is refused by name, whatever the library raises."""

from __future__ import annotations

import json

import pytest

from twinvec import Encoder
from twinvec.errors import ModelError


@pytest.mark.parametrize(
    ("key", "value"),
    [("hidden_act", "nope"), ("num_attention_heads", 0), ("pad_token_id", 9999), ("hidden_size", 30)],
)
def test_a_setting_that_makes_no_sense_is_the_folders_fault(tiny_copy, key, value):
    config = json.loads((tiny_copy / "config.json").read_text())
    (tiny_copy / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(ModelError, match=str(tiny_copy)):
        Encoder(tiny_copy, engine="torch").encode("text")
