"""Requests that wait at the same time become one, and each gets what belongs to it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from twinvec.errors import StoreUnavailableError
from twinvec_qdrant.stores.server.merging import Lane, points_of, slice_of


class Server:
    """Answers with ten times each number, once ``open`` is set; refuses negative numbers."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.open = asyncio.Event()

    async def send(self, items):
        self.sent.append(list(items))
        await self.open.wait()
        if min(items) < 0:
            raise ValueError(f"refused {min(items)}")
        return [10 * item for item in items]


async def asked(lane: Lane, requests: list[list[int]]) -> list[asyncio.Task]:
    tasks = [asyncio.create_task(lane(request)) for request in requests]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def busy(server: Server, lane: Lane) -> list[asyncio.Task]:
    """Eight requests under way, one after another."""
    tasks = [task for row in range(8) for task in await asked(lane, [[row]])]
    assert server.sent == [[row] for row in range(8)]
    return tasks


async def test_a_few_go_alone_and_those_that_wait_go_together():
    server = Server()
    lane = Lane(server.send, slice_of)
    first = await busy(server, lane)
    tasks = await asked(lane, [[row, row + 1] for row in range(0, 400, 2)])
    assert len(server.sent) == 8, "others wait"
    server.open.set()
    assert await asyncio.gather(*first) == [[10 * row] for row in range(8)]
    assert await asyncio.gather(*tasks) == [[10 * row, 10 * row + 10] for row in range(0, 400, 2)]
    assert [len(each) for each in server.sent[8:]] == [128, 128, 128, 16]


async def test_what_comes_in_the_same_moment_goes_together():
    server = Server()
    lane = Lane(server.send, slice_of)
    tasks = await asked(lane, [[1], [2], [3]])
    assert server.sent == [[1, 2, 3]]
    server.open.set()
    assert await asyncio.gather(*tasks) == [[10], [20], [30]]
    assert await lane([1000] * 200) == [10000] * 200, "a larger one goes alone"


async def test_of_a_refused_request_each_part_gets_its_own_answer():
    server = Server()
    lane = Lane(server.send, slice_of)
    first = await busy(server, lane)
    tasks = await asked(lane, [[20], [-1], [21, 22], [-2]])
    server.open.set()
    await asyncio.gather(*first)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert (found[0], found[2]) == ([200], [210, 220])
    assert [str(found[row]) for row in (1, 3)] == ["refused -1", "refused -2"]


async def test_without_an_answer_nobody_waits_for_another_request():
    server = Server()

    async def unanswered(items):
        await server.send(items)
        raise StoreUnavailableError("no answer") from TimeoutError()

    lane = Lane(unanswered, slice_of)
    tasks = await asked(lane, [[row] * 100 for row in range(20)])
    assert len(server.sent) == 8, "others wait"
    later = await asked(lane, [[20]])
    server.open.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert {(type(each), str(each), type(each.__cause__)) for each in found} == {
        (StoreUnavailableError, "no answer", TimeoutError)
    }
    assert len(set(map(id, found))) == len(found), "each has an error of its own"
    with pytest.raises(StoreUnavailableError):
        await later[0]
    assert server.sent[8:] == [[20]], "those that waited have waited long enough; one that came later has not"
    together = await asyncio.gather(*await asked(lane, [[1], [2], [3]]), return_exceptions=True)
    assert all(isinstance(each, StoreUnavailableError) for each in together)
    assert server.sent[9:] == [[1, 2, 3]], "no part is sent again"


async def test_who_no_longer_waits_is_not_asked_for():
    server = Server()
    lane = Lane(server.send, slice_of)
    first = await busy(server, lane)
    tasks = await asked(lane, [[20], [21], [22]])
    tasks[1].cancel()
    first[0].cancel()
    server.open.set()
    assert await asyncio.gather(*first[1:], tasks[0], tasks[2]) == [*([10 * row] for row in range(1, 8)), [200], [220]]
    assert [20, 22] in server.sent
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]


def test_points_are_told_apart_by_id():
    points = [SimpleNamespace(id=name) for name in "abc"]
    assert points_of(["c", "a", "gone"], 7, points) == [points[0], points[2]]
