"""Turn the sources of a command line (folders, files, patterns, standard input) into roots with options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from twinvec.cli.terminal import complain
from twinvec.errors import ConfigurationError, DocumentError
from twinvec.escaping import escaped
from twinvec.text import check_text
from twinvec_qdrant.ingest.reading.records.columns import RecordColumns
from twinvec_qdrant.ingest.reading.results import printable
from twinvec_qdrant.ingest.reading.root import RECORD_SUFFIXES, STANDARD_INPUT, Root
from twinvec_qdrant.ingest.registration import NOT_BELOW, source_name

_HIDDEN = "hidden files (to read them, name them in a pattern: --include '.github/**')"


def reading_options(
    include: Sequence[str] | None,
    exclude: Sequence[str] | None,
    no_gitignore: bool,
    id_column: str | None,
    text_column: Sequence[str] | None,
    title_column: str | None,
) -> dict[str, Any]:
    """Return the fields of ``Root`` from the options."""
    return {
        "include": tuple(include or ()),
        "exclude": tuple(exclude or ()),
        "gitignore": not no_gitignore,
        "columns": RecordColumns(id_column, tuple(text_column or ()), title_column),
    }


def roots_of(given: Sequence[str], options: dict[str, Any], *, allow_empty: bool = False) -> dict[str, Root]:
    """Return the roots that the arguments ``given`` name, by name; ``options`` are fields of all roots.

    Several files of one folder, such as the shell gives for ``*.md``, are one root: the folder, limited to these files.
    A file of records (other than ``.ndjson``), a hidden file and a link are each a root by themselves.

    Raises:
        DocumentError: a folder or file does not exist, or no file matches a pattern (unless ``allow_empty``).
        ConfigurationError: two of the roots have the same name, or patterns do not fit the arguments.
    """
    grouped: dict[Path, list[str]] = {}
    for path in map(Path, dict.fromkeys(given)):
        if _is_plain(path):
            grouped.setdefault(path.parent.resolve(), []).append(path.name)
    roots: dict[str, Root] = {}
    for text in dict.fromkeys(given):
        path = Path(text)
        names = grouped.get(path.parent.resolve(), []) if _is_plain(path) else []
        if len(names) < 2:
            root = _root(text, options, allow_empty)
        elif path.name == names[0]:
            root = _root_of_files(path.parent, names, options)
        else:
            continue
        name = source_name(root)
        if name in roots:
            raise ConfigurationError(
                f"two of the sources are named {name!r}: {roots[name].path} and {root.path}; "
                "ingest them by separate commands, and name one of them: --source NAME"
            )
        roots[name] = root
    return roots


def complain_of_empty(roots: Iterable[Root]) -> None:
    """Print which roots have no documents, which files were looked for, and which were skipped."""
    for root in roots:
        place = Path(root.path)
        if not place.is_dir():
            complain(f"twinvec: no documents found in {printable(root.path)}")
            continue
        wanted = f"files that match {', '.join(root.include)}" if root.include else "all files"
        left_out = [_HIDDEN, "lock files of Office", "caches", "virtual environments", "node_modules"]
        left_out += ["files in .gitignore"] if root.gitignore else []
        left_out += [f"files that match {', '.join(root.exclude)}"] if root.exclude else []
        complain(
            f"twinvec: no documents found in {printable(root.path)}; looked for {wanted}, and skipped "
            f"{', '.join(left_out)}"
        )


def descriptions(given: Sequence[str] | None, root: Root) -> dict[str, str]:
    """Parse the values of --describe, by path in the root; "" is the whole root."""
    described: dict[str, str] = {}
    for each in given or ():
        place, sign, text = check_text(each, "--describe").partition("=")
        if not sign or (" " in place.strip() and not (Path(root.path) / place).exists()):
            place, text = "", each
        elif place and not (Path(root.path) / place).exists():
            raise typer.BadParameter(
                f"--describe {each!r}: {root.path} has no {place!r}; to describe the whole source, write ={each!r}"
            )
        described["" if place in ("", ".") else place.strip("/")] = text.strip()
    return described


def _is_plain(path: Path) -> bool:
    """Return whether the path is a file that a walk of its folder finds, and that is one document."""
    named = not path.name.startswith(".") and path.suffix.lower() not in RECORD_SUFFIXES
    return named and path.is_file() and not path.is_symlink()


def _root(text: str, options: dict[str, Any], allow_empty: bool) -> Root:
    root = Root.named(text, **options)
    is_pattern = len(root.include) > len(options["include"])
    if is_pattern and root.include[0].count("/") == 1:
        root = Root.named(text, **{**options, "exclude": (*options["exclude"], NOT_BELOW)})
    if root.path != STANDARD_INPUT and not Path(root.path).exists():
        raise DocumentError(f"{escaped(printable(root.path))}: no such file or folder")
    if is_pattern and not allow_empty and root.is_empty():
        raise DocumentError(f"no file matches {escaped(printable(text))}; --allow-empty permits an empty source")
    return root


def _root_of_files(folder: Path, names: Sequence[str], options: dict[str, Any]) -> Root:
    if options["include"] or options["exclude"]:
        raise ConfigurationError(
            f"--include and --exclude choose files of a folder, and cannot be used with single files such as {names[0]}"
        )
    patterns = tuple("/" + re.sub(r"([\\*?[\]!# ])", r"\\\1", name) for name in names)
    return Root(str(folder), **{**options, "include": patterns, "exclude": (NOT_BELOW,), "gitignore": False})
