"""The folders that ``models`` writes are, byte by byte, those that sentence-transformers saves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import models
from cases import as_sentence_transformers_6_2

CASES = {
    **{kind: (kind, {}) for kind in models.BACKBONES},
    "dense": ("bert", {"dense": ((24, "Tanh"), (16, "Identity")), "prompts": {"query": "find: ", "topic": "Größe "}}),
    "poolings": ("roberta", {"normalize": False, "pooling": ("cls", "mean"), "max_tokens": 40, "truncate_dim": 10}),
    "prompts": ("mpnet", {"include_prompt": False, "default_prompt": "any", "prompts": {"any": "a: "}, "seed": 3}),
    "dense on poolings": ("bert", {"dense": ((8, "GELU"),), "pooling": ("mean", "max"), "seed": 5}),
}
CROSS_ENCODERS = {
    **{kind: (kind, {}) for kind in models.BACKBONES},
    "three labels": ("roberta", {"labels": 3}),
    "identity": ("bert", {"activation_fn": torch.nn.Identity(), "seed": 1}),
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def saved_model(folder: Path, backbone: Path, options: dict[str, Any]) -> Path:
    """What sentence-transformers makes of a backbone and the options of ``models.build``."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    limits = {"max_seq_length": options["max_tokens"]} if "max_tokens" in options else {}
    pooling = options.get("pooling", ("mean",))
    modules = [Transformer(str(backbone), **limits)]
    modules.append(Pooling(models.HIDDEN, tuple(pooling), include_prompt=options.get("include_prompt", True)))
    size = models.HIDDEN * len(pooling)
    for wanted, activation in options.get("dense", ()):
        modules.append(Dense(size, wanted, activation_function=getattr(torch.nn, activation)()))
        size = wanted
    if options.get("normalize", True):
        modules.append(Normalize())
    model = SentenceTransformer(
        modules=modules,
        prompts=options.get("prompts"),
        default_prompt_name=options.get("default_prompt"),
        truncate_dim=options.get("truncate_dim"),
        device="cpu",
    )
    model.save(str(folder), create_model_card=False)
    return folder


@as_sentence_transformers_6_2  # which saves "use_cache": false
@pytest.mark.parametrize("case", CASES)
def test_a_model(tmp_path, case):
    kind, options = CASES[case]
    torch.manual_seed(options.get("seed", 0))
    theirs = saved_model(tmp_path / "theirs", models.save_backbone(tmp_path / "backbone", kind), options)
    ours = models.build(tmp_path / "ours", kind, **options)
    assert files(ours) == files(theirs)


@as_sentence_transformers_6_2
@pytest.mark.parametrize("case", CROSS_ENCODERS)
def test_a_cross_encoder(tmp_path, case):
    from sentence_transformers import CrossEncoder

    kind, options = CROSS_ENCODERS[case]
    torch.manual_seed(options.get("seed", 0))
    backbone = models.save_backbone(tmp_path / "backbone", kind, labels=options.get("labels", 1))
    model = CrossEncoder(str(backbone), device="cpu", activation_fn=options.get("activation_fn"))
    model.save_pretrained(str(tmp_path / "theirs"), create_model_card=False)
    assert files(models.build_cross_encoder(tmp_path / "ours", kind, **options)) == files(tmp_path / "theirs")


def test_a_model_that_lower_cases(tmp_path):
    plain, lower = (models.build(tmp_path / f"{case}", "roberta", lower_case=case) for case in (False, True))
    before, after = files(plain), files(lower)
    settings, lowered = (json.loads(each.pop("sentence_bert_config.json")) for each in (before, after))
    assert lowered == settings | {"do_lower_case": True}
    assert before == after
