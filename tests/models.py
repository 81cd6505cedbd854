"""Tiny random models of every supported backbone, built offline, in the files that sentence-transformers writes.

sentence-transformers itself takes long to import, so the files are written here, and
``congruence/test_model_files.py`` compares them with those of the library byte by byte.

Tokenizers are real ones, learnt from a few sentences; weights are random, with a spread that makes vectors of
different texts differ. A folder takes a second to build and a few hundred kilobytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cases import few_quick

BACKBONES = ("bert", "camembert", "distilbert", "modernbert", "mpnet", "roberta", "xlm-roberta")
BACKBONE_CASES = few_quick(BACKBONES, quick=("bert", "mpnet"))
"""The backbones as cases of a test; most of them are left to the slow tests."""

HIDDEN = 32
POSITIONS = 66  # roberta-like models keep two of them for padding
OFFSET = ("camembert", "mpnet", "roberta", "xlm-roberta")
"""Backbones whose positions start after the padding id."""
LONGEST = {kind: POSITIONS - 2 if kind in OFFSET else POSITIONS for kind in BACKBONES}

_SENTENCES = (
    "The quick brown fox jumps over the lazy dog while the old cat sleeps in the warm sun.",
    "Retrieval finds documents; reranking orders them by looking at query and document together.",
    "In 1969 two men walked on the moon, 384,400 km away from home, and came back safely.",
    "How do I compare two files and show only the lines that differ between them?",
    "Größe, façade, naïve, Ærøskøbing, Łódź, Ελλάδα, Москва, İstanbul: words with marks and other letters.",
    "日本語の文章 と 中文的句子 한국어 문장 العربية עברית हिन्दी ไทย",
    "def search(query, limit=10): return [hit for hit in hits if hit.score > 0.5]  # code",
)


def build(
    folder: Path,
    kind: str,
    *,
    pooling: Sequence[str] = ("mean",),
    dense: Sequence[tuple[int, str]] = (),
    normalize: bool = True,
    include_prompt: bool = True,
    max_tokens: int | None = None,
    lower_case: bool = False,
    prompts: dict[str, str] | None = None,
    default_prompt: str | None = None,
    truncate_dim: int | None = None,
    seed: int = 0,
) -> Path:
    """Write a sentence-transformers model with a random backbone; ``dense`` lists (size, activation of torch.nn)."""
    import torch

    torch.manual_seed(seed)
    save_backbone(folder, kind)
    modes = pooling[0] if len(pooling) == 1 else list(pooling)
    settings = {"embedding_dimension": HIDDEN * len(pooling), "pooling_mode": modes, "include_prompt": include_prompt}
    modules = [("sentence_transformer.modules.pooling.Pooling", settings | {"embedding_dimension": HIDDEN})]
    size = HIDDEN * len(pooling)
    for position, (wanted, activation) in enumerate(dense, 2):
        modules.append(
            ("base.modules.dense.Dense", _save_dense(folder / f"{position}_Dense", size, wanted, activation))
        )
        size = wanted
    if normalize:
        modules.append(("base.modules.normalize.Normalize", dict(_VECTOR)))
    transformer = {"transformer_task": "feature-extraction"} | _reads_text("last_hidden_state", "token_embeddings")
    _save_modules(folder, transformer, modules, max_tokens)
    if lower_case:  # as older versions wrote it
        (folder / "sentence_bert_config.json").write_text(json.dumps(transformer | {"do_lower_case": True}))
    described = {
        "default_prompt_name": default_prompt,
        "model_type": "SentenceTransformer",
        "prompts": {"query": "", "document": "", **(prompts or {})},
        "similarity_fn_name": "cosine",
    }
    _describe(folder, described | ({} if truncate_dim is None else {"truncate_dim": truncate_dim}))
    return folder


def export(folder: Path) -> Path:
    """Write a tiny model with its graph, so that a process of it starts without torch; return its folder."""
    built = build(folder / "built", "bert")
    command = [sys.executable, "-m", "twinvec", "export", str(built), "-o", str(folder / "tiny")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "tiny"


def build_cross_encoder(folder: Path, kind: str, *, labels: int = 1, seed: int = 0, activation_fn: Any = None) -> Path:
    """Write a cross-encoder with a random backbone and head, as ``CrossEncoder.save_pretrained`` does."""
    import torch

    torch.manual_seed(seed)
    save_backbone(folder, kind, labels=labels)
    _save_modules(folder, {"transformer_task": "sequence-classification"} | _reads_text("logits", "scores"), [], None)
    activation_fn = activation_fn or (torch.nn.Sigmoid() if labels == 1 else torch.nn.Identity())
    activation = f"{type(activation_fn).__module__}.{type(activation_fn).__name__}"
    described = {"activation_fn": activation, "default_prompt_name": None, "model_type": "CrossEncoder", "prompts": {}}
    _describe(folder, described)
    return folder


_VECTOR = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}


def _reads_text(output: str, name: str) -> dict[str, Any]:
    return {
        "modality_config": {"text": {"method": "forward", "method_output_name": output}},
        "module_output_name": name,
    }


def _save_dense(folder: Path, size: int, wanted: int, activation: str) -> dict[str, Any]:
    """Save the weights of a Dense module and return its settings."""
    import torch
    from safetensors.torch import save_file

    layer, function = torch.nn.Linear(size, wanted), getattr(torch.nn, activation)
    folder.mkdir()
    save_file(
        {"linear.bias": layer.bias.detach(), "linear.weight": layer.weight.detach()}, folder / "model.safetensors"
    )
    sizes = {"in_features": size, "out_features": wanted, "bias": True}
    return {**sizes, "activation_function": f"{function.__module__}.{function.__name__}", **_VECTOR}


def _save_modules(
    folder: Path, transformer: dict[str, Any], modules: list[tuple[str, dict[str, Any]]], max_tokens: int | None
) -> None:
    """Write modules.json and the settings of each module, the transformer's first."""
    from huggingface_hub import is_offline_mode

    (folder / "sentence_bert_config.json").write_text(json.dumps(transformer, indent=4))
    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}]
    for position, (module, settings) in enumerate(modules, 1):
        path = f"{position}_{module.rpartition('.')[2]}"
        listed.append({"idx": position, "name": str(position), "path": path, "type": f"sentence_transformers.{module}"})
        (folder / path).mkdir(exist_ok=True)
        (folder / path / "config.json").write_text(json.dumps(settings, indent=4))
    (folder / "modules.json").write_text(json.dumps(listed, indent=2))
    loaded = {"is_local": True, "local_files_only": is_offline_mode()}
    _change(folder / "tokenizer_config.json", loaded | {"model_max_length": max_tokens or POSITIONS})
    if "use_cache" in json.loads((folder / "config.json").read_text()):
        _change(folder / "config.json", {"use_cache": False})


def _change(path: Path, changes: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=2, sort_keys=True) + "\n")


def _describe(folder: Path, described: dict[str, Any]) -> None:
    """Write config_sentence_transformers.json, with the versions that are installed."""
    import torch

    versions = {
        "pytorch": torch.__version__,  # with the build, which the version of its distribution on PyPI lacks
        "sentence_transformers": version("sentence-transformers"),
        "transformers": version("transformers"),
    }
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"__version__": versions, **described}, indent=2, sort_keys=True)
    )


def save_backbone(folder: Path, kind: str, labels: int | None = None) -> Path:
    """Save a bare random encoder, or a classifier where ``labels`` is given, with its tokenizer."""
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification

    tokenizer = trained_tokenizer(kind)
    extra = {} if labels is None else {"num_labels": labels}
    config = _config(kind, tokenizer, extra)
    model = (AutoModel if labels is None else AutoModelForSequenceClassification).from_config(config)
    with torch.no_grad():
        for name, values in model.named_parameters():
            if values.dim() > 1:  # the library's own initialisation is so small that all texts look alike
                values.normal_(std=0.25)
            elif name.endswith("bias"):
                values.normal_(std=0.1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def give_tokenizer(folder: Path, kind: str, tokenizer_class: str | None) -> Path:
    """Give a model the tokenizer of another backbone; ``tokenizer_class`` is the class that its settings name."""
    tokenizer = trained_tokenizer(kind)
    tokenizer.save_pretrained(folder)
    _change(folder / "tokenizer_config.json", {"tokenizer_class": tokenizer_class, "model_max_length": POSITIONS})
    _change(folder / "config.json", {"pad_token_id": tokenizer.pad_token_id})
    return folder


@cache
def trained_tokenizer(kind: str) -> Any:
    """The tokenizer that goes with a backbone: WordPiece, byte-level BPE or Unigram, the same in every process."""
    if kind in ("bert", "distilbert", "mpnet"):
        return _word_piece(kind)
    return _unigram(kind) if kind in ("camembert", "xlm-roberta") else _byte_pairs(kind)


def _pieces(pre_tokenizer: Any, normalizer: Any = None) -> list[str]:
    """What byte pair encoding makes of the sentences: unlike the other trainers, it leaves nothing to chance."""
    from tokenizers import Tokenizer, models, normalizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer or normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(_SENTENCES, trainers.BpeTrainer(vocab_size=500))
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=lambda piece: vocabulary[piece])


def _word_piece(kind: str) -> Any:
    from tokenizers import normalizers, pre_tokenizers
    from transformers import BertTokenizer, MPNetTokenizer

    if kind == "mpnet":
        special = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
    else:
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = _pieces(pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer())
    vocabulary = [*special, *pieces, *(f"##{piece}" for piece in pieces)]
    family = MPNetTokenizer if kind == "mpnet" else BertTokenizer
    return family(vocab={piece: row for row, piece in enumerate(vocabulary)}, model_max_length=512)


def _byte_pairs(kind: str) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, RobertaTokenizer

    roberta = kind == "roberta"
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if roberta else ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(
        _SENTENCES,
        trainers.BpeTrainer(
            vocab_size=500, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    if roberta:
        learnt = json.loads(tokenizer.to_str())["model"]
        merges = [tuple(merge) for merge in learnt["merges"]]
        return RobertaTokenizer(vocab=learnt["vocab"], merges=merges, model_max_length=512)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        model_max_length=8192,
        model_input_names=["input_ids", "attention_mask"],
    )


def _unigram(kind: str) -> Any:
    from tokenizers import pre_tokenizers
    from transformers import CamembertTokenizer, XLMRobertaTokenizer

    special = [(piece, 0.0) for piece in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = _pieces(pre_tokenizers.Metaspace())
    scored = [(piece, -8.0 / len(piece)) for piece in pieces]  # long ones first
    family = CamembertTokenizer if kind == "camembert" else XLMRobertaTokenizer
    return family(vocab=[*special, *scored, ("<mask>", 0.0)], model_max_length=512)


def _config(kind: str, tokenizer: Any, extra: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    common = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": POSITIONS,
        "pad_token_id": tokenizer.pad_token_id,
        **extra,
    }
    if kind == "distilbert":
        sizes: dict[str, Any] = {"dim": HIDDEN, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}
    else:
        sizes = {
            "hidden_size": HIDDEN,
            "intermediate_size": 64,
            "num_hidden_layers": 4 if kind == "modernbert" else 2,
            "num_attention_heads": 4,
        }
    if kind == "modernbert":
        sizes |= {"local_attention": 8, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
    elif kind in ("camembert", "roberta", "xlm-roberta"):
        sizes |= {"type_vocab_size": 1}
    return AutoConfig.for_model(kind, **common, **sizes)
