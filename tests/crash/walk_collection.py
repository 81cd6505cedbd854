"""Several processes change one embedded collection at once and are killed at random; a dict says what it holds.

    python tests/crash/walk_collection.py --kills 200 --seed 1

At every step, one to three processes do an operation each: ingest into one of three sources with and without pruning,
delete documents or a source, build indexes, index payload keys, write notes, migrate, drop other vectors, back up, push
to a second collection, verify, repair, or read. Each is killed (SIGKILL) or not. Some keep the collection open from
step to step. At other steps, one process alone restores the backup over the collection, or the store's folder is
renamed. After every step, the collection is compared with the dict: documents with their text and payload, their chunks
and vectors, what exact searches, filters and words find, the sources with their descriptions, and the notes. An
operation that was killed may have happened or not. While others write, a reader finds every document whole, in one of
the editions that it may have.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import tenacity
from killing import command_line, processes

from twinvec.errors import CollectionNotFoundError, TwinvecError
from twinvec.retrieval.base import Hit
from twinvec_qdrant import Collection, backup_collection, drop_collection, opening, restore_collection
from twinvec_qdrant.ingest import pace
from twinvec_qdrant.ingest import planned as batches
from twinvec_qdrant.maintenance import migration
from twinvec_qdrant.records.schema import INTENTS
from twinvec_qdrant.stores.embedded import backend as embedded
from twinvec_qdrant.stores.server import retrying
from words import StateEncoder

NAMES = [f"d{number:02}" for number in range(24)]
SOURCES = ("main", "left", "right")
TENANTS = ("ann", "ben")
ALONE = ("restore", "rename")  # operations that need the collection to be closed
WAIT_SECONDS = 120
_READS = 6  # times that a reader reads everything

Documents = dict[str, tuple[str, int]]
"""Document id -> its text and its edition."""


def model(number: int) -> StateEncoder:
    """The encoder of a model; vectors and token states of different models differ in size."""
    return StateEncoder(seed=number, dim=32 + 16 * (number % 3), states_dim=8 + 4 * (number % 2), max_tokens=16)


def load(name: str, options: object = None, precision: str = "auto") -> StateEncoder:
    """Load a model by the name that a collection records."""
    del options, precision
    return model(int(name.removeprefix("words-")))


def prepare(seed: int) -> None:
    """Let this process work in many small steps, and find models by their names.

    With some seeds, all vectors are indexed. With others, every chunk is written alone, most of them as drafts.
    """
    batches.BATCH_CHUNKS = 8
    migration._PAGE = 8
    opening.load_space_encoder = load
    retrying._GROWING = tenacity.wait_none()
    if seed % 4 == 0:
        embedded.WORTHWHILE = 1
    if seed % 5 == 1:
        pace.PORTION_SECONDS = 0.0


@dataclass(frozen=True)
class Kind:
    """The settings of the collection that a walk changes, chosen by a seed.

    The collection is on the server at ``url``. Without a ``url`` it is embedded.
    """

    seed: int
    url: str = ""
    name: str = "notes"

    def place(self, store: Path) -> dict[str, Any]:
        """The arguments of ``Collection.open`` that name the collection."""
        place: dict[str, Any] = {"name": self.name, "wait_seconds": WAIT_SECONDS}
        return place | ({"url": self.url} if self.url else {"path": store})

    def opened(self, store: Path) -> Collection:
        """Open the collection with the model that it records."""
        tenant = "tenant" if self.seed % 2 else None
        place = self.place(store)
        with suppress(CollectionNotFoundError):
            return Collection.open(**place, create=False)
        states = self.seed % 3 == 0
        chunking = False if self.seed % 5 == 0 else None
        return Collection.open(**place, encoder=model(0), late_interaction=states, tenant_key=tenant, chunking=chunking)

    def copy(self) -> Kind:
        """Return the kind of the collection in the same store to which this one is pushed."""
        return replace(self, name="copy")

    def tenants(self) -> Sequence[str | None]:
        """Return the tenants, each for a search of its own; [None] for a collection without tenants."""
        return TENANTS if self.seed % 2 else (None,)

    def document(self, name: str, edition: int) -> dict[str, Any]:
        """A document as it is ingested."""
        rng = random.Random(f"{self.seed} {name} {edition}")
        parts = [f"{name} edition{edition} part{part} " + "word " * 9 for part in range(rng.randint(1, 4))]
        return {"id": name, "text": "\n\n".join(part.strip() for part in parts), **self.payload(name, edition)}

    def payload(self, name: str, edition: int) -> dict[str, Any]:
        """The payload of a document."""
        own = {"edition": edition, "even": edition % 2 == 0, "group": f"g{edition % 3}"}
        return {**own, "tenant": tenant_of(name)} if self.seed % 2 else own


@dataclass
class State:
    """The editions that each document and note may have; None among them means that it may be missing."""

    documents: dict[str, set[int | None]] = field(default_factory=dict)
    notes: dict[str, set[int | None]] = field(default_factory=dict)
    models: set[int] = field(default_factory=lambda: {0})

    def copy(self) -> State:
        """A copy of what is known."""
        return State(
            {key: set(each) for key, each in self.documents.items()},
            {key: set(each) for key, each in self.notes.items()},
            set(self.models),
        )


@dataclass
class Operation:
    """One call of ``Collection``, and what the collection holds after it.

    Attributes:
        name: Name of the operation, such as "ingest".
        arguments: What the operation gets.
        documents: Edition of each changed document afterwards, by id; None for a document that is removed.
        notes: The same for notes.
        model: Number of the model afterwards, if it changes.
        empties: A source whose other documents are removed.
        tenants: Only documents of these tenants are removed from the source. Default: all.
        may: Editions that each document may have while the operation runs; None among them for a missing document.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    documents: dict[str, int | None] = field(default_factory=dict)
    notes: dict[str, int | None] = field(default_factory=dict)
    model: int | None = None
    empties: str = ""
    tenants: frozenset[str] = frozenset()
    may: dict[str, set[int | None]] = field(default_factory=dict)

    def changes(self, part: str, keys: Iterable[str]) -> dict[str, int | None]:
        """Return the edition afterwards of each of the documents or notes with these ids that the operation changes."""
        own = dict(getattr(self, part))
        if part == "documents" and self.empties:
            gone = (key for key in keys if source_of(key) == self.empties)
            own = {key: None for key in gone if not self.tenants or tenant_of(key) in self.tenants} | own
        return own


def source_of(name: str) -> str:
    """The source of a document by its id."""
    return name.partition(":")[0] if ":" in name else SOURCES[0]


def tenant_of(name: str) -> str:
    """The tenant of a document by its id."""
    return TENANTS[int(name[-2:]) % 2]


@dataclass
class Outcome:
    """What a walk did.

    Attributes:
        kills: Processes killed.
        steps: Steps.
        done: Operations that were not killed, by name.
    """

    kills: int = 0
    steps: int = 0
    done: dict[str, int] = field(default_factory=dict)


def do(store: Path, kind: Kind, collection: Collection | None, operation: Operation) -> None:
    """Carry out an operation on the collection, in this process."""
    given = operation.arguments
    if operation.name == "restore":
        restore_collection(given["backup"], store, overwrite=True, wait_seconds=WAIT_SECONDS)
        return
    assert collection is not None
    if operation.name == "ingest":
        documents = [kind.document(*each) for each in given["documents"]]
        described = {"": f"about {given['source']}"}
        report = collection.ingest(documents, source=given["source"], describe=described, prune=given["prune"])
        assert not report.failed, report
    elif operation.name == "migrate":
        collection.migrate(model(given["to"]))
    elif operation.name == "read":
        read(collection, kind, operation.may)
    elif operation.name == "verify":
        report = collection.verify(**given)
        assert report.sound, report
    elif operation.name == "backup":
        backup_collection("notes", given["to"], store, overwrite=True, wait_seconds=WAIT_SECONDS)
    elif operation.name == "push":
        pushed = collection.push(**kind.copy().place(store), allow_empty=True, **given)
        assert not pushed.missed, pushed
    elif operation.name == "notes":
        collection.notes("app").put({key: {"edition": edition} for key, edition in operation.notes.items()})
    else:
        getattr(collection, operation.name)(**given)


def read(collection: Collection, kind: Kind, may: Mapping[str, set[int | None]]) -> None:
    """Search, get and find while others write: all documents are there, whole, in an edition that they may have."""
    for row in range(_READS):
        for tenant in kind.tenants():
            own = {name: may[name] for name in may if tenant is None or tenant_of(name) == tenant}
            wanted = None if tenant is None else {"tenant": tenant}
            mode: Any = ("dense", "hybrid")[row % 2]
            hits = collection.search("word", 1000, mode, wanted, group=False, exact=True, passages=False)
            _check_hits(hits, kind, own)
        for document in (documents := collection.get(sorted(may))):
            edition = document.payload["edition"]
            assert edition in may[document.id], ("get", document.id, edition, may[document.id])
            expected = kind.document(document.id.rpartition(":")[2], edition)["text"]
            assert document.text == expected, ("get", document.id, document.text, expected)
        _check_names({document.id for document in documents}, may, "get")
        _check_names(set(collection.find()), may, "find")
        group = f"g{row % 3}"
        fits = {name: values for name, values in may.items() if group in {f"g{(each or 0) % 3}" for each in values}}
        assert set(collection.find({"group": group})) <= fits.keys(), group
        collection.roots(), collection.described(list(may)[:5]), collection.info(), collection.notes("app").find()


def _check_names(found: set[str], may: Mapping[str, set[int | None]], what: str) -> None:
    missing = {name for name, values in may.items() if None not in values} - found
    extra = found - {name for name, values in may.items() if values != {None}}
    assert (missing, extra) == (set(), set()), what


def _check_hits(hits: Sequence[Hit], kind: Kind, may: Mapping[str, set[int | None]]) -> None:
    """Each document is found whole, in one edition; on a server, not all parts of a document that is just changing."""
    found: dict[str, dict[int, Hit]] = {}
    for hit in hits:
        chunks = found.setdefault(hit.payload["source"], {})
        assert hit.payload["position"] not in chunks, ("a chunk is found twice", hit.id)
        chunks[hit.payload["position"]] = hit
    for name, chunks in found.items():
        (edition,) = editions = {hit.payload["edition"] for hit in chunks.values()}
        assert editions <= may[name], ("search", name, editions, may[name])
        text = "\n\n".join(chunks[position].text for position in sorted(chunks))
        expected = kind.document(name.rpartition(":")[2], edition)["text"]
        if not kind.url or len(may[name]) == 1:
            assert text == expected, ("search", name, text, expected)
        assert all(hit.text in expected for hit in chunks.values()), ("search", name, text, expected)
    certain = {name: values for name, values in may.items() if not kind.url or len(values) == 1}
    _check_names(found.keys() & certain, certain, "search")


def work(pipe: Connection, store: Path, kind: Kind) -> None:
    """A process: does what the pipe says, and keeps the collection open while it is told to."""
    prepare(kind.seed)
    collection: Collection | None = None
    pipe.send("started")
    while (operation := pipe.recv()) is not None:
        try:
            if operation.name not in ALONE and collection is None:
                collection = kind.opened(store)
            do(store, kind, collection, operation)
            pipe.send(None)
        except (TwinvecError, AssertionError) as error:
            pipe.send(f"{type(error).__name__}: {error}")
        if collection is not None and not operation.arguments.get("keep", True):
            collection.close()
            collection = None
    if collection is not None:
        collection.close()


class Worker:
    """A process of the walk."""

    def __init__(self, store: Path, kind: Kind) -> None:
        self._place = store, kind
        self._pipe: Any = None
        self._process: Any = None

    def start(self, operation: Operation) -> None:
        """Begin an operation."""
        if self._process is None:
            self._pipe, theirs = processes.Pipe()
            self._process = processes.Process(target=work, args=(theirs, *self._place))
            self._process.start()
            theirs.close()
            assert self._pipe.recv() == "started"
        self._pipe.send(operation)

    def result(self) -> str | None:
        """Wait for the end of the operation, and return its error."""
        assert self._pipe.poll(4 * WAIT_SECONDS), "an operation does not end"
        found: str | None = self._pipe.recv()
        return found

    def is_done(self) -> bool:
        """Whether the operation has ended."""
        return bool(self._pipe.poll(0))

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._process = None

    def end(self) -> None:
        """Let the process close the collection and end."""
        if self._process is not None:
            self._pipe.send(None)
            self._process.join(WAIT_SECONDS)
            assert self._process.exitcode == 0, "a process has failed at its end"
            self._process = None


class Walk:
    """Changes one collection by several processes, kills some, and checks that it holds what it should hold."""

    def __init__(self, folder: Path, seed: int, url: str = "") -> None:
        self._rng = random.Random(seed)
        self._kind = Kind(seed, url)
        self._folder = folder
        self._store = folder / "store"
        self._backup = folder / "backup"
        self._saved: State | None = None
        self._pushed: State | None = None
        self._is_copy_outdated = False  # whether the copy has a former model
        self._state = State()
        self._edition = 0
        self._longest: dict[str, float] = {}
        self._may_lack_vectors = False  # on a server: whether a migration was killed beside an ingest
        self._workers = [Worker(self._store, self._kind) for _ in range(3)]
        self._handle: Collection | None = None
        self._where = f"seed {seed}"
        self.outcome = Outcome()
        with self._kind.opened(self._store) as collection:
            first = self._ingest(NAMES[:6], "main", prune=False)
            do(self._store, self._kind, collection, first)
        self._apply([(first, True)])

    def step(self) -> None:
        """Let processes do operations at once, kill some, and compare."""
        self.outcome.steps += 1
        alone = not self._kind.url and self._rng.random() < 0.12
        operations = [self._one_alone()] if alone else [self._one() for _ in range(self._rng.choice((1, 1, 2, 3)))]
        if not alone and len(operations) < len(self._workers) and self._rng.random() < 0.6:
            operations.append(Operation("read", may=self._possible(operations)))
        told = ", ".join(f"{each.name} {each.arguments}" for each in operations)
        self._where = f"seed {self._kind.seed}, step {self.outcome.steps}: {told}"
        if alone:
            self._close()
        if operations[0].name == "rename":
            self._rename()
        else:
            self._run(operations)
        self.check()

    def end(self) -> None:
        """Close everything, and compare once more, in a collection that was opened by nobody else."""
        self._close()
        self._where = f"seed {self._kind.seed}, end"
        self.check()
        self._close()
        if self._kind.url:
            return
        left = sorted(path.name for path in (self._store / "notes").iterdir())
        assert left == ["collection.json", "lock", "owner", "shard"], left

    def _one(self) -> Operation:
        rng = self._rng
        weights = {name: weight for name, weight in _WEIGHTS.items() if name != "backup" or not self._kind.url}
        name = rng.choices(list(weights), list(weights.values()))[0]
        keep = {"keep": rng.random() < 0.6}
        known = sorted(self._state.documents)
        if name == "ingest":
            source = rng.choice(SOURCES)
            return self._ingest(rng.sample(NAMES, rng.randint(1, 10)), source, prune=rng.random() < 0.3)
        if name == "delete":
            gone = rng.sample(known, min(len(known), 4))
            return Operation(name, {"ids": gone}, dict.fromkeys(gone))
        if name == "delete_source":
            source = rng.choice(SOURCES[1:])
            return Operation(name, {"source": source}, empties=source)
        if name == "notes":
            self._edition += 1
            return Operation(name, keep, notes={rng.choice("abc"): self._edition})
        if name == "migrate":
            to = (max(self._state.models) + rng.choice((1, 1, 2))) % 4
            return Operation(name, {"to": to}, model=to)
        if name == "verify":
            return Operation(name, {"repair": rng.random() < 0.5})
        if name == "push":
            return Operation(name, {"prune": rng.random() < 0.5})
        if name == "backup":
            return Operation(name, {"to": self._backup})
        if name == "reindex":
            indexes = rng.choice((None, {"group": "keyword"}, {"edition": "integer"}, {"*": False}, False))
            if self._kind.url and (indexes is False or (indexes and "*" in indexes)):
                indexes = {}  # a strict server filters by keys with an index only
            given = {"index": {"quantization": rng.choice(("int8", "none"))}} if rng.random() < 0.3 else {}
            return Operation(name, given if indexes is None else {"payload_indexes": indexes, **given})
        return Operation(name)

    def _one_alone(self) -> Operation:
        if self._saved is not None and self._rng.random() < 0.7:
            return Operation("restore", {"backup": self._backup})
        return Operation("rename")

    def _ingest(self, names: list[str], source: str, *, prune: bool) -> Operation:
        prefix = "" if source == "main" else f"{source}:"
        given, after = [], {}
        for name in names:
            self._edition += 1
            given.append((name, self._edition))
            after[prefix + name] = self._edition
        given_all = {"documents": given, "source": source, "prune": prune}
        tenants = frozenset(map(tenant_of, names)) if self._kind.seed % 2 else frozenset()
        return Operation("ingest", given_all, after, empties=source if prune else "", tenants=tenants)

    def _run(self, operations: list[Operation]) -> None:
        workers = self._rng.sample(self._workers, len(operations))
        if self._rng.random() < 0.4:
            self._leave()
        start = time.monotonic()
        moments = []
        for worker, operation in zip(workers, operations, strict=True):
            worker.start(operation)
            dies = self._rng.random() < 0.5
            moments.append(self._rng.uniform(0, self._longest.get(operation.name, 0.5)) if dies else None)
        results = []
        beside_ingest = bool(self._kind.url) and any(each.name == "ingest" for each in operations)
        self._may_lack_vectors = False
        for moment, worker, operation in sorted(
            zip(moments, workers, operations, strict=True), key=lambda each: (each[0] is None, each[0] or 0)
        ):
            if moment is not None:
                time.sleep(max(0.0, start + moment - time.monotonic()))
                if not worker.is_done():
                    worker.kill()
                    self.outcome.kills += 1
                    self._may_lack_vectors |= operation.name == "migrate" and beside_ingest
                    self._longest[operation.name] = self._longest.get(operation.name, 0.5) * 1.05
                    results.append((operation, False))
                    continue
                self._longest[operation.name] = self._longest.get(operation.name, 0.5) * 0.8
            error = worker.result()
            assert error is None or self._is_expected(operation, operations, error), (self._where, error)
            self.outcome.done[operation.name] = self.outcome.done.get(operation.name, 0) + (error is None)
            results.append((operation, error is None))
        self._apply(results)

    def _is_expected(self, operation: Operation, operations: list[Operation], error: str) -> bool:
        """Whether an operation may have been refused."""
        if operation.name == "delete_source":
            own = {key: values for key, values in self._state.documents.items() if source_of(key) == operation.empties}
            others = [each.changes("documents", own) for each in operations if each is not operation]
            may_be_gone = (
                None in values or any(changed.get(key, 0) is None for changed in others) for key, values in own.items()
            )
            return "there is no source" in error and all(may_be_gone)
        if operation.name == "migrate":
            return re.search("has the model .* already|(is|was) under way", error) is not None
        if operation.name == "push":
            if "made with the model" in error or "has the model" in error:
                self._is_copy_outdated = True
                return True
            return "missed" in error and len(operations) > 1
        if operation.name == "backup":
            return "another process is writing this backup" in error
        return False

    def _possible(self, operations: Sequence[Operation]) -> dict[str, set[int | None]]:
        """Return the editions that documents may have while these operations run."""
        names = self._state.documents.keys() | {name for each in operations for name in each.documents}
        may = {name: set(self._state.documents.get(name, {None})) for name in names}
        for each in operations:
            for name, edition in each.changes("documents", names).items():
                may[name].add(edition)
        return may

    def _apply(self, results: list[tuple[Operation, bool]]) -> None:
        """Change what the collection may hold; of each operation it is known whether it was completed."""
        before = self._state.copy()
        for part in ("documents", "notes"):
            may, had = getattr(self._state, part), getattr(before, part)
            keys = had.keys() | {key for operation, _ in results for key in getattr(operation, part)}
            own = [(operation.changes(part, keys), done) for operation, done in results]
            for key in {key for changed, _ in own for key in changed}:
                changes = [(changed[key], done) for changed, done in own if key in changed]
                may[key] = {value for value, _ in changes}
                if not any(done for _, done in changes):
                    may[key] |= had.get(key, {None})
        switched = {operation.model for operation, _ in results if operation.model is not None}
        is_certain = any(done for operation, done in results if operation.model is not None)
        self._state.models = switched if is_certain else before.models | switched
        for operation, done in results:
            if operation.name == "backup":
                self._look_at_backup(before)
            if operation.name == "push":
                self._look_at_copy(before, is_whole=done, is_pruned=done and operation.arguments["prune"])
            if operation.name == "restore":
                self._restored(done=done)

    def _look_at_backup(self, before: State) -> None:
        """Take what the backup holds for what it should hold, if that may be so."""
        if not (self._backup / "collection.json").exists() and not self._backup.exists():
            return
        place = self._folder / "look"
        restore_collection(self._backup, place)
        may = self._state.copy()
        for part in ("documents", "notes"):  # those of this step may have come after the backup
            for key, values in getattr(may, part).items():
                values |= getattr(before, part).get(key, {None})
        if self._saved is not None:  # a kill has left the older backup
            for part in ("documents", "notes"):
                for key in getattr(may, part).keys() | getattr(self._saved, part).keys():
                    getattr(may, part).setdefault(key, {None}).update(getattr(self._saved, part).get(key, {None}))
        may.models = may.models | before.models | (self._saved.models if self._saved else set())
        with self._kind.opened(place) as collection:
            self._saved = self._compared(collection, may)
        shutil.rmtree(place)

    def _look_at_copy(self, before: State, *, is_whole: bool, is_pruned: bool) -> None:
        """Take what the copy holds for what it should hold, if that may be so; remove a copy with a former model."""
        kind = self._kind.copy()
        if self._is_copy_outdated:
            drop_collection(**kind.place(self._store))
            self._pushed, self._is_copy_outdated = None, False
            return
        try:
            copy = Collection.open(**kind.place(self._store), create=False)
        except CollectionNotFoundError:
            return  # killed early
        may, former = self._state.copy(), self._pushed or State()
        for part in ("documents", "notes"):
            own = getattr(may, part)
            for key in own.keys() | getattr(former, part).keys():
                values = own.setdefault(key, {None})
                values |= getattr(before, part).get(key, {None})
                if not is_pruned and (not is_whole or None in values):
                    values |= getattr(former, part).get(key, {None})
        may.models = may.models | before.models | former.models
        with copy:
            assert copy.verify().sound, self._where
            # the sources come last, so only a whole copy has them
            self._pushed = self._compared(copy, may) if is_whole else may

    def _restored(self, *, done: bool) -> None:
        assert self._saved is not None
        if done:
            self._state = self._saved.copy()
            return
        with self._kind.opened(self._store) as collection:
            there = set(collection.find())
            notes = {key for key, _ in collection.notes("app").find()}
        for may in (self._state, self._saved):
            whole = {key for key, values in may.documents.items() if values != {None}}
            if there == whole and notes == {key for key, values in may.notes.items() if values != {None}}:
                with self._kind.opened(self._store) as collection:
                    try:
                        self._state = self._compared(collection, may.copy())
                    except AssertionError:
                        continue
                    return
        raise AssertionError((self._where, "neither the old collection nor the restored one"))

    def _rename(self) -> None:
        other = self._folder / f"store-{self.outcome.steps}"
        self._store.rename(other)
        self._store = other
        self._workers = [Worker(self._store, self._kind) for _ in self._workers]

    def _close(self) -> None:
        self._leave()
        for worker in self._workers:
            worker.end()

    def _leave(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def check(self) -> None:
        """Compare the collection with what it should hold; what it may hold is then what it holds."""
        if self._handle is None:
            self._handle = self._kind.opened(self._store)
        self._state = self._compared(self._handle, self._state)

    def _compared(self, collection: Collection, may: State) -> State:
        where = self._where
        collection.search("word", 1, filter={"tenant": TENANTS[0]} if self._kind.seed % 2 else None)
        encoder = collection.encoder  # of the model that the search has noticed
        if self._may_lack_vectors:
            collection.ingest([])  # encodes what lacks a vector
        found = {each.id: each for each in collection.get(sorted(may.documents))}
        assert sorted(collection.find()) == sorted(found), (where, "find and get differ, or an unknown document")
        editions: dict[str, int] = {}
        for name, values in may.documents.items():
            document = found.get(name)
            edition = None if document is None else document.payload["edition"]
            assert edition in values, (where, name, edition, values)
            if document is not None:
                expected = self._kind.document(name.rpartition(":")[2], document.payload["edition"])
                assert (document.text, document.payload) == (expected["text"], self._kind.payload(name, edition)), where
                editions[name] = edition
        models = {number for number in may.models if model(number).space == encoder.space}
        assert len(models) == 1, (where, encoder.space, may.models)
        _check_searches(collection, {name: found[name].text for name in editions}, encoder, self._kind, where)
        # a strict server refuses filters on keys that it has never seen, as in the copy of an empty collection
        for wanted in ({"group": "g1"}, {"even": True}, {"edition": {"gte": self._edition // 2}}) if editions else ():
            expected_ids = {name for name, edition in editions.items() if _fits(self._kind, name, edition, wanted)}
            assert set(collection.find(wanted)) == expected_ids, (where, wanted)
        _check_sources(collection, editions, where)
        report = collection.verify()
        assert report.sound, (where, report)
        notes = {key: values["edition"] for key, values in collection.notes("app").find()}
        for key in may.notes.keys() | notes.keys():
            assert notes.get(key) in may.notes.get(key, {None}), (where, key, notes.get(key))
        return State(
            {name: {edition} for name, edition in editions.items()},
            {key: {edition} for key, edition in notes.items()},
            models,
        )


_WEIGHTS = {
    "ingest": 10,
    "verify": 1,
    "delete": 2,
    "delete_source": 1,
    "notes": 1,
    "migrate": 1.5,
    "drop_others": 0.7,
    "backup": 1.5,
    "push": 2,
    "reindex": 1.5,
}


def _fits(kind: Kind, name: str, edition: int, wanted: Mapping[str, Any]) -> bool:
    payload = kind.payload(name, edition)
    ((key, value),) = wanted.items()
    return payload[key] >= value["gte"] if isinstance(value, dict) else payload[key] == value


def _check_searches(
    collection: Collection, texts: Mapping[str, str], encoder: StateEncoder, kind: Kind, where: str
) -> None:
    """Exact search finds every chunk once, with the cosine that the model gives; words find what has them."""
    query = "edition7 part1 word"
    vector = encoder.encode_query([query])[0]
    pieces: dict[str, dict[int, str]] = {}
    for wanted in [each and {"tenant": each} for each in kind.tenants()]:
        hits = collection.search(query, 1000, "dense", wanted, group=False, exact=True, passages=False)
        cosines = encoder.encode_document([hit.text for hit in hits]) if hits else np.zeros((0, encoder.dim))
        for hit, row in zip(hits, cosines, strict=True):
            cosine = float(row @ vector / np.linalg.norm(row) / np.linalg.norm(vector))
            assert abs(hit.score - cosine) < 1e-4, (where, hit.id, hit.score, cosine)
            source, position = hit.payload["source"], hit.payload["position"]
            assert position not in pieces.setdefault(source, {}), (where, "a chunk is found twice", hit.id)
            pieces[source][position] = hit.text
        for name in random.Random(where).sample(sorted(texts), min(len(texts), 4)):
            edition = texts[name].split()[1]
            own = [hit.id for hit in collection.search(edition, 50, "sparse", wanted, passages=False)]
            has = [each for each, text in texts.items() if edition in text.split()]
            if wanted is not None:
                has = [each for each in has if tenant_of(each) == wanted["tenant"]]
            assert sorted(own) == sorted(has), (where, edition, own, has)
    whole = {name: "\n\n".join(parts[row] for row in sorted(parts)) for name, parts in pieces.items()}
    assert whole == dict(texts), (where, "the chunks of a search are not the documents")


def _check_sources(collection: Collection, editions: Mapping[str, int], where: str) -> None:
    """A source that a killed process has removed comes back with the next ingest, by the intent that it left."""
    roots = {root.name for root in collection.roots()}
    if missing := {source_of(name) for name in editions} - roots:
        left = [each.payload for each in collection._backend.scroll([INTENTS])]
        assert missing <= {each["root"]["name"] for each in left if "root" in each}, (where, missing, roots)
        return
    described = collection.described(list(editions))
    for name in editions:
        source = source_of(name)
        assert described.get(name) == f"about {source}", (where, name, described.get(name))
    for source in roots:
        own = {name for name in editions if source_of(name) == source}
        assert set(collection.find(source=source)) == own, (where, source)


def run(folder: Path, kills: int, seed: int, url: str = "") -> Outcome:
    """Take steps until at least ``kills`` processes were killed, and over half as many ended their operation first.

    Raise AssertionError if a comparison fails.
    """
    prepare(seed)
    walk = Walk(folder, seed, url)
    try:
        while walk.outcome.kills < kills or sum(walk.outcome.done.values()) <= kills // 2:
            walk.step()
        walk.end()
    finally:
        for worker in walk._workers:
            if worker._process is not None:
                worker.kill()
    return walk.outcome


if __name__ == "__main__":
    command_line(__doc__, run, kills=200)
