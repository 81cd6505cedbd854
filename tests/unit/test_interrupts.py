"""The exception of a signal handler ends the work, and is not taken for a fault of what the work read or called."""

from __future__ import annotations

import os
import signal
from functools import partial
from types import SimpleNamespace

import httpx
import pytest

from stand_in import StandIn
from twinvec.engines import onnx
from twinvec.interrupts import of_handler
from twinvec.training.data import row_files
from twinvec_qdrant import Collection, Root, read_source, update_collection
from twinvec_qdrant.calibration import measuring
from twinvec_qdrant.ingest import front_matter
from twinvec_qdrant.ingest.cutting import restructured_text
from twinvec_qdrant.ingest.reading import by_markitdown, converting, files, walking
from twinvec_qdrant.ingest.reading.letters import mail, parts
from twinvec_qdrant.ingest.reading.records import json_files, json_lines, mailboxes, tables
from words import WordEncoder

LETTER = "From: a@b.c\nSubject: Tea\nDate: Mon, 1 Jan 2024 10:00:00 +0000\n\nGreen tea.\n"


class TimeLimitError(TimeoutError):
    """A time limit of a task queue; an ``OSError``, which readers expect of a disk."""


class _Handler:
    def resets(self, number, frame):
        signal.signal(number, signal.SIG_DFL)
        raise TimeLimitError

    def __call__(self, number, frame):
        raise TimeLimitError


def handler(number, frame):
    raise TimeLimitError


def takes_all(*given):
    raise TimeLimitError


def calls_another(number, _):
    _fails()


def _fails():
    raise TimeLimitError


@pytest.fixture
def handles():
    """A function that sets the handler of SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield partial(signal.signal, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def interrupt(handles, monkeypatch):
    """``interrupt(module, "name")``: a signal comes whenever the function is called."""
    handles(handler)

    def patch(place, name):
        function = getattr(place, name)

        def interrupted(*arguments, **options):
            signalled()
            return function(*arguments, **options)

        monkeypatch.setattr(place, name, interrupted)

    return patch


def signalled() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def wrapped(cause=None) -> None:
    """What a library does: it raises an error of its own."""
    try:
        signalled()
    except Exception as error:
        if cause is None:
            raise ValueError("damaged")  # noqa: B904
        raise ValueError("damaged") from cause(error)


def found_after(work):
    try:
        work()
    except Exception as error:
        return of_handler(error)


@pytest.mark.parametrize(
    "handled",
    [handler, takes_all, calls_another, _Handler(), _Handler().resets, partial(takes_all, 1), lambda *_: _fails()],
    ids=["function", "any arguments", "calls", "object", "resets", "partial", "lambda"],
)
@pytest.mark.parametrize(
    "work", [signalled, wrapped, partial(wrapped, lambda error: error), partial(wrapped, lambda _: None)]
)
def test_exceptions_of_handlers_are_recognised(handles, handled, work):
    handles(handled)
    assert isinstance(found_after(work), TimeLimitError)


def test_other_errors_are_not_of_a_handler(handles):
    handles(handler)

    def failing(frame):
        raise ValueError(frame)

    assert found_after(lambda: failing(None)) is None
    cleaned_up = []
    try:
        signalled()
    except TimeLimitError:
        cleaned_up.append(found_after(lambda: failing(None)))
    assert cleaned_up == [None], "the caller has handled the time limit"
    looped = ValueError()
    looped.__cause__ = looped
    assert of_handler(looped) is None


READERS = [
    ("a.txt", "tea", files, "_document"),
    ("a.txt", "tea", files, "is_unchanged"),
    ("a.json", '[{"id": "1", "text": "tea"}]', json_files, "parse_json"),
    ("a.json", '[{"id": "1", "text": "tea"}]', json_files, "document_of"),
    ("a.jsonl", '{"text": "tea"}\n', json_lines, "parse_record"),
    ("a.csv", "id,text\n1,tea\n", tables, "as_document"),
    ("a.csv", "id,text\n1,tea\n", tables, "_rows"),
    ("a.mbox", f"From a@b.c Mon Jan  1 10:00:00 2024\n{LETTER}\n", mailboxes, "read_mail"),
    ("a.eml", LETTER, mail, "message_from_bytes"),
    ("a.eml", LETTER, parts, "text_of"),
    ("a.html", "<p>tea</p>", converting, "_markdown"),
    ("a.html", "<p>tea</p>", by_markitdown, "_converter"),
    ("a.md", "---\nlang: en\n---\ntea\n", front_matter, "_yaml_values"),
    ("a.md", "---\nday: 2024-02-30\n---\ntea\n", front_matter, "_place_of_bad_value"),
]


@pytest.mark.parametrize(("name", "text", "place", "function"), READERS)
def test_a_reader_does_not_take_an_interruption_for_a_damaged_file(interrupt, tmp_path, name, text, place, function):
    (tmp_path / name).write_text(text)
    assert len(list(read_source(tmp_path))) == 1
    interrupt(place, function)
    with pytest.raises(TimeLimitError):
        list(read_source(tmp_path))


def test_a_walk_does_not_take_an_interruption_for_an_unreadable_folder(interrupt, tmp_path):
    interrupt(walking.os, "scandir")
    with pytest.raises(TimeLimitError):
        list(read_source(tmp_path))


def test_cutting_does_not_hide_an_interruption(interrupt):
    interrupt(restructured_text, "_headings")
    with pytest.raises(TimeLimitError):
        restructured_text.restructured_text_sections("Tea\n===\n", [])


def test_an_interrupted_calibration_is_not_a_failed_one(interrupt, tmp_path, monkeypatch):
    for module in ("collection", "calibration.measuring"):
        monkeypatch.setattr(f"twinvec_qdrant.{module}.is_due", lambda *_: True)
    interrupt(measuring, "measured")
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as notes:
        with pytest.raises(TimeLimitError):
            notes.ingest([("1", "tea")])
        assert notes.find() == ["1"]


def test_an_interrupted_update_ends(interrupt, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("tea")
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as notes:
        notes.ingest(Root(tmp_path / "notes"))
        interrupt(Collection, "ingest")
        with pytest.raises(TimeLimitError):
            update_collection(notes)


def test_an_interrupted_request_is_not_repeated(handles, monkeypatch):
    handles(handler)
    with (
        StandIn().running() as server,
        Collection.open("notes", url=server.url, encoder=WordEncoder(), chunking=False) as notes,
    ):
        send, sent = httpx.Client.send, []

        def interrupted(*arguments, **options):
            sent.append(arguments)
            signalled()
            return send(*arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(httpx.Client, "send", interrupted)
            with pytest.raises(TimeLimitError):
                notes.count()
        assert len(sent) == 1
        assert notes.count() == 0


class _Session:
    def run(self, *_):
        signalled()


def test_an_interrupted_engine_has_not_failed(handles):
    handles(handler)
    runner = object.__new__(onnx.OnnxRunner)
    runner._session, runner._inputs, runner._output = _Session(), [], "vectors"
    batch = SimpleNamespace(inputs={})
    with pytest.raises(TimeLimitError):
        runner.infer(batch, "onnx")


def test_interrupted_training_data_is_not_unreadable(interrupt, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"anchor": "a", "positive": "b"}\n')
    interrupt(row_files, "_json_lines")
    with pytest.raises(TimeLimitError):
        row_files.open_table(tmp_path / "rows.jsonl", tmp_path / "cache")
