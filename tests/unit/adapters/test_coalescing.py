"""Gathered: what waits together is computed together, and nobody's fault or haste hurts another."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import textwrap
import threading

import pytest

from twinvec.adapters.coalescing import Coalescer


class Recorder:
    """Gives each text's upper case; remembers what it was called with, and can be held back."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.threads: set[int] = set()
        self.free = threading.Event()
        self.free.set()
        self.entered = threading.Event()

    def __call__(self, texts: list[str]) -> list[str]:
        self.calls.append(texts)
        self.threads.add(threading.get_ident())
        self.entered.set()
        assert self.free.wait(30)
        if "bad" in texts:
            raise ValueError("bad text")
        return [text.upper() for text in texts]


async def busy() -> tuple[Recorder, Coalescer[str, str], asyncio.Task[list[str]]]:
    """A recorder that is busy with the call ["first"] until it is free, its coalescer, and the call."""
    recorder = Recorder()
    recorder.free.clear()
    gathered = Coalescer(recorder)
    first = asyncio.create_task(gathered(["first"]))
    await asyncio.to_thread(recorder.entered.wait, 30)
    return recorder, gathered, first


def upper(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


async def test_calls_of_one_round_are_computed_at_once_and_answered_each() -> None:
    recorder = Recorder()
    gathered = Coalescer(recorder)
    answers = await asyncio.gather(*(gathered([f"a{i}", f"b{i}"]) for i in range(50)))
    assert answers == [[f"A{i}", f"B{i}"] for i in range(50)]
    assert len(recorder.calls) == 1
    assert recorder.threads.isdisjoint({threading.get_ident()})


async def test_calls_that_come_while_the_thread_is_busy_wait_for_one_next_call() -> None:
    recorder, gathered, first = await busy()
    others = [asyncio.create_task(gathered([f"x{i}"])) for i in range(5)]
    await asyncio.sleep(0)
    recorder.free.set()
    assert await first == ["FIRST"]
    assert await asyncio.gather(*others) == [[f"X{i}"] for i in range(5)]
    assert recorder.calls == [["first"], [f"x{i}" for i in range(5)]]


async def test_one_batch_holds_no_more_than_asked_unless_a_single_call_does() -> None:
    recorder = Recorder()
    gathered = Coalescer(recorder, most=4)
    long = [str(i) for i in range(9)]
    answers = await asyncio.gather(gathered(["a", "b", "c"]), gathered(["d", "e"]), gathered(long), gathered([]))
    assert answers == [["A", "B", "C"], ["D", "E"], long, []]
    assert [len(call) for call in recorder.calls] == [3, 2, 9, 0]


async def test_a_bad_call_alone_fails() -> None:
    gathered = Coalescer(Recorder())
    good, bad, also_good = await asyncio.gather(
        gathered(["a"]), gathered(["bad"]), gathered(["b"]), return_exceptions=True
    )
    assert (good, also_good) == (["A"], ["B"])
    assert isinstance(bad, ValueError)


async def test_a_cancelled_call_is_not_computed_and_the_others_are() -> None:
    recorder, gathered, first = await busy()
    cancelled, kept = asyncio.create_task(gathered(["never"])), asyncio.create_task(gathered(["kept"]))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)
    recorder.free.set()
    assert (await first, await kept) == (["FIRST"], ["KEPT"])
    assert recorder.calls == [["first"], ["kept"]]
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_cancelling_a_call_that_is_being_computed_leaves_the_thread_working() -> None:
    recorder, gathered, task = await busy()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    recorder.free.set()
    assert await gathered(["next"]) == ["NEXT"]


def test_several_event_loops_share_it() -> None:
    gathered = Coalescer(upper)
    answers: dict[int, list[list[str]]] = {}

    async def ask(number: int) -> None:
        answers[number] = await asyncio.gather(*(gathered([f"t{number}-{i}"]) for i in range(20)))

    threads = [threading.Thread(target=lambda n=n: asyncio.run(ask(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: [[f"T{n}-{i}"] for i in range(20)] for n in range(4)}


def test_a_loop_that_ended_in_the_middle_does_not_stop_the_next() -> None:
    gathered = Coalescer(upper)

    async def leave() -> None:
        asyncio.get_running_loop().create_task(gathered(["left behind"]))
        await asyncio.sleep(0)

    asyncio.run(leave())
    assert asyncio.run(gathered(["here"])) == ["HERE"]


async def test_a_copy_from_another_process_works() -> None:
    copy = pickle.loads(pickle.dumps(Coalescer(upper, most=3)))
    assert await copy(["a"]) == ["A"]


async def test_a_batch_is_full_by_the_weight_of_its_items() -> None:
    recorder = Recorder()
    gathered = Coalescer(recorder, most=10, weigh=len)
    heavy = ["h" * 30, "i"]
    await asyncio.gather(gathered(["a" * 6]), gathered(["b" * 4]), gathered(["c"]), gathered(heavy), gathered(["d"]))
    assert recorder.calls == [["a" * 6, "b" * 4], ["c"], heavy, ["d"]]


async def test_with_patience_callers_that_ask_again_are_computed_together_again(monkeypatch) -> None:
    monkeypatch.setattr("twinvec.adapters.coalescing._LONGEST_PAUSE", 1e6)  # the event loop may be slow
    recorder = Recorder()
    gathered = Coalescer(recorder, patience=1e9)  # up to the longest pause

    async def ask(client: int) -> None:
        for turn in range(5):
            await gathered([f"{client}-{turn}"])
            for _ in range(client):  # the answers reach the callers one by one
                await asyncio.sleep(0)

    await asyncio.gather(*(ask(client) for client in range(4)))
    assert [len(call) for call in recorder.calls] == [4] * 5


async def test_with_patience_a_single_caller_never_waits(monkeypatch) -> None:
    gathered = Coalescer(upper, patience=1e9)
    monkeypatch.setattr("twinvec.adapters.coalescing._LONGEST_PAUSE", 1e9)
    assert [await gathered([str(turn)]) for turn in range(3)] == [["0"], ["1"], ["2"]]


async def test_closing_answers_what_waits() -> None:
    recorder = Recorder()
    recorder.free.clear()
    gathered = Coalescer(recorder)
    tasks = [asyncio.create_task(gathered(["first"]))]
    await asyncio.to_thread(recorder.entered.wait, 30)
    tasks.append(asyncio.create_task(gathered(["second"])))
    await asyncio.sleep(0)
    closing = asyncio.create_task(asyncio.to_thread(gathered.close))
    recorder.free.set()
    await closing
    assert await asyncio.gather(*tasks) == [["FIRST"], ["SECOND"]]
    with pytest.raises(RuntimeError):
        await gathered(["late"])


async def test_callers_get_the_error_if_no_thread_starts(monkeypatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gathered = Coalescer(upper)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for call in [gathered(["a"]), gathered(["b"])]:
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await asyncio.wait_for(call, 5)
    assert await gathered(["a"]) == ["A"]


def test_a_forked_process_has_a_thread_of_its_own() -> None:
    program = textwrap.dedent("""
        import asyncio, os
        from twinvec.adapters.coalescing import Coalescer
        doubled = Coalescer(lambda numbers: [2 * number for number in numbers])

        async def answer():
            return (await asyncio.wait_for(doubled([7]), 120))[0]

        assert asyncio.run(answer()) == 14
        child = os.fork()
        if child == 0:
            os._exit(asyncio.run(answer()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 14
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
