"""Keep the number of the records and a sum over them, so that lost records are noticed when the files are next opened.

If a file is damaged after a kill, records may be lost, or former records may return. The chunks do not show this,
because chunks that no record lists count as leftovers of a killed writer. So twinvec keeps, outside the engine's files,
the number of records and the sum of the digests of their ids and revisions.

    shard/records.open.json    the states that the records may have; exists while the engine is open, or after a kill

Before a write that changes records, the state after the write is added to the file, which is forced to the disk. After
a flush, only the present state is left. A kill at any moment therefore leaves the records in one of the states. A close
moves the present state to the list of checksums. The file is optional: if it is missing or cannot be read, nothing is
compared. Collections of older versions lack the file until their first write.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from twinvec.support.atomic import sync_folder
from twinvec_qdrant.stores.conditions import IdIs, field_is
from twinvec_qdrant.stores.embedded.checksums import EXPECTED, Records
from twinvec_qdrant.stores.embedded.values import counted, edge_filter
from twinvec_qdrant.stores.points import PAGE

_RECORDS = field_is("kind", "record")
_MODULUS = 2**64
_SIZE = 4096  # bytes of the file, which is longer with many states only; a write changes this block in place


def records_of(shard: edge.EdgeShard) -> Records:
    """Read all records, and return their number and sum."""
    records, offset = Records(), None
    while True:
        request = edge.ScrollRequest(offset, PAGE, edge_filter([_RECORDS]), ["kind", "revision"], False)
        page, offset = shard.scroll(request)
        records = changed(records, {}, revisions(page))
        if offset is None:
            return records


def revisions(points: Collection[Any]) -> dict[str, str]:
    """Return the revisions of the records among stored points, by id."""
    payloads = {str(each.id): each.payload or {} for each in points}
    return {key: str(own.get("revision")) for key, own in payloads.items() if own.get("kind") == "record"}


def changed(records: Records, old: Mapping[str, str], new: Mapping[str, str]) -> Records:
    """Return number and sum after ``new`` records have replaced ``old`` ones; both map ids to revisions."""
    total = records.sum + sum(map(_digest, new.items())) - sum(map(_digest, old.items()))
    return Records(records.number + len(new) - len(old), total % _MODULUS)


def read_expected(shard: Path) -> list[Records]:
    """Return the states in which the records may be, from the file in ``shard``; an empty list if they are unknown."""
    try:
        values = json.loads((shard / EXPECTED).read_text(encoding="utf-8"))
        states = [Records(int(count), int(total)) for count, total in values["records"]]
        return states if values["sum"] == _checksum(states) else []
    except (OSError, ValueError, TypeError, KeyError):
        return []


def expected_counts(shard: Path) -> dict[str, int]:
    """Return how many records the collection must have at least, as ``{"record": number}``; {} if it is unknown."""
    states = read_expected(shard)
    return {"record": min(each.number for each in states)} if states else {}


class ExpectedRecords:
    """Keeps the expected records while an engine is open; ``shard`` is the folder of the engine's files.

    ``states`` has the states in the file, or of the closed files. ``now`` is the present state; None if it is unknown.
    """

    def __init__(self, shard: Path, states: Sequence[Records] = (), now: Records | None = None) -> None:
        self.now = now
        self._path = shard / EXPECTED
        self._states = list(states)
        self._is_kept = True

    def begin(self) -> None:
        """Write the state of the closed files; if the state is unknown, remove a file that a kill has left."""
        if self._states:
            self._try_to_write()
        else:
            self._path.unlink(missing_ok=True)

    @contextmanager
    def writing(self, shard: edge.EdgeShard, points: Mapping[str, str | None]) -> Iterator[None]:
        """Expect the state of the records after the write in the block.

        ``points`` maps the ids of written records to their revisions, and the ids of removed points to None. Other
        written points may be left out. The replaced revisions are read from the store. Those that ``commit`` expects
        can be outdated, because the iterable that an ingest reads may change the collection meanwhile.
        """
        new = {key: revision for key, revision in points.items() if revision is not None}
        held = self._is_kept and bool(points) and counted(shard, edge_filter([IdIs(tuple(points)), _RECORDS])) > 0
        if not self._is_kept or not (new or held):
            yield
            return
        if self.now is None:
            shard.flush()
            self.now = records_of(shard)
            self._states = [self.now]
        old = revisions(shard.retrieve(list(points), ["kind", "revision"], False)) if held else {}
        if (after := changed(self.now, old, new)) != self.now:
            self._expect(after)
        try:
            yield
        except BaseException:
            self._give_up()
            raise

    def flushed(self) -> None:
        """After a flush of the engine, leave only the present state in the file."""
        if self.now is not None and len(self._states) > 1:
            self._states = [self.now]
            self._try_to_write()

    def _expect(self, records: Records) -> None:
        self._states.append(records)
        self.now = records
        self._try_to_write(durable=True)

    def _try_to_write(self, *, durable: bool = False) -> None:
        try:
            self._write(durable=durable)
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        """Expect nothing until the engine is opened again; raise ``OSError`` if the file cannot be removed."""
        self._is_kept, self.now, self._states = False, None, []
        self._path.unlink(missing_ok=True)
        sync_folder(self._path.parent)

    def _write(self, *, durable: bool = False) -> None:
        content = json.dumps({"records": self._states, "sum": _checksum(self._states)}).encode().ljust(_SIZE)
        with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0) as file:
            file.write(content)
            file.truncate()
            if durable:
                os.fsync(file.fileno())


def _checksum(states: Sequence[Records]) -> int:
    return zlib.crc32(json.dumps(states).encode())


def _digest(record: tuple[str, str]) -> int:
    return int.from_bytes(blake2b(" ".join(record).encode(), digest_size=8).digest(), "big")
