"""Two processes over gloo: the gradient of one process with the whole batch, and whole runs."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
from itertools import product

import pytest
import torch

LOSSES = [
    "info_nce",
    "symmetric with hard negatives and masks",
    "hard negatives of one process",
    "softmax",
    "triplet",
    "cosine_regression",
    "margin_mse",
    "contrastive",
    "online_contrastive",
]
KEPT_TOKENS = [0, 10**6]
ROWS = 5  # two in one process, three in the other
TEXTS = [f"{side} number {n} about {'a long list of many things' * (n % 3)}" for side in "uvw" for n in range(ROWS)]
TEXTS[ROWS + 4] = TEXTS[ROWS]  # a positive twice, once in each process


@pytest.fixture(scope="module")
def folder(tiny_model, tmp_path_factory):
    """A model without dropout, which no two processes would draw alike."""
    import shutil

    folder = shutil.copytree(tiny_model("bert"), tmp_path_factory.mktemp("model") / "calm")
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def together():
    """``together(function, *arguments)``: run it in two processes that know of each other."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["twinvec.training.run.library_trainers", "twinvec.training.run.train", "matplotlib.figure"]
    )

    def run(function, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        processes = [context.Process(target=_join, args=(rank, port, function, *arguments)) for rank in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(500)
        assert [process.exitcode for process in processes] == [0, 0]

    return run


def _join(rank, port, function, *arguments):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    function(*arguments)


def roles(name):
    """The arms of its batches."""
    if name == "triplet":
        return ["anchor", "positive", "negative"]
    if name == "margin_mse":
        return ["anchor", "positive", "negatives"]
    return ["anchor", "positive", *(["negatives"] if "negatives" in name else [])]


def gradients(folder, name, kept_tokens, rows, world):
    """Gradients of one step over some of the rows, by the name of the parameter."""
    from sentence_transformers import SentenceTransformer
    from torch.nn.parallel import DistributedDataParallel

    from twinvec.training.losses import modules as losses
    from twinvec.training.losses.tiled_info_nce import InfoNCESettings
    from twinvec.training.run.building import with_prompts
    from twinvec.training.run.library_trainers import TextCollator

    torch.manual_seed(0)
    model = SentenceTransformer(str(folder), device="cpu")
    model.train()
    objective = {
        "info_nce": lambda: losses.InfoNCELoss(),
        "symmetric with hard negatives and masks": lambda: losses.InfoNCELoss(InfoNCESettings(symmetric=True)),
        "hard negatives of one process": lambda: losses.InfoNCELoss(),
        "softmax": lambda: losses.SoftmaxLoss(32, ["no", "yes", "perhaps"]),
        "triplet": lambda: losses.TripletLoss(margin=5.0),
        "cosine_regression": lambda: losses.CosineRegressionLoss(),
        "margin_mse": lambda: losses.MarginMSELoss("dot"),
        "contrastive": lambda: losses.ContrastiveLoss("euclidean", margin=5.0),
        "online_contrastive": lambda: losses.ContrastiveLoss("euclidean", margin=5.0, online=True),
    }[name]()
    wrapped = DistributedDataParallel(model, find_unused_parameters=True) if world > 1 else model
    loss = losses.EmbeddingLoss(wrapped, objective, token_budget=40, kept_tokens=kept_tokens)
    data = [{role: TEXTS[arm * ROWS + row] for arm, role in enumerate(roles(name))} for row in rows]
    for number, row in zip(rows, data, strict=True):
        if "negatives" in row:
            row["negatives"] = [row["negatives"]] if number < 2 or not name.startswith("hard") else []
        if name == "margin_mse":
            row["negatives"] *= 1 + number % 3  # the processes have different numbers of negatives
            row["scores"] = [number, *range(len(row["negatives"]))]
    read = [*roles(name), *(["scores"] if name == "margin_mse" else [])]
    batch = TextCollator(with_prompts(model), read, name.startswith("symmetric"))(data)
    arms = [
        {key.removeprefix(f"{role}_"): value for key, value in batch.items() if key.startswith(f"{role}_")}
        for role in roles(name)
    ]
    classes = 3 if name == "softmax" else 2
    loss(arms, batch.get("label", torch.tensor([row % classes for row in rows]))).backward()
    named = [*model.named_parameters(), *objective.named_parameters()]
    return {name: parameter.grad for name, parameter in named if parameter.grad is not None}


def _save_gradients(folder, target):
    rank = int(os.environ["RANK"])
    torch.distributed.init_process_group("gloo")
    rows = range(ROWS * rank // 2, ROWS * (rank + 1) // 2)
    for name, kept_tokens in product(LOSSES, KEPT_TOKENS):
        torch.save(gradients(folder, name, kept_tokens, rows, 2), target / f"{name}-{kept_tokens}-{rank}")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def saved(together, folder, tmp_path_factory):
    """A folder with the gradients of every case: two processes compute all, since they take longer to start."""
    target = tmp_path_factory.mktemp("gradients")
    together(_save_gradients, folder, target)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("kept_tokens", KEPT_TOKENS)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_equal_those_of_one_process(saved, folder, name, kept_tokens):
    expected = gradients(folder, name, 10**6, range(ROWS), 1)
    assert max(gradient.abs().max() for gradient in expected.values()) > 1e-2
    for rank in range(2):
        found = torch.load(saved / f"{name}-{kept_tokens}-{rank}", weights_only=True)
        assert found.keys() == expected.keys()
        for key, gradient in expected.items():
            torch.testing.assert_close(found[key], gradient, atol=1e-5, rtol=1e-4, msg=f"{key} of rank {rank}")


def _train(root, folder):
    from twinvec.training.run.config import read_config
    from twinvec.training.run.train import train

    train(read_config(root / "run.yaml"), folder)


PAIRS = [{"anchor": f"how does {n} work", "positive": f"this is how {n % 19} works"} for n in range(22)]
SCORED = [{"sentence1": f"how does {n} work", "sentence2": f"about {n % 7}", "score": n % 2} for n in range(22)]
RUNS = {
    "bi-encoder": ({"name": "info_nce"}, PAIRS, {}),
    "cross-encoder": ({"name": "graded"}, SCORED, {"score_range": None}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_of_two_processes_equals_that_of_one(together, folder, tmp_path, kind):
    import yaml
    from safetensors.torch import load_file

    objective, rows, reading = RUNS[kind]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "kind": kind,
        "model": str(folder),
        "objective": objective,
        "data": [{"path": "rows.jsonl", **reading}],
        "batches": {"size": 5},  # the last batch has two
        "schedule": {"steps": 8, "learning_rate": 1e-3, "checkpoint_every": 3},
        "device": "cpu",
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    _train(tmp_path, tmp_path / "one")
    together(_train, tmp_path, tmp_path / "two")
    one, two = (json.loads((tmp_path / name / "training.json").read_text())["report"] for name in ("one", "two"))
    assert two["loss"] == pytest.approx(one["loss"], abs=1e-3)
    one, two, before = (load_file(path / "model.safetensors") for path in (tmp_path / "one", tmp_path / "two", folder))
    before = {f"bert.{name}" if f"bert.{name}" in one else name: value for name, value in before.items()}
    # the gradient of key biases is zero but for rounding, which Adam turns into steps
    compared = [name for name in one if name in before and not name.endswith("key.bias")]
    assert len(compared) > 20
    assert max((one[name] - before[name]).abs().max() for name in compared) > 1e-3
    for name in compared:
        torch.testing.assert_close(two[name], one[name], atol=1e-5, rtol=0, msg=name)
