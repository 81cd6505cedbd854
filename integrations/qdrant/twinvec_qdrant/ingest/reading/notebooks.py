"""Notebooks: the cells of one of version 3 of its format, which were written until 2015, in the form of version 4."""

from __future__ import annotations

import json
from typing import Any

NOTEBOOK = ".ipynb"
"""Ending of the names of notebooks; versions 1 to 5 of the reading find no cells in those of the older format."""


def in_newest_format(data: bytes) -> bytes:
    """Return a notebook in version 4 of its format; one that already has it is returned unchanged.

    Raises:
        AttributeError, KeyError, TypeError: the notebook is malformed.
    """
    notebook = json.loads(data)
    if not isinstance(notebook, dict) or "worksheets" not in notebook or "cells" in notebook:
        return data
    cells = [_cell(each) for sheet in notebook["worksheets"] for each in sheet["cells"]]
    return json.dumps({"metadata": notebook.get("metadata", {}), "cells": cells}).encode()


def _cell(old: dict[str, Any]) -> dict[str, Any]:
    """Return a cell: the text of code is its ``input``, and a heading has a cell of its own."""
    kind, source = old["cell_type"], "".join(old["input"] if "input" in old else old["source"])
    if kind == "heading":
        kind, source = "markdown", f"{'#' * old.get('level', 1)} {source}"
    return {"cell_type": kind, "source": [source]}
