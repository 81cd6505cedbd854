"""Open an ``Encoder`` from the settings of LangChain's and LlamaIndex's embedding classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError
from twinvec.models.encoder_spec import read_spec
from twinvec.models.finding import find_model


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt put before queries or before documents: a text, or the ``name`` of one of the model's prompts."""

    text: str = ""
    name: str | None = None


def open_encoder(
    model: str,
    *,
    revision: str | None = None,
    query_prompt: Prompt | None = None,
    document_prompt: Prompt | None = None,
    prompts: dict[str, str] | None = None,
    cache_folder: str | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    **options: Any,
) -> Encoder:
    """Open an ``Encoder`` from a framework's settings; errors and ``options`` are as for ``Encoder``.

    A ``model`` without owner ("all-MiniLM-L6-v2") is in the organisation sentence-transformers. ``revision`` is a
    commit, branch or tag. ``query_prompt`` and ``document_prompt`` replace one prompt of the model, ``prompts``
    replaces all. ``token`` opens private hub models. With ``local_files_only`` the hub is never asked.
    """
    name = model if model == "default" or "/" in model or Path(model).exists() else f"sentence-transformers/{model}"
    if revision is not None:
        if "@" in name or Path(name).exists() or name == "default":
            raise ConfigurationError(f"revision {revision!r} is for a hub name without one, not for {model!r}")
        name = f"{name}@{revision}"
    found = find_model(name, cache_folder, token=token, local_files_only=local_files_only)
    sides = {"query": query_prompt, "document": document_prompt}
    if any(sides.values()):
        own = read_spec(found.path).prompts if prompts is None else prompts
        prompts = own | {side: _text(prompt, own) for side, prompt in sides.items() if prompt is not None}
    return Encoder(found, prompts=prompts, **options)


def _text(prompt: Prompt, prompts: dict[str, str]) -> str:
    if prompt.name is None:
        return prompt.text
    if prompt.name not in prompts:
        known = ", ".join(sorted(prompts)) or "none"
        raise ConfigurationError(f"the model has no prompt {prompt.name!r}; its prompts: {known}")
    return prompts[prompt.name]
