"""Ingest documents with the workers of a cluster into a collection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinvec_qdrant import Collection, IngestReport, key_from_environment
from twinvec_ray.cluster import AUTOMATIC, Workers, connected, plan
from twinvec_ray.helpers import RayHelpers

WAIT_SECONDS = 120.0
"""How long a worker waits for a server that is busy or limits the rate of requests, in seconds."""


def ingest(
    documents: Iterable[object],
    collection: str,
    path: str | Path | None = None,
    *,
    url: str | None = None,
    address: str | None = AUTOMATIC,
    num_workers: Workers = None,
    use_gpu: bool = False,
    threads: int = 1,
    source: str | None = None,
    describe: Mapping[str, str] | None = None,
    prune: bool = False,
    allow_empty: bool = False,
    dry_run: bool = False,
    progress: bool = False,
    report: IngestReport | None = None,
    allow_all_failed: bool = False,
    **settings: Any,
) -> IngestReport:
    """Ingest documents as ``Collection.ingest`` does, with the workers of a cluster.

    The collection is the same as from a single process, with the same ids, vectors and words. If the collection is on a
    server, the workers cut documents into chunks, encode and write; if the server is too busy for all of them, fewer
    workers go on. If the store is embedded, the workers encode, and this process cuts and writes. This process reads
    the files of a ``Root``, and tasks parse the files that are not plain text. If a worker, a machine or this process
    dies, the next ingest adds the missing documents.

    Args:
        documents: As for ``Collection.ingest``; or a Ray dataset with the columns ``id``, ``text`` and optionally
            ``title``; all other columns are payload.
        collection: Name of the collection.
        path: Folder of an embedded store.
        url: Address of a Qdrant server, which all machines reach.
        address: The cluster; default: the cluster that ``RAY_ADDRESS`` names, a cluster that runs on this machine, or a
            new cluster on its cores.
        num_workers: Number of workers, or a pair (least, most): the least start at once, and more are added while
            there is work and the cluster has room. Default: one for each GPU, or for ``threads`` cores.
        use_gpu: Whether each worker gets its own GPU.
        threads: Threads of a worker that computes on a CPU.
        source: See ``Collection.ingest``, also for the next arguments, up to ``allow_all_failed``.
        settings: Other arguments of ``Collection.open``.

    Raises:
        ConfigurationError: an argument is invalid, no cluster answers, or the cluster lacks the resources for the
            workers.
        TwinvecError: as for ``Collection.open`` and ``Collection.ingest``.
        EngineError: the workers die again and again, or none of them starts.
    """
    if url is not None:
        settings = {"api_key": key_from_environment(), "wait_seconds": WAIT_SECONDS, **settings}
    reached = ("api_key", "wait_seconds", "grpc", "grpc_port")
    place = {"name": collection, "url": url, **{name: settings[name] for name in reached if name in settings}}
    is_dataset = hasattr(documents, "iter_rows") and hasattr(documents, "iter_batches")
    read = _rows(documents) if is_dataset else documents
    with (
        helpers(place, address, num_workers, use_gpu=use_gpu, threads=threads) as workers,
        Collection.open(collection, path, url=url, **settings) as opened,
    ):
        return opened.ingest(
            read,
            helpers=workers,
            source=source,
            describe=describe,
            prune=prune,
            allow_empty=allow_empty,
            dry_run=dry_run,
            progress=progress,
            report=report,
            allow_all_failed=allow_all_failed,
        )


def _rows(dataset: Any) -> Iterator[object]:
    from twinvec_ray.blocks import raising_causes

    with raising_causes(dataset):
        yield from dataset.iter_rows()


@contextmanager
def helpers(
    place: Mapping[str, Any],
    address: str | None = AUTOMATIC,
    num_workers: Workers = None,
    *,
    use_gpu: bool = False,
    threads: int = 1,
) -> Iterator[RayHelpers]:
    """Connect to a cluster, and yield helpers for ``Collection.ingest``; ``place`` opens the collection on a server."""
    with connected(address):
        workers = plan(num_workers, threads=threads, use_gpu=use_gpu)
        with RayHelpers(workers, place, {"device": "cuda"} if use_gpu else None) as found:
            yield found
