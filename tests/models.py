"""Tiny random models of every supported backbone, built offline and saved by sentence-transformers itself.

Tokenizers are real ones, learnt from a few sentences; weights are random, with a spread that makes vectors of
different texts differ. A folder takes a second to build and a few hundred kilobytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

BACKBONES = ("bert", "distilbert", "modernbert", "mpnet", "roberta", "xlm-roberta")
HIDDEN = 32
POSITIONS = 66  # roberta-like models keep two of them for padding
LONGEST = {kind: POSITIONS - 2 if kind in ("mpnet", "roberta", "xlm-roberta") else POSITIONS for kind in BACKBONES}

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
    """Save a sentence-transformers model with a random backbone; ``dense`` lists (size, activation of torch.nn)."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(seed)
    backbone = save_backbone(folder.parent / f"{folder.name}-backbone", kind)
    limits = {} if max_tokens is None else {"max_seq_length": max_tokens}
    transformer = Transformer(str(backbone), **limits)
    modules: list[torch.nn.Module] = [transformer, Pooling(HIDDEN, tuple(pooling), include_prompt=include_prompt)]
    size = HIDDEN * len(pooling)
    for wanted, activation in dense:
        modules.append(Dense(size, wanted, activation_function=getattr(torch.nn, activation)()))
        size = wanted
    if normalize:
        modules.append(Normalize())
    model = SentenceTransformer(
        modules=modules,
        prompts=prompts,
        default_prompt_name=default_prompt,
        truncate_dim=truncate_dim,
        device="cpu",
    )
    model.save(str(folder), create_model_card=False)
    if lower_case:  # as older versions wrote it
        path = folder / "sentence_bert_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": True}))
    return folder


def build_cross_encoder(folder: Path, kind: str, *, labels: int = 1, seed: int = 0, **options: Any) -> Path:
    """Save a cross-encoder with a random backbone and head, as ``CrossEncoder.save_pretrained`` does."""
    import torch
    from sentence_transformers import CrossEncoder

    torch.manual_seed(seed)
    backbone = save_backbone(folder.parent / f"{folder.name}-backbone", kind, labels=labels)
    CrossEncoder(str(backbone), device="cpu", **options).save_pretrained(str(folder), create_model_card=False)
    return folder


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


@cache
def trained_tokenizer(kind: str) -> Any:
    """The tokenizer that goes with a backbone: WordPiece, byte-level BPE or Unigram, the same in every process."""
    if kind in ("bert", "distilbert", "mpnet"):
        return _word_piece(kind)
    return _unigram() if kind == "xlm-roberta" else _byte_pairs(kind)


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


def _unigram() -> Any:
    from tokenizers import pre_tokenizers
    from transformers import XLMRobertaTokenizer

    special = [(piece, 0.0) for piece in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = _pieces(pre_tokenizers.Metaspace())
    scored = [(piece, -8.0 / len(piece)) for piece in pieces]  # long ones first
    return XLMRobertaTokenizer(vocab=[*special, *scored, ("<mask>", 0.0)], model_max_length=512)


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
    elif kind in ("roberta", "xlm-roberta"):
        sizes |= {"type_vocab_size": 1}
    return AutoConfig.for_model(kind, **common, **sizes)
