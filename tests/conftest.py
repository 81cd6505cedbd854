"""Fixtures shared by all tests. Models are loaded once a session."""

from __future__ import annotations

import gc
import logging
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.logging import caplog_handler_key
from hypothesis import HealthCheck, settings

import models

_IN_MEMORY = Path("/dev/shm")
if _IN_MEMORY.is_dir() and os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free > 4 * 2**30:
    # stores sync every commit, and models every file, to a disk that most tests would only wait for
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may depend on the hub
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # tiny models on a busy machine: threads that wait must not spin
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt the commands that they start
# a slow example is no failure where other work runs beside
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


_LONGEST = (
    "unit/ray/test_blocks.py",
    "crash/cluster/test_ray_seeded_kills.py",
    "crash/cluster/test_ray_training.py",
    "crash/cluster/test_ray_ingest.py",
    "test_pages.py",
    "crash/test_index_kills.py",
    "unit/serve/test_cli.py",
    "unit/qdrant/stores/embedded/test_damage.py",
    "crash/test_adoption_kills.py",
    "crash/test_reindex_kills.py",
    "congruence/test_payload_indexes.py",
    "congruence/test_engines.py",
    "crash/cluster/test_torchrun.py",
    "unit/qdrant/cli/test_served_store.py",
    "test_examples_integrations.py",
    "crash/test_collection_walk.py",
    "crash/cluster/test_ray_reading.py",
)
"""Files that take long, for processes that share the tests: those that mostly wait come first, beside the others."""

_RAY = "tests/unit/ray/"
_OTHER_CLUSTERS = (f"{_RAY}test_commands.py", f"{_RAY}test_nearest_memory.py")


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest, so that none of them is still running when all others are done."""
    order = {f"tests/{name}": row for row, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their argument: compressed ones hold the time, and all processes must find the same tests."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With ``--dist loadfile``, let one process run all files that share a cluster of Ray, and any run a page."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file.startswith(_RAY) and file not in _OTHER_CLUSTERS:
                return _RAY
            return nodeid if file == "tests/test_pages.py" else file

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Import the tests without garbage collections; later ones need not look at what the tests have imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def quick_local_mode():
    """Where any test uses Qdrant's client, its local mode is that of ``local_mode``."""
    if "qdrant_client" in sys.modules:
        import local_mode  # noqa: F401


@pytest.fixture(autouse=True)
def log_levels(request):
    """A test must leave the levels that decide which records later tests see; it fails if the code has changed them."""
    root, handler = logging.getLogger(), request.node.stash[caplog_handler_key]
    before = root.level, root.manager.disable, handler.level
    yield
    after = root.level, root.manager.disable, handler.level
    root.setLevel(before[0])
    logging.disable(before[1])
    handler.setLevel(before[2])
    assert after == before, "the level of the root logger, what is disabled, or the level of caplog's handler changed"


@pytest.fixture(scope="session")
def encoder():
    """The default model."""
    from twinvec import Encoder

    return Encoder("default")


@pytest.fixture(scope="session")
def maxsim(encoder):
    """Late interaction over the default model's token states."""
    from twinvec import MaxSimReranker

    return MaxSimReranker(encoder)


@pytest.fixture(scope="session")
def reference():
    """The default model in sentence-transformers, on the CPU."""
    from sentence_transformers import SentenceTransformer

    from twinvec.models.finding import find_model

    return SentenceTransformer(str(find_model("default").path), device="cpu")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Callable[..., Path]:
    """``tiny_model(kind, **options)``: a folder with a tiny random model, see ``models.build``; not to be changed."""
    return _cached(models.build, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory) -> Callable[..., Path]:
    """The same for ``models.build_cross_encoder``."""
    return _cached(models.build_cross_encoder, tmp_path_factory.mktemp("cross_encoders"))


@pytest.fixture(scope="session")
def prompted(tiny_model) -> str:
    """A model with prompts whose vectors are not normalised."""
    prompts = {"query": "find: ", "document": "passage: ", "cluster": "group: "}
    return str(tiny_model("bert", normalize=False, prompts=prompts))


@pytest.fixture
def tiny_copy(tiny_model, tmp_path) -> Path:
    """A tiny BERT model with a Dense layer that a test may damage."""
    return shutil.copytree(tiny_model("bert", dense=((16, "Tanh"),)), tmp_path / "model")


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def twinvec(capsys) -> Callable[..., Done]:
    """``twinvec("info", "--collection", "docs")``: the command line, in this process."""
    from twinvec.cli.app import main

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        try:
            main([str(each) for each in arguments])
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def on_terminal():
    """``on_terminal(80, "info", ...)``: what a command shows on a terminal of 80 columns."""

    def run(columns, *arguments, code=0):
        """What a command shows on a terminal of ``columns`` columns; ``code`` is the exit code expected of it."""
        program = "from twinvec.cli.app import main; main()"
        parent, child = pty.openpty()
        environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
        command = [sys.executable, "-c", program, *map(str, arguments)]
        with subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=environment) as process:
            os.close(child)
            shown = b""
            try:
                while part := os.read(parent, 65536):
                    shown += part
            except OSError:  # the other end is closed
                pass
            assert process.wait(timeout=300) == code, shown.decode()
        os.close(parent)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\", "", shown.decode())  # without colours, links

    return run


def _cached(build: Callable[..., Path], root: Path) -> Callable[..., Path]:
    folders: dict[str, Path] = {}

    def find(kind: str, **options: Any) -> Path:
        key = repr((kind, sorted(options.items())))
        if key not in folders:
            folders[key] = build(root / str(len(folders)), kind, **options)
        return folders[key]

    return find


@pytest.fixture(scope="session")
def data() -> Path:
    """The measuring sets: TWINVEC_DATA, or ../shared/data beside the project; the test is skipped without them."""
    root = Path(os.environ.get("TWINVEC_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip("measuring sets not found: set TWINVEC_DATA to a folder with ir/, sts/, ...")
    return root


@pytest.fixture
def clock(monkeypatch):
    """The clock of ``strict`` and of requests to servers, which only pauses move."""
    from stand_in import Clock

    return Clock.for_requests(monkeypatch)


@pytest.fixture
def strict(clock):
    """A stand-in for a server whose new collections have all limits of strict mode."""
    from stand_in import STRICT, StandIn

    with StandIn(clock).running() as running:
        running.be_strict(STRICT)
        yield running
