"""Notebooks: convert the cells of nbformat 3, which programs wrote until 2015, to those of nbformat 4."""

from __future__ import annotations

import json
from typing import Any

NOTEBOOK = ".ipynb"
"""Ending of the names of notebooks. Reading versions 1 to 5 find no cells in nbformat 3."""


def in_newest_format(data: bytes) -> bytes:
    """Return a notebook in nbformat 4; a notebook that is in nbformat 4 already is returned unchanged.

    Raises:
        AttributeError, KeyError, TypeError: the notebook is malformed.
    """
    notebook = json.loads(data)
    if not isinstance(notebook, dict) or "worksheets" not in notebook or "cells" in notebook:
        return data
    cells = [_cell(each) for sheet in notebook["worksheets"] for each in sheet["cells"]]
    return json.dumps({"metadata": notebook.get("metadata", {}), "cells": cells}).encode()


def _cell(old: dict[str, Any]) -> dict[str, Any]:
    """Convert a cell: nbformat 3 has code under ``input``, and each heading is a cell of its own kind."""
    kind, source = old["cell_type"], "".join(old["input"] if "input" in old else old["source"])
    if kind == "heading":
        kind, source = "markdown", f"{'#' * old.get('level', 1)} {source}"
    return {"cell_type": kind, "source": [source]}
