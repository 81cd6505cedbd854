"""Calls that tasks do: their results come in order, few are taken ahead, and what they die of is told."""

from __future__ import annotations

import os
import signal
import time

import pytest

from twinvec.errors import DocumentError, EngineError
from twinvec_qdrant import HelperCall
from twinvec_ray import calls
from twinvec_ray.calls import AHEAD, AHEAD_BYTES, TRIES, with_results
from twinvec_ray.cluster import plan
from twinvec_ray.helpers import RayHelpers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


class Items:
    """Items that count how many of them are taken."""

    def __init__(self, items):
        self._items = iter(items)
        self.taken = 0

    def __iter__(self):
        return self

    def __next__(self):
        item = next(self._items)
        self.taken += 1
        return item


def call(function, *arguments, size=0):
    return HelperCall(function, arguments, size, lost="lost")


def test_results_come_in_order_and_few_items_are_taken_ahead(cluster, tmp_path):
    count = 4 * AHEAD * 2
    at_work, done = tmp_path / "at-work", tmp_path / "done"
    at_work.mkdir()
    done.mkdir()

    def overtaken_at_times(number):
        (at_work / str(number)).touch()
        beside = len(list(at_work.iterdir()))
        while number % 10 == 0 and number < count - 10 and all(int(each.name) < number for each in done.iterdir()):
            time.sleep(0.01)  # until the other process has done a later call
        (at_work / str(number)).unlink()
        (done / str(number)).touch()
        return -number, beside, os.getpid()

    items = Items(call(overtaken_at_times, row) if row % 3 else f"item {row}" for row in range(count))
    for row, result in enumerate(with_results(items, plan())):
        assert items.taken <= row + 1 + AHEAD * 2 + 1  # one more waits for room
        if row % 3:
            number, beside, process = result
            assert number == -row
            assert beside <= 2  # processes, as there are CPUs
            assert process != os.getpid()
        else:
            assert result == f"item {row}"
    assert row == count - 1


def test_data_is_taken_ahead_while_it_has_room(cluster):
    sizes = [AHEAD_BYTES // 4] * 8 + [10 * AHEAD_BYTES, 1, 1, AHEAD_BYTES, AHEAD_BYTES + 1] + [1] * 5
    items = Items(call(int, row, size=size) for row, size in enumerate(sizes))
    ahead = []
    for row, result in enumerate(with_results(items, plan())):
        assert result == row
        begun = items.taken - (items.taken < len(sizes))  # the last one that was taken waits for room
        ahead.append(begun - row)
        assert ahead[-1] == 1 or sum(sizes[row:begun]) <= AHEAD_BYTES
    assert ahead[:9] == [4, 4, 4, 4, 4, 3, 2, 1, 1]


def test_nothing_to_do_starts_nothing(cluster):
    assert list(with_results(iter([]), plan())) == []
    assert list(with_results(iter("abc"), plan())) == ["a", "b", "c"]


def test_a_call_whose_process_dies_once_is_done_by_another(cluster, tmp_path):
    def dies_once(row):
        try:
            (tmp_path / "died").touch(exist_ok=False)
        except FileExistsError:
            return row
        return os.kill(os.getpid(), signal.SIGKILL)

    assert list(with_results((call(dies_once, row) for row in range(6)), plan())) == list(range(6))
    assert (tmp_path / "died").exists()


def test_a_call_that_every_process_dies_of_is_lost_alone(cluster, tmp_path):
    def dies(row):
        if row == 2:
            (tmp_path / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    assert list(with_results((call(dies, row) for row in range(6)), plan())) == [0, 1, "lost", 3, 4, 5]
    assert len(list(tmp_path.iterdir())) == TRIES


def test_an_error_is_the_one_that_was_raised(cluster):
    def refuses(row):
        raise DocumentError(f"document {row} is refused")

    def fails(row):
        raise ValueError(f"a bug at {row}")

    with pytest.raises(DocumentError, match="document 1 is refused"):
        list(with_results(iter([call(refuses, 1), call(refuses, 2)]), plan()))
    with pytest.raises(EngineError, match="a bug at 1"):
        list(with_results(iter([call(fails, 1)]), plan()))


def test_calls_need_no_cpu_that_others_may_hold(cluster):
    class Holder:
        def hold(self):
            return True

    holder = cluster.remote(Holder).options(num_cpus=2).remote()
    cluster.get(holder.hold.remote())
    try:
        assert list(with_results(iter([call(int, 1)]), plan())) == [1]
    finally:
        cluster.kill(holder)


@pytest.fixture
def endless(tmp_path):
    """A call that ends with the test."""

    def waits():
        while not (tmp_path / "over").exists():
            time.sleep(0.01)

    yield call(waits)
    (tmp_path / "over").touch()


def test_calls_that_outlive_their_cluster_start_no_other_one(cluster, monkeypatch, endless):
    """The traceback of an error may hold the generator until the cluster has ended."""
    left = with_results(iter(["an item", endless]), plan())
    assert next(left) == "an item"
    monkeypatch.setattr(calls.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(calls.ray, "cancel", lambda *_, **__: pytest.fail("Ray would start a cluster"))
    left.close()


def test_calls_end_with_the_helpers(cluster, endless):
    with RayHelpers(plan()) as helpers:
        left = helpers.with_results(iter(["an item", endless]))
        assert next(left) == "an item"
    assert list(left) == []
