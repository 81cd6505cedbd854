"""Open an ``Encoder`` from the settings that LangChain and LlamaIndex have for one."""

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
    """What stands before the texts of one side: a text, or the ``name`` of one of the model's prompts."""

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
    """An ``Encoder`` from the settings that frameworks have for one.

    Args:
        model: As for ``Encoder``; a bare name ("all-MiniLM-L6-v2") means the repository of sentence-transformers.
        revision: A commit, branch or tag of a hub model.
        query_prompt: For queries, in place of the model's own.
        document_prompt: For documents, in place of the model's own.
        prompts: All prompts, in place of the model's own.
        cache_folder: Where hub models are kept.
        token: For hub models that are not open to all.
        local_files_only: Take what the hub's cache holds; no hub is asked.
        options: The other arguments of ``Encoder``.

    Raises:
        ConfigurationError: an argument that cannot work.
        ModelError: the model is not found, damaged or not supported.
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
