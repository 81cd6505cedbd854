"""The configuration of a run: errors name the file and the field, before anything is loaded."""

from __future__ import annotations

import copy
import json
import math
import os
import re
from pathlib import Path

import pytest
import torch
import yaml

from twinvec.errors import ConfigurationError
from twinvec.training.run import config
from twinvec.training.run.config import TrainConfig, check_config, read_config
from twinvec.training.run.train import train

ROOT = Path(__file__).parents[4]
GOOD = {"objective": {"name": "info_nce"}, "data": [{"path": "rows.jsonl"}]}


@pytest.fixture
def folder(tmp_path):
    for name in ("rows.jsonl", "more.jsonl", "dev.jsonl"):
        (tmp_path / name).write_text("{}\n")
    return tmp_path


def changed(**fields):
    return {**copy.deepcopy(GOOD), **fields}


def test_the_folder_may_be_a_str(folder):
    assert check_config(changed(), str(folder), "mine") == check_config(changed(), folder, "mine")


def test_what_is_no_configuration_is_refused(folder):
    with pytest.raises(ConfigurationError, match=r"config: expected a TrainConfig, got .*check_config makes one"):
        train(changed(), folder / "out")
    with pytest.raises(ConfigurationError, match="path must be a path, got None"):
        read_config(None)
    with pytest.raises(ConfigurationError, match="root must be a path, got None"):
        check_config(changed(), None, "mine")
    (folder / "run.json").write_text(json.dumps(changed()))
    assert read_config(str(folder / "run.json")) == read_config(folder / "run.json")


def test_paths_count_from_the_folder_of_the_file(folder):
    (folder / "model").mkdir()
    values = changed(model="model", evaluation={"pairs": "dev.jsonl"})
    (folder / "run.yaml").write_text(yaml.safe_dump(values))
    config = read_config(folder / "run.yaml")
    assert config.data[0].path == folder / "rows.jsonl"
    assert config.evaluation.pairs == folder / "dev.jsonl"
    assert config.model == str(folder / "model")


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("notes.txt", r"\.parquet$"),
        ("dataset_info.json", r"\.parquet; datasets\.load_from_disk\(FOLDER\)\.to_parquet\(FILE\) writes one$"),
        ("dataset_dict.json", r"load_from_disk\(FOLDER\)\['train'\]\.to_parquet\(FILE\) writes one$"),
    ],
)
def test_a_folder_in_place_of_a_file_is_told(folder, file, told):
    (folder / "saved").mkdir()
    (folder / "saved" / file).write_text("{}")
    message = r": .*saved is a folder; expected a file ending in \.jsonl, \.csv, \.tsv, .*"
    with pytest.raises(ConfigurationError, match=rf"data\.0\.path{message}{told}"):
        check_config(changed(data=[{"path": "saved"}]), folder, "run.yaml")
    with pytest.raises(ConfigurationError, match=rf"evaluation\.pairs{message}{told}"):
        check_config(changed(evaluation={"pairs": "saved"}), folder, "run.yaml")


def test_the_names_of_losses_are_those_of_sentence_transformers():
    from sentence_transformers import cross_encoder, sentence_transformer

    known = {*vars(sentence_transformer.losses), *vars(cross_encoder.losses)}
    assert set(config._LOSSES) <= known


def classifier(**fields):
    return changed(kind="cross-encoder", objective={"name": "binary"}, **fields)


WRONG = {
    "a field of the library's arguments": (
        changed(gradient_checkpointing=True),
        r"gradient_checkpointing: is not known; did you mean batches\.kept_tokens\?",
    ),
    "an unknown field": (changed(epoch=3), r"run\.yaml: epoch: is not known; did you mean schedule\.epochs\?"),
    "an unknown field below": (
        changed(batches={"sizes": 3}),
        r"run\.yaml: batches\.sizes: is not known; did you mean size\?",
    ),
    "a field of another section": (
        changed(batches={"learning_rate": 1}),
        r"batches\.learning_rate: is not known; did you mean schedule\.learning_rate\?",
    ),
    "a name of sentence-transformers": (
        changed(schedule={"lr": 1}),
        r"schedule\.lr: is not known; did you mean learning_rate\?",
    ),
    "the name of a field in peft": (
        changed(lora={"r": 8}),
        r"lora\.r: is not known; did you mean rank\?",
    ),
    "no objective": ({"data": GOOD["data"]}, r"run\.yaml: objective: is missing"),
    "an unknown objective": (
        changed(objective={"name": "magic"}),
        r"run\.yaml: objective: name 'magic' is not known; it should be one of 'info_nce', 'triplet', ",
    ),
    "a loss of sentence-transformers": (
        changed(objective={"name": "MultipleNegativesRankingLoss"}),
        r"run\.yaml: objective: name 'MultipleNegativesRankingLoss' is not known; did you mean info_nce\?$",
    ),
    "a loss with settings": (
        changed(objective={"name": "CachedMultipleNegativesSymmetricRankingLoss"}),
        r"is not known; did you mean info_nce with 'symmetric: true'\?$",
    ),
    "a temperature": (
        changed(objective={"name": "info_nce", "temperature": 0.05}),
        r"objective\.temperature: is not known; scale is 1 / temperature$",
    ),
    "a temperature of another objective": (
        changed(objective={"name": "triplet", "temperature": 0.05}),
        r"objective\.temperature: is not known; leave it out$",
    ),
    "an objective of a dataset": (
        changed(data=[{"path": "rows.jsonl"}, {"path": "more.jsonl", "objective": {"name": "triplet"}}]),
        r"data\.1\.objective: is not known; all datasets of a run share its objective; for another objective, start",
    ),
    "an objective without a name": (changed(objective={"scale": 3}), r"run\.yaml: objective: name is missing"),
    "an option of another objective": (
        changed(objective={"name": "cosine_regression", "scale": 3}),
        r"run\.yaml: objective\.scale: is not known; leave it out",
    ),
    "no data": (changed(data=[]), "data: should have at least 1"),
    "a file that is not there": (changed(data=[{"path": "lost.jsonl"}]), r"data\.0\.path: no such file: .*lost\.jsonl"),
    "a file whose name is too long": (changed(data=[{"path": 5000 * "x"}]), r"data\.0\.path: no such file: .*x\.\.\.x"),
    "no model": (changed(model=""), "model: is empty; leave it out for the default model"),
    "no layers to adapt": (changed(lora={"targets": []}), r"run\.yaml: lora\.targets: is empty; name the layers"),
    "dev data that is not there": (changed(evaluation={"sts": "lost.tsv"}), r"evaluation\.sts: no such file"),
    "a role that is not measured": (
        changed(evaluation={"pairs": "dev.jsonl", "columns": {"score": "x"}}),
        "evaluation: columns: 'score' is not a column of the files .*, which have anchor, positive, negatives",
    ),
    "several files to measure on": (
        changed(evaluation={"pairs": ["dev.jsonl"]}),
        r"evaluation\.pairs: should be the path of one file, not a list$",
    ),
    "fields for a file": (
        changed(evaluation={"sts": {"path": "dev.tsv"}}),
        r"evaluation\.sts: should be the path of one file, not a mapping$",
    ),
    "several files of one dataset": (
        changed(data=[{"path": ["a.jsonl", "b.jsonl"]}]),
        r"data\.0\.path: should be the path of one file, not a list$",
    ),
    "several models": (changed(model=["default"]), "model: should be a valid string, not a list$"),
    "a file without a field": (
        changed(evaluation="dev.jsonl"),
        r"evaluation: expected fields, such as \{pairs: dev.jsonl\}, got 'dev.jsonl'$",
    ),
    "nothing to evaluate": (changed(evaluation={"every": 10}), "evaluation: .*'pairs', 'sts' or both"),
    "patience without measurements": (
        changed(evaluation={"pairs": "dev.jsonl", "patience": 2}),
        "evaluation: .*needs 'every'",
    ),
    "a negative rate": (changed(schedule={"learning_rate": -1}), "schedule.learning_rate: .*greater than 0"),
    "a word for a number": (changed(batches={"size": "many"}), "batches.size: .*integer"),
    "an unknown role": (
        changed(data=[{"path": "rows.jsonl", "columns": {"question": "q"}}]),
        r"data\.0\.columns\.question",
    ),
    "a role of another objective": (
        changed(data=[{"path": "rows.jsonl", "columns": {"score": "s"}}]),
        "data.0.columns: 'score' is not a column of objective 'info_nce'",
    ),
    "weights for some": (
        changed(data=[{"path": "rows.jsonl", "weight": 1}, {"path": "more.jsonl"}]),
        "all datasets a weight, or none of them",
    ),
    "more datasets a batch than there are": (changed(batches={"datasets": 2}), "batches.datasets is 2"),
    "a range upside down": (
        changed(objective={"name": "cosine_regression"}, data=[{"path": "rows.jsonl", "score_range": [5, 0]}]),
        "data.0.score_range: .*below the highest",
    ),
    "a classifier's objective for an encoder": (
        changed(objective={"name": "binary"}),
        r"run\.yaml: objective 'binary' is not for a bi-encoder",
    ),
    "an encoder's objective for a classifier": (changed(kind="cross-encoder"), "is not for a cross-encoder"),
    "matryoshka with softmax": (
        changed(objective={"name": "softmax"}, matryoshka=[8]),
        "matryoshka does not work with softmax",
    ),
    "dimensions below one": (changed(matryoshka=[0]), "dimensions must be positive"),
    "an infinite rate": (changed(schedule={"learning_rate": math.inf}), "schedule.learning_rate: .*finite"),
    "infinite epochs": (changed(schedule={"epochs": math.inf}), "schedule.epochs: .*finite"),
    "an infinite scale": (changed(objective={"name": "info_nce", "scale": math.inf}), r"objective\.scale: .*finite"),
    "a margin that is no number": (
        changed(objective={"name": "info_nce", "false_negative_margin": math.nan}),
        "false_negative_margin: .*finite",
    ),
    "an infinite weight": (changed(data=[{"path": "rows.jsonl", "weight": math.inf}]), "data.0.weight: .*finite"),
    "an unknown concatenation": (
        changed(objective={"name": "softmax", "concatenation": "u+v"}),
        r"objective\.concatenation: .*some of u, v, \|u-v\|, u\*v",
    ),
    "no negatives in a batch": (changed(batches={"size": 1}), "batches.size: .* needs at least 2 rows"),
    "sizes that do not count": (
        changed(data=[{"path": "rows.jsonl", "weight": 1}], batches={"power": 0.5}),
        "batches.power draws datasets by size, but the datasets have weights",
    ),
    "a cap that does not count": (
        changed(data=[{"path": "rows.jsonl", "weight": 1}], batches={"cap": 5}),
        "batches.cap draws",
    ),
    "a power without a choice": (
        changed(batches={"power": 0.5}),
        "batches.power draws datasets by size, but there is one dataset",
    ),
    "a power out of range": (
        changed(data=[{"path": "rows.jsonl"}, {"path": "more.jsonl"}], batches={"power": 1000}),
        r"run\.yaml: batches\.power must be at most 10, got 1000$",
    ),
    "a lone surrogate in a prompt": (
        changed(prompts={"query": "\ud800"}),
        r"run\.yaml: prompts: a text has a lone surrogate, which UTF-8 cannot encode$",
    ),
    "a lone surrogate in the name of the model": (changed(model="\udcff"), "run.yaml: model: a text has a lone surr"),
    "a cap without a choice": (changed(batches={"cap": 5}), "batches.cap draws datasets by size, but there is one"),
    "unique texts without negatives in the batch": (
        changed(objective={"name": "triplet"}, batches={"unique_texts": True}),
        "batches.unique_texts is for info_nce only",
    ),
    "two passes of a classifier": (classifier(batches={"token_budget": 5}), "batches.token_budget is for a bi-encoder"),
    "no prompts of a classifier": (classifier(prompts={}), "prompts and lora are for a bi-encoder only"),
    "a pair without room": (classifier(max_tokens=4), "max_tokens: a pair needs at least 5"),
    "a device that nobody knows": (changed(device="cupu"), "run.yaml: device: device 'cupu' cannot be used"),
    "a device that is not there": (changed(device="cuda:99"), "run.yaml: device: device 'cuda:99' cannot be used"),
    "a device that does not train": (
        changed(device="meta"),
        "run.yaml: device: training runs on cpu, cuda, mps or xpu, got 'meta'",
    ),
    "epochs that do not count": (
        changed(schedule={"epochs": 3, "steps": 10}),
        "schedule: .*'steps' replaces 'epochs': give one of them",
    ),
    "a range of scores that are not numbers": (
        changed(data=[{"path": "rows.jsonl", "score_range": [0, 5]}]),
        "data.0.score_range: objective 'info_nce' has no column 'score'",
    ),
    "half precision on a CPU": (
        changed(device="cpu", schedule={"precision": "float16"}),
        "run.yaml: schedule.precision: .* use bfloat16 or float32",
    ),
    "a seed too large": (changed(schedule={"seed": 2**32}), "schedule.seed: .*less than"),
    "no fields at all": (["a", "list"], "expected fields such as"),
    "a model's folder that is not there": (
        changed(model="../modells/ex"),
        rf"run\.yaml: model: no such folder: {re.escape(os.sep)}.*modells.ex$",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_names_file_and_field(folder, case):
    values, message = WRONG[case]
    with pytest.raises(ConfigurationError, match=r"run\.yaml") as caught:
        check_config(values, folder, "run.yaml")
    assert caught.match(message)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"objective": "info_nce"}, "objective: expected fields, such as {name: info_nce}, got 'info_nce'"),
        ({"data": "pairs.jsonl"}, "data: expected a list, such as [{path: pairs.jsonl}], got 'pairs.jsonl'"),
        ({"data": ["pairs.jsonl"]}, "data.0: expected fields, such as {path: pairs.jsonl}, got 'pairs.jsonl'"),
        ({"batches": 64}, "batches: expected fields, such as {size: 64}, got 64"),
        ({"schedule": 3}, "schedule: expected fields, such as {epochs: 1}, got 3"),
        ({"lora": True}, "lora: expected fields, such as {rank: 8}, got True"),
        ({"data": [{"path": "a", "columns": {"anchr": "a"}}]}, "data.0.columns.anchr: should be 'anchor'"),
    ],
)
def test_a_value_in_place_of_fields_is_told_with_an_example(folder, values, told):
    with pytest.raises(ConfigurationError, match=re.escape(f"run.yaml: {told}")):
        check_config(changed(**values), folder, "run.yaml")


@pytest.mark.parametrize("name", ["cuda:1", "xpu:2"])
def test_a_gpu_that_is_not_the_first_is_refused(folder, monkeypatch, name):
    monkeypatch.setattr("twinvec.engines.torch.torch_device", torch.device)  # as on a machine with several GPUs
    message = rf"run\.yaml: device: training takes the first GPU, got '{name}'; .*CUDA_VISIBLE_DEVICES={name[-1]}"
    with pytest.raises(ConfigurationError, match=message):
        check_config(changed(device=name), folder, "run.yaml")
    assert check_config(changed(device=name[:-1] + "0"), folder, "run.yaml").device == name[:-1] + "0"


def test_all_wrong_fields_are_named_at_once(folder):
    with pytest.raises(ConfigurationError, match=r"run\.yaml: schedule\.epochs: .*\n(?s:.*)schedule\.learning_rate: "):
        check_config(changed(schedule={"learning_rate": -1, "epochs": 0}), folder, "run.yaml")


@pytest.mark.parametrize(("name", "stand_in"), [("tensorboard", "tensorboardX"), ("wandb", None)])
def test_a_package_to_report_to_must_be_there(folder, monkeypatch, name, stand_in):
    values = changed(schedule={"report_to": [name]})
    monkeypatch.setattr("twinvec.training.run.config.find_spec", lambda wanted: None)
    with pytest.raises(ConfigurationError, match=rf"run\.yaml: schedule\.report_to: the package '{name}' is not inst"):
        check_config(values, folder, "run.yaml")
    for there in filter(None, (name, stand_in)):
        monkeypatch.setattr(
            "twinvec.training.run.config.find_spec", lambda wanted, there=there: wanted == there or None
        )
        assert check_config(values, folder, "run.yaml").schedule.report_to == [name]


def test_a_field_that_comes_twice_is_refused(folder):
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(GOOD) + "schedule:\n  seed: 1\n  epochs: 2\n  seed: 3\n")
    with pytest.raises(ConfigurationError, match=r"(?s)run\.yaml: not valid YAML: 'seed' comes twice.*line 8"):
        read_config(path)
    path.write_text(yaml.safe_dump(GOOD) + "schedule:\n  seed: 1\n")
    assert read_config(path).schedule.seed == 1


@pytest.mark.parametrize("content", ["", "# model: default\n"])
def test_an_empty_file_is_called_empty(tmp_path, content):
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(ConfigurationError, match=r"run\.yaml: is empty; expected fields such as 'model' and 'data'"):
        read_config(tmp_path / "run.yaml")


def test_broken_yaml_is_placed_in_its_file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: default\nobjective: {name: info_nce\ndata: [\n")
    with pytest.raises(ConfigurationError, match=r"not valid YAML: ") as caught:
        read_config(path)
    assert f'in "{path}", line 3' in str(caught.value)


def test_a_model_beside_the_working_folder_is_still_found(folder, monkeypatch):
    """Earlier versions looked there too, and their runs go on."""
    (folder / "elsewhere" / "model").mkdir(parents=True)
    (folder / "work").mkdir()
    monkeypatch.chdir(folder / "work")
    assert check_config(changed(model="../elsewhere/model"), folder, "run.yaml").model == "../elsewhere/model"
    with pytest.raises(ConfigurationError, match="no such folder"):
        check_config(changed(model="./model"), folder, "run.yaml")


@pytest.mark.parametrize(
    "content",
    [
        b"a: [",
        b"\xff\xfe",
        b"a: b: c",
        b"a: 2026-13-45",
        b"a: !!int ''",
        b"a: !!bool maybe",
        b"a: !!timestamp x",
        b"a: " + 2000 * b"[",
    ],
    ids=lambda content: repr(content[:20]),
)
def test_what_is_no_yaml_is_refused(tmp_path, content):
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"run\.yaml: (not valid YAML|cannot be read)"):
        read_config(path)


def test_json_is_read_and_toml_is_not(folder):
    (folder / "run.json").write_text(json.dumps(GOOD))
    assert read_config(folder / "run.json") == check_config(GOOD, folder, "run.yaml")
    (folder / "run.toml").write_text('objective = {name = "info_nce"}\n')
    with pytest.raises(ConfigurationError, match=r"run\.toml: .* is YAML or JSON, not TOML"):
        read_config(folder / "run.toml")


def test_a_file_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_config(tmp_path / "run.yaml")


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_well_formed(path):
    TrainConfig.model_validate(yaml.safe_load(path.read_text()))


@pytest.mark.slow
@pytest.mark.data
def test_the_recipe_runs_scaled_down(data, tiny_model, tmp_path):
    values = yaml.safe_load((ROOT / "examples" / "billion_pairs.yaml").read_text())
    for source in values["data"]:
        source["path"] = str(data / source["path"].removeprefix("../../shared/data/"))
        source["limit"] = 60
    del values["evaluation"]
    values |= {"model": str(tiny_model("bert")), "max_tokens": 32, "device": "cpu"}
    values["batches"]["size"] = 64
    values["schedule"]["steps"] = 3
    report = train(check_config(values, tmp_path, "recipe"), tmp_path / "model")
    assert (report.steps, report.rows) == (3, 240)
    assert math.isfinite(report.loss)


def test_names_of_sentence_transformers_stand_for_fields_that_there_are():
    fields = {f"{prefix}{name}" for prefix, kinds in config._SECTIONS.items() for k in kinds for name in k.model_fields}
    assert set(config._OTHER_NAMES.values()) <= fields
    assert {section.removesuffix(".") for section in config._SECTIONS} - {""} <= TrainConfig.model_fields.keys()
