"""Open an ``Encoder`` from the settings of LangChain's and LlamaIndex's embedding classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError
from twinvec.models.encoder_spec import read_spec
from twinvec.models.finding import find_model


def open_encoder(
    model: str,
    *,
    revision: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    prompt_names: Mapping[str, str] | None = None,
    prompts: dict[str, str] | None = None,
    cache_folder: str | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    **options: Any,
) -> Encoder:
    """Open an ``Encoder`` from a framework's settings; errors and ``options`` are as for ``Encoder``.

    A ``model`` without owner ("all-MiniLM-L6-v2") is in the organisation sentence-transformers. ``revision`` is a
    commit, branch or tag. ``query_prompt`` and ``document_prompt`` replace one prompt of the model, ``prompts``
    replaces all. ``prompt_names`` maps "query" or "document" to the name of the model's prompt that is used there
    instead. ``token`` opens private hub models. With ``local_files_only`` the hub is never asked.
    """
    name = model if model == "default" or "/" in model or Path(model).exists() else f"sentence-transformers/{model}"
    if revision is not None:
        if "@" in name or Path(name).exists() or name == "default":
            raise ConfigurationError(f"revision {revision!r} is for a hub name without one, not for {model!r}")
        name = f"{name}@{revision}"
    found = find_model(name, cache_folder, token=token, local_files_only=local_files_only)
    texts = {"query": query_prompt, "document": document_prompt}
    given = {side: text for side, text in texts.items() if text is not None}
    names = {side: name for side, name in (prompt_names or {}).items() if side not in given}
    if given or names:
        own = read_spec(found.path).prompts if prompts is None else prompts
        for name in names.values():
            if name not in own:
                known = ", ".join(sorted(own)) or "none"
                raise ConfigurationError(f"the model has no prompt {name!r}; its prompts: {known}")
        prompts = own | given | {side: own[name] for side, name in names.items()}
    return Encoder(found, prompts=prompts, **options)
