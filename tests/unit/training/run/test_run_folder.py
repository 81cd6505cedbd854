"""The folder of a run: what counts as a checkpoint, whose folder it is, how a model gets into it."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from small_disks import without_rights
from twinvec.errors import ConfigurationError
from twinvec.training.run.config import TrainConfig, check_config
from twinvec.training.run.run_folder import RunFolder, file_digests, mark_complete, run_fingerprint
from watched_disk import disk_steps


def run_folder(path, seed=0):
    settings = {"objective": {"name": "info_nce"}, "data": [{"path": "rows.jsonl"}], "schedule": {"seed": seed}}
    return RunFolder(path, TrainConfig.model_validate(settings), {})


def checkpoint(run, step, *, complete):
    folder = run.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "tensors.safetensors").write_bytes(b"weights")
    if complete:
        mark_complete(folder)
    return folder


def test_the_newest_complete_checkpoint_counts_and_half_written_ones_go(tmp_path):
    run = run_folder(tmp_path / "run")
    checkpoint(run, 9, complete=True)
    newest = checkpoint(run, 10, complete=True)
    torn = checkpoint(run, 11, complete=False)
    assert run.last_checkpoint() == newest
    run.drop_unusable(newest)
    assert run.last_checkpoint() == newest
    assert not torn.exists()


def test_other_columns_to_measure_on_make_another_run(tmp_path, tiny_model):
    (tmp_path / "rows.jsonl").write_text('{"anchor": "a", "positive": "b"}\n')
    values = {"model": str(tiny_model("bert")), "objective": {"name": "info_nce"}, "data": [{"path": "rows.jsonl"}]}
    digests = {
        run_fingerprint(
            check_config(values | {"evaluation": {"pairs": "rows.jsonl"} | columns}, tmp_path, "run.yaml"), {}
        )
        for columns in ({}, {"columns": {}}, {"columns": {"anchor": "positive"}}, {"columns": {"positive": "anchor"}})
    }
    assert len(digests) == 3


def test_a_new_run_has_no_checkpoint(tmp_path):
    assert run_folder(tmp_path / "run").last_checkpoint() is None


def test_what_is_remembered_is_there_for_the_next_process(tmp_path):
    run_folder(tmp_path / "run").remember("before", {"pairs.mrr@10": 1.5})
    assert run_folder(tmp_path / "run").recall("before") == {"pairs.mrr@10": 1.5}
    assert run_folder(tmp_path / "run").recall("after") is None


def test_a_record_that_cannot_be_read_is_no_reason_to_delete_it(tmp_path):
    run_folder(tmp_path / "run").remember("before", {})
    record = tmp_path / "run" / "training.json"
    record.chmod(0)
    program = """
    from unit.training.run.test_run_folder import run_folder
    from twinvec.errors import ConfigurationError
    try:
        run_folder(Path(path))
    except ConfigurationError as error:
        print(error)
    """
    found = without_rights(program, path=tmp_path / "run").stdout.strip()
    assert found == f"{record}: cannot be read: Permission denied"
    record.chmod(0o600)
    record.write_text("[")
    with pytest.raises(ConfigurationError, match=r"training.json: is not the record of a run; choose another folder"):
        run_folder(tmp_path / "run")


def test_a_run_with_other_settings_is_refused(tmp_path):
    run_folder(tmp_path / "run").remember("before", {})
    with pytest.raises(ConfigurationError, match="another configuration or other data"):
        run_folder(tmp_path / "run", seed=1)


def test_a_run_may_go_on_with_less_memory(tmp_path):
    """The record has the digest of the settings that the run goes on with, and these may change again."""

    def begun(**batches):
        settings = {"objective": {"name": "info_nce"}, "data": [{"path": "rows.jsonl"}], "batches": batches}
        config = TrainConfig.model_validate(settings)
        run = RunFolder(tmp_path / "run", config, {})
        run.remember("config", config.model_dump(mode="json"))
        assert run.recall("digest") == run_fingerprint(config, {})
        return run.recall("digest")

    first = begun(kept_tokens=64)
    assert len({first, begun(token_budget=32), begun(kept_tokens=0, token_budget=32)}) == 3
    assert begun(kept_tokens=64) == first
    with pytest.raises(ConfigurationError, match=r"batches.size was 64 and is 8"):
        begun(size=8)
    record = tmp_path / "run" / "training.json"
    record.write_text(record.read_text().replace('"kept_tokens": 64', '"kept_tokens": "all"'))
    with pytest.raises(ConfigurationError, match="holds a run with another configuration"):
        begun()


@pytest.fixture(params=["files", "an earlier version"])
def refusal(request, tmp_path):
    """``refusal(**settings)``: how a folder refuses a run with these settings in place of those that it began with."""
    for name in ("rows.jsonl", "more.jsonl", "dev.jsonl"):
        (tmp_path / name).write_text(json.dumps({"anchor": "a", "positive": name}) + "\n")
    base = {"objective": {"name": "info_nce"}, "data": [{"path": "rows.jsonl"}], "evaluation": {"pairs": "dev.jsonl"}}
    config = check_config(base, tmp_path, "run.yaml")
    files = file_digests(config)
    begun = RunFolder(tmp_path / "run", config, files)
    begun.remember("config", config.model_dump(mode="json"))
    if request.param == "files":
        begun.remember("files", files)

    def refuse(**settings):
        other = check_config({**base, **settings}, tmp_path, "run.yaml")
        with pytest.raises(ConfigurationError) as caught:
            RunFolder(tmp_path / "run", other, file_digests(other))
        return str(caught.value).removeprefix(f"{tmp_path / 'run'}: holds a run ")

    return refuse


ANOTHER = "with another configuration: "
AGAIN = "; restore this value to continue this run, choose another folder, or delete it"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"schedule": {"steps": 40}}, f"{ANOTHER}schedule.steps was null and is 40{AGAIN}"),
        ({"objective": {"name": "triplet"}}, f'{ANOTHER}objective.name was "info_nce" and is "triplet"{AGAIN}'),
        ({"objective": {"name": "info_nce", "scale": 5}}, f"{ANOTHER}objective.scale was 20.0 and is 5.0{AGAIN}"),
        ({"data": [{"path": "rows.jsonl", "limit": 3}]}, f"{ANOTHER}data.0.limit was null and is 3{AGAIN}"),
        (
            {"data": [{"path": f"{n}.jsonl"} for n in ("rows", "more")]},
            f"{ANOTHER}data had 1 and has 2 datasets{AGAIN}",
        ),
        ({"model": "org/name"}, f"{ANOTHER}model was default and is org/name{AGAIN}"),
    ],
)
def test_a_refusal_names_what_has_changed(refusal, settings, told):
    assert refusal(**settings) == told


def test_a_refusal_names_several_changes_and_counts_the_rest(refusal):
    schedule = {"steps": 40, "seed": 1, "warmup": 0, "log_every": 1, "decay": "cosine"}
    told = refusal(schedule=schedule, batches={"size": 8}, max_tokens=9)
    assert "max_tokens was null and is 9, batches.size was 64 and is 8, schedule.steps was null" in told
    assert told.endswith(", and 2 more; restore these values to continue this run, choose another folder, or delete it")


@pytest.mark.parametrize("refusal", ["files"], indirect=True)
def test_a_refusal_names_the_files_that_have_changed(refusal, tmp_path):
    rows, dev = (
        f"{tmp_path / name}.jsonl ({field})" for name, field in (("rows", "data.0.path"), ("dev", "evaluation.pairs"))
    )
    (tmp_path / "rows.jsonl").write_text('{"anchor": "a", "positive": "another"}\n')
    again = " to continue this run, choose another folder, or delete it"
    assert refusal() == f"of this configuration, but {rows} has changed since; restore the file{again}"
    (tmp_path / "dev.jsonl").write_text('{"anchor": "a", "positive": "another"}\n')
    assert refusal() == f"of this configuration, but {rows}, {dev} have changed since; restore the files{again}"


@pytest.mark.parametrize("refusal", ["an earlier version"], indirect=True)
def test_a_refusal_names_data_that_has_changed(refusal, tmp_path):
    assert "data.0.path was " in refusal(data=[{"path": "dev.jsonl"}])
    (tmp_path / "rows.jsonl").write_text('{"anchor": "a", "positive": "another"}\n')
    assert refusal() == (
        "of this configuration, but a file of its data, of its evaluation or of its model has changed since; restore "
        "the file to continue this run, choose another folder, or delete it"
    )
    (tmp_path / "run" / "twinvec.json").write_text("{}")
    assert refusal().endswith("has changed since; choose another folder, or delete it"), "the run has finished"


@pytest.mark.parametrize("kind", ["a file", "a folder with other things", "a damaged record"])
def test_what_holds_something_else_is_refused(tmp_path, kind):
    path = tmp_path / "run"
    if kind == "a file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / ("notes.txt" if kind == "a folder with other things" else "training.json")).write_text("mine")
    with pytest.raises(ConfigurationError, match="choose another folder"):
        run_folder(path)


def test_the_model_is_on_the_disk_before_the_manifest(tmp_path, monkeypatch):
    def write(folder):
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text("{}")
        save_file({"weight": np.zeros(3)}, folder / "model.safetensors")

    run, steps = run_folder(tmp_path / "run"), disk_steps(monkeypatch, "replace")
    run.finish(write, {})
    named = steps.index("twinvec.json.partial -> twinvec.json")
    written = run.path / "model.partial"
    for path in (written / "model.safetensors", written / "1_Pooling" / "config.json", written / "1_Pooling"):
        assert str(path) in steps[: steps.index("model.safetensors -> model.safetensors")]
    assert str(run.path) in steps[named:]


def test_a_lock_file_that_a_kill_has_left_is_removed(tmp_path):
    run = run_folder(tmp_path / "run")
    run.finish(lambda folder: save_file({"weight": np.zeros(3)}, folder / "model.safetensors"), {})
    (run.path / "training.lock").touch()
    run.tidy()
    assert sorted(path.name for path in run.path.iterdir()) == ["model.safetensors", "twinvec.json"]


def test_a_finished_model_takes_the_place_of_a_half_finished_one(tmp_path):
    run = run_folder(tmp_path / "run")
    checkpoint(run, 1, complete=True)
    (run.path / "1_Pooling").mkdir()
    (run.path / "1_Pooling" / "config.json").write_text('{"is": "old"}')
    (run.path / "model.partial").mkdir()
    (run.path / "model.partial" / "rubbish").write_text("of a run before")

    def write(folder):
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text('{"is": "new"}')
        save_file({"weight": np.zeros(3)}, folder / "model.safetensors")

    assert not run.finished
    run.remember("report", {})
    run.finish(write, {"trained_with": "a test"})
    assert run.finished
    assert (run.path / "1_Pooling" / "config.json").read_text() == '{"is": "new"}'
    files = sorted(path.name for path in run.path.iterdir())
    assert files == ["1_Pooling", "model.safetensors", "training.json", "twinvec.json"]
    assert json.loads((run.path / "twinvec.json").read_text())["trained_with"] == "a test"


def test_a_run_killed_in_its_first_moments_begins_again(tmp_path):
    for name in ("training.lock", "training.json.partial"):
        (tmp_path / name).write_text("")
    (tmp_path / "checkpoints").mkdir()
    run = run_folder(tmp_path)
    run.remember("before", {})
    assert run_folder(tmp_path).recall("before") == {}


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigurationError, match=r"file/run: the folder cannot be made: Not a directory"),
        run_folder(tmp_path / "file" / "run").locked(),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write to any folder
    with pytest.raises(ConfigurationError, match=r"run: cannot be written"), run_folder(tmp_path / "run").locked():
        pass


def test_two_runs_do_not_share_a_folder(tmp_path):
    first, second = run_folder(tmp_path / "run"), run_folder(tmp_path / "run")
    with (
        first.locked(),
        pytest.raises(ConfigurationError, match="another process is training into it"),
        second.locked(),
    ):
        pass
    with second.locked():
        pass
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.skipif(os.name == "nt", reason="the system has other permissions")
def test_whoever_may_read_the_folder_may_read_the_model(tmp_path):
    def write(folder):
        (folder / "1_Dense").mkdir()
        for path in (folder / "model.safetensors", folder / "1_Dense" / "model.safetensors"):
            save_file({"a": np.zeros(2)}, path)
        (folder / "config.json").touch(0o600)

    before = os.umask(0o027)
    try:
        run_folder(tmp_path / "run").finish(write, {})
    finally:
        os.umask(before)
    found = {path.stat().st_mode & 0o777 for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert found == {0o640}
