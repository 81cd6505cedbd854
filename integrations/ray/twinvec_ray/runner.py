"""The runner behind the commands' option ``--ray``: the entry point ``ray`` of the group ``twinvec.runners``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError

from twinvec.storage import Storage
from twinvec.support.progress import progress_bar
from twinvec_qdrant import Helpers, key_from_environment
from twinvec_ray import ingesting
from twinvec_ray.cluster import connected, plan
from twinvec_ray.encoding import encoded
from twinvec_ray.recipes import encoder_recipe

if TYPE_CHECKING:
    from ray.data import Dataset

_COLUMN = "vector"
_COUNTED = (".parquet", ".lance", "")  # endings of files that record their number of rows
_PAUSE_SECONDS = 0.5
_TO_STDERR = "console"  # name of Ray Data's handler for stderr


class Runner:
    """Runs commands on the cluster at ``address``."""

    def __init__(self, address: str) -> None:
        self._address = address

    def helpers(self, place: Mapping[str, Any]) -> AbstractContextManager[Helpers]:
        """Return the helpers of an ingest; ``place`` are arguments of ``Collection.open``."""
        _print_nothing_of_workers()
        reached = dict(place)
        if reached.get("url") is not None:
            reached["api_key"] = key_from_environment()
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
        progress: bool,
        **options: Any,
    ) -> dict[str, Any]:
        """Encode the texts of files into a folder of vectors; errors are those of ``read``, ``encode`` and ``write``.

        Return the model's name and space, the number of vectors (``texts``) and their size (``columns``).
        """
        from twinvec_ray.files import check_output, read, write  # imports ray.data, which an ingest does not need

        check_output(output)
        _print_nothing_of_workers()
        with connected(self._address):
            _print_nothing_of_ray_data()
            texts = read(source)
            recipe = encoder_recipe(model, {"device": "cuda", **options} if use_gpu else options)
            with _counter(texts, source, shown=progress) as counter:
                how = {"text": field, "column": _COLUMN, "prompt": prompt, "storage": storage, "counter": counter}
                write(encoded(texts, recipe, plan(use_gpu=use_gpu), **how), output)
            written = read(output)
            columns = written.schema().base_schema.field(_COLUMN).type.list_size
            return {"model": recipe.name, "space": recipe.space, "texts": written.count(), "columns": columns}


class Counter:
    """An actor that counts the texts which workers have encoded."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        """Add to the count."""
        self._count += count

    def count(self) -> int:
        """Return the count."""
        return self._count


@contextmanager
def _counter(texts: Dataset, source: str, *, shown: bool) -> Iterator[Any]:
    """Yield an actor that counts texts for the progress bar; None if no progress is shown.

    The bar has a total if the files record their number of rows. A batch is counted twice if its worker dies after it.
    """
    if not shown:
        yield None
        return
    total = texts.count() if PurePosixPath(source).suffix.lower() in _COUNTED else None
    make: Callable[..., Any] = ray.remote(Counter)
    counter, over = make.options(num_cpus=0).remote(), threading.Event()  # type: ignore[attr-defined]

    def follow() -> None:
        count, ended = 0, False
        while not ended:
            ended = over.wait(_PAUSE_SECONDS)
            try:
                now = ray.get(counter.count.remote())
            except RayError:
                return
            advance(now - count)
            count = now

    with progress_bar("Encoding", total, "texts") as advance:
        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield counter
        finally:
            over.set()
            thread.join()


def _print_nothing_of_workers() -> None:
    """Stop Ray from printing on stdout, where a program reads JSON, that a worker has died. Ray has no setting for it.

    Ray still writes its log files, and the work of a dead worker is done again, or the command ends with an error.
    """
    from ray._private import worker

    worker._worker_logs_enabled = False


def _print_nothing_of_ray_data() -> None:
    """Stop Ray Data from printing on stderr: progress bars, progress lines, and errors that it also raises.

    Ray Data still writes its log file, and the user's own handlers of its logger still get all records.
    """
    from ray.data import DataContext

    DataContext.get_current().enable_progress_bars = False
    for handler in logging.getLogger("ray.data").handlers:
        if handler.name == _TO_STDERR:
            handler.setLevel(logging.CRITICAL)
