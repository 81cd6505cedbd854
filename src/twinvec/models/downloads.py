"""What the user sees of a download from the hub: a line in the log, and on a terminal the bars of ``huggingface_hub``.

The bars appear only where a download takes longer than a moment: the hub is asked for its files each time that one of
its models is loaded, also if all of them are in the cache.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

MOMENT = 1.0
"""Seconds."""

logger = logging.getLogger(__name__)


def tell(repository: str, revision: str | None, options: dict[str, Any]) -> None:
    """Log that a repository will be downloaded, unless it is in the cache or the hub will not be asked."""
    from huggingface_hub import try_to_load_from_cache

    if options["local_files_only"]:
        return
    for name in ("config.json", "modules.json"):
        if isinstance(try_to_load_from_cache(repository, name, options["cache_dir"], revision), str):
            return
    logger.info("downloading %s from the hub", repository)


def bars() -> type:
    """Return the class of the bars, which ``huggingface_hub`` takes as ``tqdm_class``."""
    from tqdm.auto import tqdm

    def begin(bar: Any, *values: Any, **options: Any) -> None:
        options.pop("name", None)  # a group, which only the hub's own class knows
        shown = {"disable": not sys.stderr.isatty(), "delay": MOMENT, "leave": False}
        tqdm.__init__(bar, *values, **{**options, **shown})

    return type("Bar", (tqdm,), {"__init__": begin})
