"""The command ``twinvec``: one module for each group of commands, ``app`` joins them.

The commands of collections (``ingest``, ``search``, ``migrate``, ...) are in ``twinvec_qdrant.cli``.
"""

from twinvec.cli.app import build_app, main

__all__ = ["build_app", "main"]
