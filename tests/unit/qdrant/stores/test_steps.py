"""Steps are performed in order; what one has answered does not wait for the next one in vain."""

from __future__ import annotations

import asyncio
import weakref

import pytest

from twinvec_qdrant.stores.steps import Ask, asked, run, run_awaiting


class Answer:
    """An answer that a test can watch."""


def counted(answers):
    """Return the number of answers, of which it keeps none."""
    for number in range(answers):
        yield from asked("get", number)
    return answers


def watching():
    """Return what answers requests, and the answers that were alive at each."""
    given: list[weakref.ref[Answer]] = []
    alive: list[int] = []

    def ask(step: Ask) -> Answer:
        alive.append(sum(each() is not None for each in given))
        answer = Answer()
        given.append(weakref.ref(answer))
        return answer

    return ask, alive


def test_an_answer_that_is_no_longer_needed_is_gone_at_the_next_request():
    ask, alive = watching()
    assert run(counted(3), ask) == 3
    assert alive == [0, 0, 0]


def test_so_it_is_on_an_event_loop():
    ask, alive = watching()

    async def perform(step):
        await asyncio.sleep(0)
        return ask(step)

    assert asyncio.run(run_awaiting(counted(3), perform)) == 3
    assert alive == [0, 0, 0]


def test_an_error_arrives_where_the_step_was_asked_for():
    def careful():
        try:
            yield from asked("get")
        except KeyError:
            return "nothing"

    def ask(step: Ask) -> Answer:
        raise KeyError(step.method)

    assert run(careful(), ask) == "nothing"
    with pytest.raises(KeyError, match="get"):
        run(counted(1), ask)
