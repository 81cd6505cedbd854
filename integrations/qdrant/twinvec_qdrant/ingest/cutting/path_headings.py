"""Files whose chunks have the path as heading: people know them by name, such as ``package.json`` and ``Dockerfile``.

These are configuration, and code that is not cut at functions and classes. Such a text seldom says what it is for, or
what its file is called.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from twinvec.retrieval.documents import Document

_LISTED = """
.bat .cfg .clj .cmake .conf .css .dart .ex .exs .fs .gradle .graphql .groovy .hs .ini .jl .json .json5 .jsonc .kt .kts
.less .lock .lua .mk .ml .pl .pm .properties .proto .ps1 .r .sass .scala .scss .sql .svelte .swift .tf .toml .vue .yaml
.yml .zig
cmakelists.txt containerfile dockerfile gemfile go.mod go.sum jenkinsfile justfile makefile procfile rakefile
requirements.txt vagrantfile
"""
_ENDINGS_AND_NAMES = frozenset(_LISTED.split())


def path_heading(document: Document) -> str | None:
    """Return the path, as heading, of an untitled document whose file people know by name; None for other documents."""
    path = document.payload.get("path")
    if not isinstance(path, str) or document.payload.get("format") != "text" or document.title.strip():
        return None
    file = PurePosixPath(path.lower())
    return None if _ENDINGS_AND_NAMES.isdisjoint((file.suffix, file.name)) else path
