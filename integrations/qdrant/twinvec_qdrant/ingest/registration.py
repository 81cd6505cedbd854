"""Registration: records in the collection which source (root) the documents of an ingest come from."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from twinvec.errors import ConfigurationError
from twinvec.text import check_text
from twinvec_qdrant.ingest.lines import RootElsewhere
from twinvec_qdrant.ingest.reading.files import VERSIONED_SUFFIXES
from twinvec_qdrant.ingest.reading.results import WithResults, printable
from twinvec_qdrant.ingest.reading.root import STANDARD_INPUT, Root
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.records.roots import Membership, Roots
from twinvec_qdrant.settings import NEWEST_READING
from twinvec_qdrant.stored_roots import StoredRoot

NOT_BELOW = "/*/"
"""Pattern that excludes all subfolders, so that they are not even listed."""

_STREAM = "stdin"
_OVERLAP = (
    "%s: the source %r (%s) lies in the folder of the source %r (%s): files that both read are stored twice; to remove "
    "one of the sources, run twinvec delete --source NAME (delete_source)"
)

logger = logging.getLogger(__name__)


def registered(
    catalog: Catalog,
    documents: Iterable[object] | Root,
    source: str | None,
    describe: Mapping[str, str],
    *,
    prune: bool,
    write: bool,
    with_results: WithResults | None,
) -> tuple[Iterable[object], Membership]:
    """Register the source of documents; return the documents, and the rule for ids of this source (``Membership``).

    The arguments are those of ``Collection.ingest``, and two more: ``write`` says whether to store the source, and
    ``with_results`` lets helpers parse files. Documents without a ``Root`` and without the name of a source belong to
    the first source. Files are read with the collection's reading version, the recorded way of extracting text.

    Raises:
        DocumentError: the source's folder or file cannot be read.
        ConfigurationError: ``describe`` is not a mapping, or is given for documents without a source; a stored source
            already reads the file, and ``source`` is None; or ``Roots.register`` refuses the source.
        TextError: a path or text in ``describe`` is not a string, or holds a lone surrogate.
    """
    if not isinstance(describe, Mapping):
        raise ConfigurationError(f"describe: expected a mapping from path to text, got {type(describe).__name__}")
    for path, text in describe.items():
        check_text(text, f"describe, under {check_text(path, 'describe: path')!r}")
    roots = Roots(catalog.backend)
    named = source is not None
    wanted = None if source is None else StoredRoot(source, described=_by_place(describe))
    if isinstance(documents, RootElsewhere):
        _reading_version(catalog, is_old=any, write=write)
        wanted, named = StoredRoot.of_fields(documents.root), documents.named
    else:
        if isinstance(documents, Root):
            read = documents.read(with_results)
            wanted, documents = stored_root(documents, source, describe), read
        if read_by := getattr(documents, "read_by", None):
            read_by(_reading_version(catalog, is_old=_has_versioned, write=write))
    if wanted is not None:
        _check_not_read(wanted, roots, named=named)
        membership = roots.register(wanted, named=named, prune=prune, write=write)
        if membership.added:
            _warn_of_overlaps(wanted, roots)
        return documents, membership
    if describe:
        raise ConfigurationError("describe needs a source: give source=NAME")
    return documents, roots.membership(None)


def _check_not_read(wanted: StoredRoot, roots: Roots, *, named: bool) -> None:
    """Raise ``ConfigurationError`` if a stored source already reads the file of a new source.

    Likewise, a user who names a stored source (``named``) may give it another place, but not a part of its present
    folder: the next update would remove the documents of the other parts.
    """
    known = roots.all()
    if wanted.location is None or not wanted.is_here():
        return
    if named:
        readers = [own] if (own := known.get(wanted.name)) is not None and own.location != wanted.location else []
    else:
        readers = [] if wanted.name in known or os.path.isdir(wanted.location) else list(known.values())
    for each in readers:
        if each.is_here() and (root := root_at(each)) is not None and root.follows(Path(wanted.location)):
            kind = "folder" if os.path.isdir(wanted.location) else "file"
            raise ConfigurationError(
                f"{roots.location}: its source {each.name!r} reads {wanted.location}; to read the {kind} again, ingest "
                f"{each.location}, or run twinvec update; to add the {kind} as another source, give it a name of its "
                "own: --source NAME (source=...)"
            )


def _warn_of_overlaps(added: StoredRoot, roots: Roots) -> None:
    """Log a warning if the folder of a new source lies in the folder of another source, or holds another source."""
    if not added.is_here() or not os.path.isdir(str(added.location)):
        return
    for each in roots.all().values():
        if each.name == added.name or not each.is_here() or each.location == added.location:
            continue
        for outer, inner in ((each, added), (added, each)):
            if (root := root_at(outer)) is not None and root.follows(Path(str(inner.location))):
                logger.warning(_OVERLAP, roots.location, inner.name, inner.location, outer.name, outer.location)


def _reading_version(catalog: Catalog, *, is_old: Callable[[Iterable[str]], bool], write: bool) -> int:
    """Return the collection's reading version: its recorded way of extracting text from files.

    A collection of an older version of twinvec has no recorded version. ``is_old`` then returns, from the ids of the
    documents, whether version 1 has read their files. If it returns False, the version is 2, which reads all other
    files as version 1 does. A new collection gets the newest version. With ``write``, the version is recorded.
    """
    version = stored_description(catalog.backend).reading
    if version is None:
        version = NEWEST_READING
        if next(catalog.sources(), None) is not None:
            version = 1 if is_old(catalog.sources()) else 2
        if write:
            with catalog.backend.writing:
                catalog.backend.write_metadata({"reading": version})
    return version


def _has_versioned(sources: Iterable[str]) -> bool:
    return any(each.lower().endswith(VERSIONED_SUFFIXES) for each in sources)


def source_name(root: Root) -> str:
    """Return the default name of a source: the name of its folder or file."""
    return _STREAM if root.path == STANDARD_INPUT else printable(Path(root.path).resolve().name)


def stored_root(root: Root, name: str | None, describe: Mapping[str, str]) -> StoredRoot:
    """Return the form in which a collection stores a root; default name: the name of its folder or file."""
    name = source_name(root) if name is None else name
    described = _by_place(describe)
    if root.path == STANDARD_INPUT:
        return StoredRoot(name, described=described)
    location = str(Path(root.path).resolve())
    options = root.as_dict()
    if any(text != printable(text) for text in (location, *root.include, *root.exclude)):
        return StoredRoot(name, described=described)  # a path that is not UTF-8 cannot be stored
    del options["path"]
    return StoredRoot(name, False, location, socket.gethostname(), options, described)


def _by_place(describe: Mapping[str, str]) -> dict[str, str]:
    """Return the descriptions by path, each path without slashes at its ends, as ``StoredRoot`` has them."""
    return {path.strip("/"): text for path, text in describe.items()}


def root_at(stored: StoredRoot) -> Root | None:
    """Return the root from which a stored source can be read again, or None if its path is unknown."""
    return None if stored.location is None else Root.from_dict({**stored.options, "path": stored.location})
