"""A training on a disk that fills up: an error that says so, and with more room the same run goes on."""

from __future__ import annotations

import errno
import json

import pytest

from small_disks import on_small_disk
from twinvec.errors import ConfigurationError, DocumentError
from twinvec.training.run.config import TrainConfig
from twinvec.training.run.run_folder import RunFolder


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [40, 900])
def test_a_training_says_that_the_disk_is_full_and_continues_with_more_room(tiny_model, tmp_path, kilobytes):
    rows = tmp_path / "rows.jsonl"
    text = "of a text that is longer than the room for a copy of all of them" * 8
    rows.write_text("\n".join(json.dumps({"anchor": f"q {i}", "positive": f"{i} {text}"}) for i in range(64)))
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
    for error in (RuntimeError("of the network"), DocumentError("rows.jsonl: is empty"), OSError(errno.EIO, "damaged")):
        with pytest.raises(type(error), match=str(error.args[-1])):
            fail(error)
