"""A collection's entry in the embedded store: its folder, and the collections next to it."""

from __future__ import annotations

import atexit
import json
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from twinvec.errors import ConfigurationError, StoreBusyError, StoreCorruptError, StoreError, StoreUnavailableError
from twinvec_qdrant.serving.process import check_not_served
from twinvec_qdrant.stores.base import INDEXED_FIELDS, Damage, NewCollection, Store
from twinvec_qdrant.stores.embedded.backend import EmbeddedBackend, open_backends, opening_of
from twinvec_qdrant.stores.embedded.engine import engine_errors
from twinvec_qdrant.stores.embedded.folder import CollectionFolder, collection_names, os_errors
from twinvec_qdrant.stores.embedded.forks import watch_forks
from twinvec_qdrant.stores.embedded.index_build import LastBuild
from twinvec_qdrant.stores.embedded.repair.expected_records import expected_counts
from twinvec_qdrant.stores.embedded.repair.salvage import salvage
from twinvec_qdrant.stores.embedded.room import WRITE_ROOM, check_room
from twinvec_qdrant.stores.embedded.turns import Turns
from twinvec_qdrant.stores.embedded.values import TOKEN_STATES
from twinvec_qdrant.stores.points import DENSE, SPARSE, states_name

_LOCAL_MODE = (
    "The folder belongs to qdrant-client's local mode, QdrantClient(path=...): copy its collections to another folder "
    "(twinvec adopt --local-path {} --to-path FOLDER, adopt_collection), or give another path"
)

watch_forks()


class EmbeddedStore(Store):
    """The collection ``name`` in the folder ``path``; raises as ``folder_name`` does.

    Its methods raise ``StoreCorruptError`` if the files are damaged, ``StoreUnavailableError`` if the folder cannot be
    written, and ``StoreBusyError`` if another process has the collection open for more than ``wait_seconds``.
    """

    def __init__(self, path: str | Path, name: str, wait_seconds: float, *, repair: bool = False) -> None:
        self._path = path
        self._repair = repair
        self._folder = CollectionFolder(path, name)
        self.location = str(self._folder.path)
        self._wait_seconds = wait_seconds

    def peek(self) -> dict[str, Any] | None:
        if self._folder.path not in open_backends:
            check_not_served(self._path)
        if not self._folder.exists():
            return None
        if self._repair:
            self._mend_description()
        self._folder.check_description()
        return self._folder.read_description()

    def neighbours(self) -> str:
        if not Path(self._path).is_dir():
            return f"in {self._path}, which does not exist"
        there = f"in {self._path}; there are: {', '.join(collection_names(self._path)) or 'none'}"
        return there + local_mode_hint(self._path)

    def descriptions(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {name: {} for name in collection_names(self._path)}
        for name in found:
            with suppress(StoreCorruptError, StoreUnavailableError):
                found[name] = CollectionFolder(self._path, name).read_description()
        return found

    def open(self) -> EmbeddedBackend:
        try:
            return self._open(None)
        except StoreCorruptError:
            if not self._repair:
                raise
        with os_errors(self._folder.path, "repaired"):
            self._salvage()
        return self._open(None)

    def create(self, new: NewCollection) -> EmbeddedBackend:
        if new.cluster.given():
            raise ConfigurationError(f"{self.location}: cluster settings need a Qdrant server; leave cluster out")
        check_not_local_mode(self._path)
        return self._open(new)

    def drop(self) -> None:
        folder = self._folder
        if not folder.path.is_dir():
            return
        with opening_of(folder.path):
            if folder.path in open_backends:
                raise StoreBusyError(f"{folder.path}: open in this process; close it before it is dropped")
            check_not_served(self._path)
            with Turns(folder.path).alone(self._wait_seconds):
                folder.remove()

    def _mend_description(self) -> None:
        """Replace a damaged description by the description in the checksums of the last close."""
        try:
            self._folder.check_description()
            self._folder.read_description()
        except StoreCorruptError:
            for known in self._folder.checksums():
                if known is not None:
                    self._folder.write_description(json.loads(known.description))
                    return
            raise

    def _salvage(self) -> None:
        folder = self._folder
        with opening_of(folder.path), Turns(folder.path).alone(self._wait_seconds) as was_given:
            folder.settle(was_given=was_given)
            known, before = folder.checksums()
            files = before.contradicted(folder.shard, thorough=True) if before else []
            if known is not None:
                files = known.damaged(folder.shard, thorough=True)
            own = folder.read_description()
            new = NewCollection(own["dim"], own, states_dim=own.get("states_dim"), vector=own.get("vector", DENSE))
            empty = _create_aside(folder, new)
            salvage(folder, empty, Damage(files, known.counts if known else expected_counts(folder.shard)))
            shutil.rmtree(empty)
            folder.write_description({key: value for key, value in own.items() if key not in ("next", "previous")})

    def _open(self, new: NewCollection | None) -> EmbeddedBackend:
        """Open the collection; with ``new``, create it first if it does not exist."""
        folder = self._folder
        with opening_of(folder.path):
            if (shared := open_backends.get(folder.path)) is not None:
                if not shared.is_gone():
                    shared.users += 1
                    return shared
                shared.abandon()
            check_not_served(self._path)
            turns = Turns(folder.path)
            backend = EmbeddedBackend(folder, turns, self._wait_seconds, repairs=self._repair)
            try:
                backend.start(None if new is None else partial(_create, folder, new))
            except BaseException:
                turns.leave()
                raise
            open_backends[folder.path] = backend
            return backend


def local_mode_hint(path: str | Path) -> str:
    """Return the end of an error about a folder that ``QdrantClient(path=...)`` has filled; "" for other folders."""
    folder = Path(path).expanduser()
    is_local = (folder / "meta.json").is_file() and (folder / "collection").is_dir()
    return f". {_LOCAL_MODE.format(path)}" if is_local else ""


def check_not_local_mode(path: str | Path) -> None:
    """Raise ``ConfigurationError`` if a collection is to be made in a folder of ``QdrantClient(path=...)``."""
    if hint := local_mode_hint(path):
        raise ConfigurationError(f"{path}: cannot hold a new collection{hint}")


@atexit.register
def _give_all() -> None:
    """Close the engines of collections that are still open at the end of the process."""
    for backend in list(open_backends.values()):
        with suppress(StoreError):
            backend.give()


def _create(folder: CollectionFolder, new: NewCollection) -> None:
    """Write the engine's files into another folder and rename it to ``shard``, which is therefore complete."""
    check_room(folder.path, WRITE_ROOM, "make a collection")
    aside = _create_aside(folder, new)
    folder.write_description(new.metadata)
    aside.rename(folder.shard)


def _create_aside(folder: CollectionFolder, new: NewCollection) -> Path:
    """Write the engine's files of a new collection into another folder, and return it."""
    aside = folder.path / "shard.new"
    vectors = {new.vector: edge.EdgeVectorParams(size=new.dim, distance=edge.Distance.Cosine)}
    if new.states_dim is not None:
        vectors[states_name(new.vector)] = edge.EdgeVectorParams(
            size=new.states_dim,
            distance=edge.Distance.Dot,
            multivector_config=TOKEN_STATES,
            datatype=edge.VectorStorageDatatype.Float16,
            memory=edge.Memory.Cold,
        )
    sparse = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
    with engine_errors(str(folder.path), "create"):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        shard = edge.EdgeShard.create(str(aside), edge.EdgeConfig(vectors=vectors, sparse_vectors={SPARSE: sparse}))
        for field in INDEXED_FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
        if new.tenant_path is not None:
            tenants = edge.KeywordIndexParams(is_tenant=True)
            shard.update(edge.UpdateOperation.create_field_index(new.tenant_path, tenants))
        shard.flush()
        shard.close()
    LastBuild(chunks=0, names=list(vectors), with_index=False).write(aside)
    return aside
