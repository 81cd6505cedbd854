"""The command ``twinvec``: one module for each group of commands, ``app`` joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.cli.app import build_app as build_app
    from twinvec.cli.app import main as main

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "build_app": "app",
        "main": "app",
    },
)
