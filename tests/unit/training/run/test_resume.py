"""Runs that are interrupted or end before their last step, and schedules. (Real kills: tests/crash.)"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from safetensors.numpy import load_file

from cases import few_quick
from twinvec import Encoder
from twinvec.errors import ConfigurationError, ModelIntegrityError
from twinvec.support.progress import unseen
from twinvec.training.run import library_trainers as trainers
from twinvec.training.run import run_folder
from twinvec.training.run.config import check_config
from twinvec.training.run.train import train

PAIRS = [{"anchor": f"how does {n} work", "positive": f"all about {n}"} for n in range(16)]
STUB_WRITER = """
from pathlib import Path
class SummaryWriter:
    def __init__(self, log_dir):
        Path(log_dir).mkdir(parents=True)
        self.file = Path(log_dir) / "events"
    def add_text(self, *_): pass
    def add_scalar(self, name, *_): self.file.open("a").write(name)
    def flush(self): pass
    def close(self): pass
"""


@pytest.fixture
def run(tmp_path, tiny_model):
    """``run(folder, **settings)``: train into a folder; the rows lie in its parent folder."""

    def start(folder, schedule, **settings):
        (folder.parent / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
        values = {
            "model": str(tiny_model("bert")),
            "data": [{"path": "rows.jsonl"}],
            "objective": {"name": "info_nce"},
            "batches": {"size": 8},
            "schedule": {"learning_rate": 1e-3, "log_every": 1, **schedule},
            "device": "cpu",
            **settings,
        }
        return train(check_config(values, folder.parent, "run.yaml"), folder)

    return start


def weights(folder):
    return load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]


@pytest.fixture
def interrupt(monkeypatch):
    """``interrupt(module, function, call)``: the function is interrupted, once, instead of doing its work."""

    def prepare(module, name, call):
        real, left = getattr(module, name), [call]

        def interrupted(*arguments):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return real(*arguments)

        monkeypatch.setattr(module, name, interrupted)
        return left

    return prepare


NO_GAIN = {"steps": 50, "learning_rate": 1e-12}, {"evaluation": {"pairs": "rows.jsonl", "every": 1, "patience": 4}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "call"),
    [(trainers, "mark_complete", 3), (run_folder, "write_manifest", 1)],
    ids=["while it lost patience", "after it had lost it"],
)
def test_patience_is_not_had_anew(run, interrupt, tmp_path, module, name, call):
    schedule, settings = NO_GAIN
    whole = run(tmp_path / "whole", schedule, **settings)
    assert whole.steps == 5, "not the end of an epoch, which has two"
    interrupt(module, name, call)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", schedule, **settings)
    again = run(tmp_path / "cut", schedule, **settings)
    assert (again.steps, again.best_step, again.loss) == (whole.steps, whole.best_step, whole.loss)


@pytest.mark.slow
@pytest.mark.parametrize("log_every", [1, 10])
@pytest.mark.parametrize("settings", [{}, {"evaluation": {"pairs": "rows.jsonl", "every": 2}}, {"lora": {"rank": 2}}])
def test_a_run_that_was_at_its_end_takes_no_step_more(run, interrupt, tmp_path, settings, log_every):
    schedule = {"steps": 3, "decay": "constant_with_warmup", "log_every": log_every}  # within the second epoch
    whole = run(tmp_path / "whole", schedule, **settings)
    interrupt(run_folder, "write_manifest", 1)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", schedule, **settings)
    again = run(tmp_path / "cut", schedule, **settings)
    assert (again.steps, again.best_step, again.loss) == (3, whole.best_step, whole.loss)
    assert again.after == whole.after
    assert again.rows_drawn == whole.rows_drawn == 3 * 8
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert one == two


@pytest.mark.slow
@pytest.mark.parametrize("killed", [1, 3, 4, 5])
def test_rows_that_were_drawn_before_count(run, interrupt, monkeypatch, tmp_path, killed):
    few = [{**row, "positive": f"all about {n % 5}"} for n, row in enumerate(PAIRS)]
    monkeypatch.setattr(f"{__name__}.PAIRS", few)
    schedule = {"epochs": 3, "checkpoint_every": 1}
    whole = run(tmp_path / "whole", schedule)
    assert (whole.steps, whole.rows_drawn) == (6, 30), "five a step, as there are five positives"
    interrupt(trainers, "mark_complete", killed + 1)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", schedule)
    assert run(tmp_path / "cut", schedule).rows_drawn == 30


def test_checkpoints_come_between_measurements_too(run, interrupt, tmp_path):
    settings = {"evaluation": {"pairs": "rows.jsonl", "every": 3}}
    interrupt(trainers, "mark_complete", 3)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "model", {"steps": 6, "checkpoint_every": 2}, **settings)
    complete = {path.parent.name for path in (tmp_path / "model").glob("checkpoints/*/complete")}
    assert complete == {"checkpoint-2", "checkpoint-3"}


def test_a_checkpoint_is_due_after_five_minutes_however_few_steps_they_had(run, interrupt, tmp_path, monkeypatch):
    minutes = count(step=2)
    monkeypatch.setattr(trainers, "time", SimpleNamespace(monotonic=lambda: 60 * next(minutes)))
    run(tmp_path / "whole", {"steps": 4})
    interrupt(trainers, "mark_complete", 2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", {"steps": 4})
    assert [path.parent.name for path in (tmp_path / "cut").glob("checkpoints/*/complete")] == ["checkpoint-3"]
    run(tmp_path / "cut", {"steps": 4})
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert one == two


STATE = (
    "optimizer.pt",
    "rng_state.pth",
    "scheduler.pt",
    "tensors.safetensors",
    "trainer_state.json",
    "unlogged-0.json",
)
DAMAGES = {
    "missing": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "changed": lambda path: path.write_bytes(path.read_bytes().translate(bytes(range(255, -1, -1)))),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.fixture
def cut(run, interrupt, tmp_path):
    """A run that was killed after the checkpoints of its steps 2 and 4, and the weights of the whole run."""
    schedule, settings = {"steps": 6, "checkpoint_every": 2}, {"evaluation": {"pairs": "rows.jsonl", "every": 2}}
    run(tmp_path / "whole", schedule, **settings)
    interrupt(trainers, "mark_complete", 3)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", schedule, **settings)
    weights = (tmp_path / "whole" / "model.safetensors").read_bytes()
    return SimpleNamespace(
        checkpoints=tmp_path / "cut" / "checkpoints",
        go_on=lambda: run(tmp_path / "cut", schedule, **settings),
        is_whole=lambda: (tmp_path / "cut" / "model.safetensors").read_bytes() == weights,
    )


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", few_quick(STATE, quick=("optimizer.pt",)))
def test_a_damaged_checkpoint_is_not_used(cut, name, damage, caplog):
    DAMAGES[damage](cut.checkpoints / "checkpoint-4" / name)
    cut.go_on()
    assert cut.is_whole()
    assert f"checkpoint-4: is not used: {name} is missing or damaged" in caplog.text
    assert "continuing from" in caplog.text
    assert "checkpoint-2" in caplog.text.partition("continuing from")[2]


def test_a_checkpoint_without_its_best_one_is_not_used(cut, caplog):
    """The run may end with the weights of the best one."""
    state = cut.checkpoints / "checkpoint-4" / "trainer_state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "best_global_step": 2}))
    run_folder.mark_complete(state.parent)
    (cut.checkpoints / "checkpoint-2" / "tensors.safetensors").write_bytes(b"")
    cut.go_on()
    assert cut.is_whole()
    assert "continuing from" not in caplog.text


def test_a_run_without_a_whole_checkpoint_starts_over(cut, caplog):
    for step in (2, 4):
        (cut.checkpoints / f"checkpoint-{step}" / "complete").write_text("[")
    cut.go_on()
    assert cut.is_whole()
    assert caplog.text.count("complete is missing or damaged") == 2


def test_a_checkpoint_that_cannot_be_read_stays(cut):
    """A link to itself stands for a file that the user may not read, because the tests may run as root."""
    file = cut.checkpoints / "checkpoint-4" / "optimizer.pt"
    before = file.rename(file.with_name("before"))
    file.symlink_to(file)
    with pytest.raises(
        ConfigurationError, match=r"checkpoint-4/optimizer.pt: cannot be read or removed: Too many levels"
    ):
        cut.go_on()
    before.replace(file)
    cut.go_on()
    assert cut.is_whole()


def test_the_loss_is_the_mean_of_the_same_steps_in_a_resumed_run(run, interrupt, tmp_path):
    schedule = {"steps": 5, "checkpoint_every": 3, "log_every": 4}
    settings = {"evaluation": {"pairs": "rows.jsonl", "every": 2}}
    whole = run(tmp_path / "whole", schedule, **settings)
    interrupt(trainers, "mark_complete", 3)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", schedule, **settings)
    assert {path.parent.name for path in tmp_path.glob("cut/checkpoints/*/complete")} >= {"checkpoint-3"}
    assert run(tmp_path / "cut", schedule, **settings).loss == whole.loss
    one, two = (json.loads((tmp_path / name / "training.json").read_text())["history"] for name in ("whole", "cut"))
    assert one == two
    assert [each["step"] for each in one if "loss" in each] == [4]
    assert [each["step"] for each in one if each.get("pairs.mrr@10", 0) > 0] == [2, 4, 5]


@pytest.mark.parametrize(("budget", "most"), [({}, 1e-5), ({"token_budget": 16}, 2 * 1e-3)])
def test_a_run_that_was_out_of_memory_goes_on_with_less(run, interrupt, tmp_path, budget, most):
    """With another token budget, dropout draws other masks; a step of Adam moves a weight by about 1e-3."""
    schedule = {"steps": 4, "checkpoint_every": 2}
    run(tmp_path / "whole", schedule)
    interrupt(trainers, "mark_complete", 2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", schedule)
    less = {"batches": {"size": 8, "kept_tokens": 0} | budget}
    assert run(tmp_path / "cut", schedule, **less).steps == 4
    one, two = (weights(tmp_path / name) for name in ("whole", "cut"))
    assert abs(one - two).max() < most


@pytest.mark.parametrize("at_end", [False, True])
def test_the_time_is_that_of_all_processes(run, interrupt, tmp_path, at_end):
    schedule = {"steps": 4, "checkpoint_every": 2}
    interrupt(*((run_folder, "write_manifest", 1) if at_end else (trainers, "mark_complete", 2)))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "model", schedule)
    newest = max(path.parent for path in tmp_path.glob("model/checkpoints/*/complete"))
    assert newest.name == ("checkpoint-4" if at_end else "checkpoint-2")
    kept = newest / "unlogged-0.json"
    stored = json.loads(kept.read_text())
    assert stored["seconds"] > 0
    kept.write_text(json.dumps({**stored, "seconds": 5000}))
    run_folder.mark_complete(newest)
    assert 5000 <= run(tmp_path / "model", schedule).seconds < 6000
    assert 5000 <= json.loads((tmp_path / "model" / "training.json").read_text())["report"]["seconds"] < 6000


def test_a_checkpoint_of_an_earlier_version_has_no_time(run, interrupt, tmp_path):
    interrupt(trainers, "mark_complete", 2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "model", {"steps": 4, "checkpoint_every": 2})
    kept = tmp_path / "model" / "checkpoints" / "checkpoint-2" / "unlogged-0.json"
    kept.write_text(json.dumps({key: json.loads(kept.read_text())[key] for key in ("steps", "loss")}))
    (kept.parent / "complete").write_text("")
    report = run(tmp_path / "model", {"steps": 4, "checkpoint_every": 2})
    assert (report.steps, report.rows_drawn) == (4, None)


def test_a_run_killed_after_its_end_leaves_no_checkpoints(run, tmp_path):
    run(tmp_path / "model", {"steps": 2})
    left = tmp_path / "model" / "checkpoints"
    (left / "checkpoint-2").mkdir(parents=True)
    (left / "checkpoint-2" / "tensors.safetensors").write_bytes(b"weights")
    (tmp_path / "model" / "training.lock").touch()
    assert run(tmp_path / "model", {"steps": 2}).steps == 2
    assert not left.exists()
    assert not (tmp_path / "model" / "training.lock").exists()


def test_a_folder_whose_run_is_not_finished_is_no_damaged_model(run, interrupt, tmp_path):
    interrupt(trainers, "mark_complete", 1)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "model", {"steps": 2})
    with pytest.raises(ModelIntegrityError, match=r"the training run in this folder is not finished; .* -o "):
        Encoder(tmp_path / "model")


@pytest.mark.slow
def test_a_run_goes_on_wherever_it_is_moved(run, interrupt, tmp_path, monkeypatch):
    schedule = {"steps": 6, "checkpoint_every": 2}
    settings = {"evaluation": {"pairs": "rows.jsonl", "every": 2}}
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    run(tmp_path / "whole", schedule, **settings)
    left = interrupt(trainers, "mark_complete", 3)
    with pytest.raises(KeyboardInterrupt):
        run(before / "model", schedule, **settings)
    before.rename(after)
    monkeypatch.chdir(after.parent)
    run(after.relative_to(tmp_path) / "model", schedule, **settings)
    assert left == [-1], "only the last checkpoint was to be made"
    one, two = ((folder / "model.safetensors").read_bytes() for folder in (tmp_path / "whole", after / "model"))
    assert one == two


def test_another_model_in_the_same_place_is_another_run(run, interrupt, tiny_model, tmp_path):
    import shutil

    model = shutil.copytree(tiny_model("bert"), tmp_path / "base")
    interrupt(trainers, "mark_complete", 2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "model", {"steps": 6, "checkpoint_every": 2}, model=str(model))
    shutil.copy(tiny_model("bert", seed=1) / "model.safetensors", model)
    with pytest.raises(ConfigurationError, match=r"base.model\.safetensors \(model\) has changed since; restore"):
        run(tmp_path / "model", {"steps": 6, "checkpoint_every": 2}, model=str(model))


def test_a_run_that_diverges_ends_with_an_error(run, tmp_path, monkeypatch):
    bars = []

    @contextmanager
    def progress_bar(*_, **__):
        bars.append("open")
        try:
            yield unseen
        finally:
            bars.append("closed")

    monkeypatch.setattr(trainers, "progress_bar", progress_bar)
    with pytest.raises(ConfigurationError, match=r"diverged: by step \d .* lower schedule.learning_rate") as caught:
        run(tmp_path / "model", {"steps": 8, "learning_rate": 1e20, "warmup": 0})
    assert not (tmp_path / "model" / "model.safetensors").exists()
    assert bars == ["open", "closed"], f"it would go on under {caught.value!r}"


def test_scores_that_say_nothing_are_refused(run, tmp_path):
    rows = [{"sentence1": row["anchor"], "sentence2": row["positive"], "score": 0.5} for row in PAIRS]
    (tmp_path / "same.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigurationError, match=r"sts\.spearman is not a number"):
        run(tmp_path / "model", {"steps": 2}, evaluation={"sts": "same.jsonl"})


def test_tensorboard_logs_outlive_the_run(run, tmp_path, monkeypatch):
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "tensorboardX.py").write_text(STUB_WRITER)
    monkeypatch.syspath_prepend(tmp_path / "stub")
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    run(tmp_path / "model", {"steps": 2, "report_to": ["tensorboard"]})
    assert "loss" in (tmp_path / "model" / "runs" / "events").read_text()
    assert "TENSORBOARD_LOGGING_DIR" not in os.environ


@pytest.mark.parametrize("first", [0, 1])
def test_datasets_with_and_without_hard_negatives_share_a_batch(run, tmp_path, first):
    hard = [{**row, "negatives": [f"nothing about {n}"]} for n, row in enumerate(PAIRS[:8])]
    bare = [{"anchor": f"what is {n}", "positive": f"it is {n}"} for n in range(8)]
    for name, rows in (("hard", hard), ("bare", bare)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = ["hard", "bare"] if first == 0 else ["bare", "hard"]
    settings = {"data": [{"path": f"{name}.jsonl"} for name in names], "batches": {"size": 8, "datasets": 2}}
    run(tmp_path / "with", {"steps": 2}, **settings)
    (tmp_path / "hard.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS[:8]))
    run(tmp_path / "without", {"steps": 2}, **settings)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("with", "without"))
    assert one != two


def test_a_run_uses_no_more_threads_than_the_process_has_cores(run, tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec.engines.torch.available_cores", lambda: 2)
    torch.set_num_threads(3)
    run(tmp_path / "model", {"steps": 1})
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("steps", "warmup", "told"),
    [
        (1, 0.1, "the whole run (steps: 1), so the model stays as it is"),
        (4, 4, "the whole run (steps: 4), so the learning rate stays below schedule.learning_rate"),
        (4, 3, ""),
        (1, 0, ""),
    ],
)
def test_a_warmup_as_long_as_the_run_is_told(run, tiny_model, tmp_path, caplog, steps, warmup, told):
    run(tmp_path / "model", {"steps": steps, "warmup": warmup})
    assert caplog.text.count("schedule.warmup") == bool(told)
    assert told in caplog.text
    unchanged = (weights(tmp_path / "model") == weights(tiny_model("bert"))).all()
    assert unchanged == ("stays as it is" in told), "without a warm-up, a single step trains"


def test_the_schedule_is_followed(run, tmp_path, monkeypatch):
    histories = []
    monkeypatch.setattr("twinvec.training.run.train.write_card", lambda *arguments: histories.append(arguments[-1]))
    for folder, schedule in {
        "linear": {"warmup": 0.5},
        "cosine": {"warmup": 0, "decay": "cosine"},
        "clipped": {"warmup": 0.5, "gradient_clip": 1e-12},
        "half": {"warmup": 0.5, "precision": "bfloat16"},
    }.items():
        run(tmp_path / folder, {"steps": 4, **schedule})
    rates = [[entry["learning_rate"] for entry in history if "learning_rate" in entry] for history in histories]
    assert rates[0] == rates[2] == rates[3] == pytest.approx([0, 0.5e-3, 1e-3, 0.5e-3])
    assert rates[1] == pytest.approx([1e-3, 0.853553e-3, 0.5e-3, 0.146447e-3], rel=1e-4)
    losses = [[entry["loss"] for entry in history if "loss" in entry] for history in histories]
    assert losses[3] == pytest.approx(losses[0], rel=0.05)
    assert losses[3] != losses[0]
    before, *after = (weights(tmp_path / folder) for folder in ("linear", "cosine", "clipped", "half"))
    assert all((one != before).any() for one in after)
