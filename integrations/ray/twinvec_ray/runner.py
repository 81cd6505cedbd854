"""What ``--ray`` of the commands runs: the entry point ``ray`` of the group ``twinvec.runners``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from twinvec.storage import Storage
from twinvec_qdrant import Helpers, key_from_environment
from twinvec_ray import ingesting
from twinvec_ray.cluster import connected
from twinvec_ray.encoding import encode
from twinvec_ray.files import check_output, read, write


class Runner:
    """Runs commands on the cluster at ``address``."""

    def __init__(self, address: str) -> None:
        self._address = address

    def helpers(self, place: Mapping[str, Any]) -> AbstractContextManager[Helpers]:
        """Return the helpers of an ingest; ``place`` are arguments of ``Collection.open``."""
        reached = dict(place)
        if reached.get("url") is not None:
            waits = max(reached.get("wait_seconds", 0.0), ingesting.WAIT_SECONDS)
            reached |= {"api_key": key_from_environment(), "wait_seconds": waits}
        return ingesting.helpers(reached, self._address)

    def encode(
        self,
        source: str,
        output: str,
        *,
        model: str | Path,
        field: str,
        prompt: str | None,
        storage: Storage | None,
        use_gpu: bool,
        **options: Any,
    ) -> None:
        """Encode the texts of files into a folder of vectors.

        Raises:
            ConfigurationError: an argument is invalid, no cluster answers, or it lacks what the workers need.
            InputError: the files cannot be read, or a text is refused.
        """
        check_output(output)
        with connected(self._address):
            texts = read(source)
            _print_nothing_of_ray_data()
            write(encode(texts, model, field, prompt=prompt, storage=storage, use_gpu=use_gpu, **options), output)


def _print_nothing_of_ray_data() -> None:
    """Keep from stderr what Ray Data tells: each step of each dataset every ten seconds, and errors that it raises."""
    for handler in logging.getLogger("ray.data").handlers:
        if not isinstance(handler, logging.FileHandler):
            handler.setLevel(logging.CRITICAL)
