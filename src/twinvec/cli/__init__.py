"""The command ``twinvec``: one module for each group of commands, ``app`` joins them."""

from twinvec.cli.app import build_app, main

__all__ = ["build_app", "main"]
