"""Translate sentence-transformers arguments, which the embedding classes of LangChain and LlamaIndex accept.

If twinvec has the same argument under another name, the argument is renamed. An argument that does not change the
vectors is ignored. Any other argument is refused by name, because ignoring it would change the vectors silently.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from twinvec.errors import ConfigurationError
from twinvec.support.checks import check_choice

_LOADING = {
    "device": "device",
    "revision": "revision",
    "truncate_dim": "dim",
    "prompts": "prompts",
    "default_prompt_name": "default_prompt",
    "backend": "engine",
    "token": "token",
    "local_files_only": "local_files_only",
}
"""Argument of ``SentenceTransformer`` -> argument of ``open_encoder``."""
_LOADING_IDLE = ("similarity_fn_name", "model_card_data")
_LOADING_EMPTY = ("tokenizer_kwargs", "processor_kwargs", "config_kwargs")
_DTYPES = ("auto", "float32", "bfloat16", "float16")
_ENCODE = ("prompt", "prompt_name", "normalize_embeddings", "truncate_dim", "device", "show_progress_bar")
_ENCODE_IDLE = ("batch_size", "chunk_size", "convert_to_numpy", "convert_to_tensor")
_ENCODE_FIXED = {"precision": "float32", "output_value": "sentence_embedding", "pool": None}


def loading_options(arguments: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Translate arguments of ``SentenceTransformer`` that are not None to arguments of ``open_encoder``.

    Raise ConfigurationError, which begins with ``where``, for an argument that is not supported.
    """
    known = (*_LOADING, *_LOADING_IDLE, "model_kwargs", "trust_remote_code")
    _check_names(
        {name: value for name, value in arguments.items() if value or name not in _LOADING_EMPTY}, known, where
    )
    if arguments.get("trust_remote_code"):
        raise ConfigurationError(f"{where}trust_remote_code: code that comes with a model is never run")
    options = {ours: arguments[name] for name, ours in _LOADING.items() if arguments.get(name) is not None}
    return options | _precision(arguments.get("model_kwargs") or {}, f"{where}model_kwargs: ")


def encode_options(arguments: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return the supported arguments of ``SentenceTransformer.encode``; raises as ``loading_options``."""
    _check_names(arguments, (*_ENCODE, *_ENCODE_IDLE, *_ENCODE_FIXED), where)
    for name, only in _ENCODE_FIXED.items():
        if arguments.get(name, only) != only:
            raise ConfigurationError(f"{where}{name}: only {only!r} is supported, got {arguments[name]!r}")
    return {name: arguments[name] for name in _ENCODE if arguments.get(name) is not None}


def _precision(model_kwargs: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the precision; ignore ``attn_implementation``, because every implementation computes the same."""
    _check_names(model_kwargs, ("dtype", "torch_dtype", "attn_implementation"), where)
    wanted = model_kwargs.get("dtype", model_kwargs.get("torch_dtype"))
    if wanted is None:
        return {}
    name = str(wanted).removeprefix("torch.")
    check_choice(name, _DTYPES, f"{where}dtype")
    return {"precision": name}


def _check_names(arguments: Mapping[str, Any], known: Collection[str], where: str) -> None:
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        raise ConfigurationError(
            f"{where}{', '.join(unknown)}: not supported; supported arguments: {', '.join(sorted(known))}"
        )
