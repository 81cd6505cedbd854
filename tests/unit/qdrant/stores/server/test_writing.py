"""Two streams of requests: all are done at the end, and an error ends them."""

from __future__ import annotations

import threading

import pytest

from twinvec_qdrant.stores.server.writing import in_streams


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_every_item_is_sent_once(streams, count):
    sent = []
    in_streams(sent.append, iter(range(count)), streams)
    assert sorted(sent) == list(range(count))


def test_two_are_under_way_at_once_and_never_more():
    both = threading.Barrier(2, timeout=60)  # breaks unless two calls meet
    active, most = set(), []

    def send(item):
        active.add(item)
        most.append(len(active))
        both.wait()
        active.discard(item)

    in_streams(send, range(10))
    assert max(most) == 2


def test_one_stream_stays_in_the_thread_of_the_caller():
    threads = set()
    in_streams(lambda item: threads.add(threading.current_thread()), range(5), 1)
    assert threads == {threading.current_thread()}


def test_an_error_is_raised_when_nothing_is_under_way_any_more():
    begun, ended = [], []

    def send(item):
        begun.append(item)
        if item == 3:
            raise ValueError("refused")
        ended.append(item)

    with pytest.raises(ValueError, match="refused"):
        in_streams(send, range(100))
    assert sorted([*ended, 3]) == sorted(begun)
    assert len(begun) < 10
