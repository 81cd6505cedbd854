"""A training without room on its disk or in its files: an error that says so; with more, the same run goes on."""

from __future__ import annotations

import errno
import json

import pytest

from small_disks import largest_file, on_small_disk
from twinvec.errors import ConfigurationError, DocumentError
from twinvec.training.run.config import TrainConfig
from twinvec.training.run.run_folder import RunFolder
from twinvec.training.run.train import train


@pytest.fixture
def rows(tmp_path):
    """A file of 64 pairs."""
    path = tmp_path / "rows.jsonl"
    text = "of a text that is longer than the room for a copy of all of them" * 8
    path.write_text("\n".join(json.dumps({"anchor": f"q {i}", "positive": f"{i} {text}"}) for i in range(64)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [40, 900])
def test_a_training_says_that_the_disk_is_full_and_continues_with_more_room(tiny_model, tmp_path, rows, kilobytes):
    (tmp_path / "disk").mkdir()
    program = """
        import subprocess
        from twinvec.errors import ConfigurationError
        from twinvec.training.run.config import TrainConfig
        from twinvec.training.run.train import train
        settings = {
            "model": model,
            "objective": {"name": "info_nce"},
            "data": [{"path": rows}],
            "batches": {"size": 8},
            "schedule": {"steps": 6, "checkpoint_every": 2},
        }
        config = TrainConfig.model_validate(settings)
        folder = Path(place, "trained")
        try:
            train(config, folder)
        except ConfigurationError as error:
            assert "the disk is full" in str(error), error
        else:
            raise AssertionError("no error")
        assert list(folder.glob("checkpoints/data/tmp*")) == []
        subprocess.run(["mount", "-o", "remount,size=60m", place], check=True)
        assert train(config, folder).steps == 6
    """
    options = f"size={kilobytes}k"
    on_small_disk(program, tmp_path / "disk", options, model=tiny_model("bert"), rows=rows)


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [4, 40, 200], ids=["rows", "weights", "optimizer"])
def test_a_training_says_that_a_file_is_too_large_and_continues_with_a_higher_limit(
    tiny_model, tmp_path, rows, kilobytes
):
    settings = {
        "model": str(tiny_model("bert")),
        "objective": {"name": "info_nce"},
        "data": [{"path": str(rows)}],
        "batches": {"size": 8},
        "schedule": {"steps": 6, "checkpoint_every": 2},
    }
    config = TrainConfig.model_validate(settings)
    refused = pytest.raises(ConfigurationError, match=r"trained: a file exceeds the size .* from its last complete")
    with refused, largest_file(kilobytes * 1024):
        train(config, tmp_path / "trained")
    assert train(config, tmp_path / "trained").steps == 6


def test_only_a_full_disk_is_called_one(tmp_path):
    settings = {"objective": {"name": "info_nce"}, "data": [{"path": "rows.jsonl"}]}
    run = RunFolder(tmp_path / "run", TrainConfig.model_validate(settings), {})
    run.path.mkdir()

    def fail(error: Exception, cause: Exception | None = None) -> None:
        with run.with_room():
            raise error from cause

    full = OSError(errno.ENOSPC, "No space left on device")
    for error, cause in ((full, None), (DocumentError("rows.jsonl: cannot be read"), full)):
        with pytest.raises(ConfigurationError, match=r"run: the disk is full; make room"):
            fail(error, cause)
    too_large = OSError(errno.EFBIG, "File too large")
    by_torch = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 201664 vs 201556")
    for error, cause in ((too_large, None), (DocumentError("rows.jsonl: cannot be read"), too_large), (by_torch, None)):
        with pytest.raises(ConfigurationError, match=r"run: a file exceeds the size that .*; raise the limit, and"):
            fail(error, cause)
    for error in (RuntimeError("of the network"), DocumentError("rows.jsonl: is empty"), OSError(errno.EIO, "damaged")):
        with pytest.raises(type(error), match=str(error.args[-1])):
            fail(error)
