"""Progress bars: what they show, by a clock that only the tests move."""

from __future__ import annotations

import io
import re
from contextlib import contextmanager, redirect_stderr

import pytest
from rich.progress import Progress

from twinvec.support import progress, progress_display
from twinvec.support.progress import progress_bar, unseen


class Terminal(io.StringIO):
    """What a bar shows on a terminal of 80 columns, at a time that only the tests move."""

    def __init__(self):
        super().__init__()
        self.time = 0.0
        self.display: Progress | None = None

    def isatty(self):
        return True

    def shown(self):
        """The bar as it is now, with one dash for the bar itself."""
        if not self.display.finished or self.display.live.is_started:
            self.truncate(self.seek(0))
            self.display.refresh()
        line = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue()).strip("\r\n").rpartition("\r")[2]
        assert "\n" not in line
        assert len(line) <= 80
        return re.sub(r"[━╸╺]+", "━", line).strip()


@pytest.fixture
def terminal(monkeypatch):
    """A terminal; ``with bar(terminal, ...)`` opens a bar on it."""
    made, make = Terminal(), progress_display.display

    def display(window):
        made.display = make(window)
        made.display.get_time = lambda: made.time
        made.display.live.auto_refresh = False
        return made.display

    monkeypatch.setattr(progress_display, "display", display)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return made


@contextmanager
def bar(terminal, *arguments, **options):
    with redirect_stderr(terminal), progress_bar(*arguments, **options) as advance:
        yield advance


def test_the_bar_follows_the_items(terminal):
    with bar(terminal, "Encoding", 2000, "texts") as advance:
        assert terminal.shown() == "Encoding ━ 0/2,000 texts, 0:00"
        for _ in range(11):
            advance(100)
            terminal.time += 1
        assert terminal.shown() == "Encoding ━ 1,100/2,000 texts, 100/s, 0:09 left"
        advance(900, failed=2)
    assert terminal.shown() == "Encoding ━ 2,000/2,000 texts, 182/s, in 0:11, 2 failed"


def test_work_moves_the_bar_within_an_item(terminal):
    with bar(terminal, "Ingesting", 2, "documents", work=1000) as advance:
        for _ in range(6):
            terminal.time += 10
            advance(0, work=100)
        assert terminal.shown() == "Ingesting ━ 0/2 documents, 0:40 left", "400 more at 10 a second"
        advance(1, work=300)
        terminal.time += 20
        advance(0, work=50)
        assert terminal.shown().startswith("Ingesting ━ 1/2 documents, 0.0")


def test_a_unit_of_work_gives_the_rate(terminal):
    with bar(terminal, "Training", 200, "steps", work=200 * 64, work_unit="pairs", done=100) as advance:
        assert terminal.shown() == "Training ━ 100/200 steps, 0:00"
        for _ in range(11):
            terminal.time += 1
            advance(1, work=64)
        assert terminal.shown() == "Training ━ 111/200 steps, 64 pairs/s, 1:29 left", "only this run counts"


def test_the_rate_is_that_of_the_window(terminal):
    with bar(terminal, "Encoding", 1000, "texts", window=30) as advance:
        for seconds in (1, 10):
            for _ in range(10):
                terminal.time += seconds
                advance(10)
        assert terminal.shown() == "Encoding ━ 200/1,000 texts, 1/s, 13:20 left", "the quick start is forgotten"


def test_an_unknown_total(terminal):
    with bar(terminal, "Ingesting", None, "documents") as advance:
        terminal.time += 61
        advance(3)
        assert terminal.shown() == "Ingesting ━ 3 documents, 0.049/s, 1:01"
    assert terminal.shown() == "Ingesting ━ 3 documents, 0.049/s, in 1:01"
    with bar(terminal, "Measuring", None, ""):
        terminal.time += 3600
        assert terminal.shown() == "Measuring ━ 1:00:00"


def test_slow_items_have_a_rate_too(terminal):
    with bar(terminal, "Training", 10, "steps", work=1280, work_unit="pairs", window=30) as advance:
        for _ in range(5):
            terminal.time += 60
            advance(1, work=128)
        assert terminal.shown() == "Training ━ 5/10 steps, 2.1 pairs/s, 5:00 left"


def test_a_long_label_leaves_room(terminal):
    with bar(terminal, "Training " + 10 * "long", 100_000, "steps", work=6.4e6, work_unit="pairs") as advance:
        advance(49_999, failed=81)
        terminal.time += 10_000
        advance(1, work=3.15e6)
        label, figures = terminal.shown().split("… ━ ")
        assert re.fullmatch(r"Training longlon?", label)  # versions of Rich count the ellipsis differently
        assert figures == "50,000/100,000 steps, 320 pairs/s, 2:46:40 left, 81 failed"


def test_without_a_terminal_there_is_a_line_a_minute(capsys, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    with progress_bar("Ingesting", 1200, "documents", done=100) as advance:
        for seconds[0] in range(10, 190, 10):
            advance(50, failed=seconds[0] > 100, work=3)
    with progress_bar("Reading", None, "files") as advance:
        seconds[0] += 59
        advance(1)
        seconds[0] += 1
        advance(2)
    assert capsys.readouterr() == (
        "",
        "Ingesting: 400 of 1,200 documents\nIngesting: 700 of 1,200 documents, 2 failed\n"
        "Ingesting: 1,000 of 1,200 documents, 8 failed\nReading: 3 files\n",
    )


def test_the_lines_show_the_work_within_an_item(capsys, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    with progress_bar("Ingesting", 4, "documents", work=1000, done=1) as advance:
        for seconds[0], count, work in ((60, 1, 50), (120, 0, 444), (180, 0, 0), (240, 2, 500)):
            advance(count, work=work)
    assert capsys.readouterr().err.splitlines() == [
        "Ingesting: 2 of 4 documents, 30% of the work",
        "Ingesting: 2 of 4 documents, 74% of the work",
        "Ingesting: 2 of 4 documents, 74% of the work",
        "Ingesting: 4 of 4 documents, 100% of the work",
    ]


def test_a_note_stays_until_the_next_one(terminal, capsys, monkeypatch):
    with bar(terminal, "Training", 20, "steps") as advance:
        advance(0, note="loss 0.5")
        advance(1)
        terminal.time += 1
        assert terminal.shown() == "Training ━ 1/20 steps, 1/s, 0:19 left, loss 0.5"
        advance(0, note="loss 0.25")
        assert terminal.shown() == "Training ━ 1/20 steps, 1/s, 0:19 left, loss 0.25"
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    with progress_bar("Training", 20, "steps") as advance:
        for step, note in enumerate(("loss 0.5", None, "loss 0.25"), 1):
            advance(0, note=note)
            seconds[0] = 60.0 * step
            advance(1)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"Training: {step} of 20 steps, loss {loss}" for step, loss in ((1, 0.5), (2, 0.5), (3, 0.25))]


def test_nothing_is_shown_unless_it_is_asked_for(terminal, capsys):
    with bar(terminal, "Encoding", 10, "texts", shown=False) as advance:
        assert advance is unseen
    assert terminal.getvalue() == ""


def test_what_is_printed_to_a_file_stays_there(terminal, capsys):
    with bar(terminal, "Encoding", 10, "texts") as advance:
        advance(1)
        print("a line of a result")
    assert capsys.readouterr().out == "a line of a result\n"
