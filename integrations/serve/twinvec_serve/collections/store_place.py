"""Hides from clients where the store is: its folder on the server's machine, or its Qdrant server's address."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from twinvec.errors import TwinvecError
from twinvec.support.checks import is_server_address
from twinvec_qdrant import DEFAULT_PATH
from twinvec_serve.errors import with_log_message

_FILE = r"(?:/(?P<folder>[\w%~-][\w%.~-]*)(?P<file>/[\w%.~/-]*)?)?"  # names of folders are percent-encoded


class StorePlace:
    """The place of a store, which it removes from the messages of errors.

    Args:
        path: Folder of an embedded store; default: ``DEFAULT_PATH``.
        url: Address of a Qdrant server, instead of ``path``.
    """

    def __init__(self, path: Path | None, url: str | None) -> None:
        if url is None:
            folder = Path(path or DEFAULT_PATH).expanduser()
            places = sorted({str(folder.absolute()), str(folder.resolve())}, key=len, reverse=True)
            named = "|".join(map(re.escape, places))
            self._pattern = re.compile(rf"(?<![\w%.~/-])(?:{named}){_FILE}(?![\w%~-]|\.\w)", re.ASCII)
        else:
            self._pattern = re.compile(rf"{_address(url)}(?![\w-]|[.:]\w)(?P<folder>, (?=collection ))?", re.IGNORECASE)
        self._is_folder = url is None

    def hide(self, error: TwinvecError) -> None:
        """Replace places in an error's message by names of collections; the log gets the original message."""
        whole = str(error)
        message = self._pattern.sub(self._shown, whole)
        if message != whole:
            error.args = (message, *error.args[1:])
            with_log_message(error, whole)

    def _shown(self, found: re.Match[str]) -> str:
        folder = found["folder"]
        if folder is None:
            return "the store"
        if not self._is_folder:
            return ""
        return f"{unquote(folder)}{found['file']}" if found["file"] else f"collection {unquote(folder)!r}"


def _address(url: str) -> str:
    """Return a regular expression that finds the address of a server in errors.

    Errors show the address in the client's form: without user and password, and with a port.
    """
    if not is_server_address(url):  # no store opens, and its error quotes no address
        return re.escape(url)
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = r"(?::\d+)?" if parts.port is None else f":{parts.port}"
    return rf"{re.escape(parts.scheme)}://(?:[^\s/@]*@)?{re.escape(host)}{port}{re.escape(parts.path.rstrip('/'))}"
