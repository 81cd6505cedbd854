"""What reaches the terminal besides results: twinvec's own words, and nothing that a library says of itself."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import warnings

import pytest

from twinvec.cli.messages import print_own_messages

TEXTS = [f"{kind} number {n} compares two files" for n in range(9) for kind in ("dog", "cat", "Größe", "the lazy fox")]
BARS = r"(Encoding|Ingesting|Measuring|Migrating|Mining|Quantising|Reading|Reranking|[Ss]earching|Training) [━╸╺]"
RUN = """
import sys
from twinvec.cli.app import main
for line in sys.stdin:
    print("$", line, end="", file=sys.stderr, flush=True)
    try: main(line.split())
    except SystemExit as stop: assert not stop.code, line
"""
COMMANDS = """\
encode texts.txt -o v.npy --model MODEL --engine openvino
encode texts.txt -o v.npy --model MODEL --engine onnx --storage float16
similarity one two three --model MODEL
pairs texts.txt --model MODEL
cluster texts.txt --model MODEL --map map.png
export MODEL -o exported --precision int8 --calibrate texts.txt
train run.yaml -o trained
train cross.yaml -o cross
train lora.yaml -o adapted
mine pairs.jsonl -o mined.jsonl --model MODEL --denoise cross
evaluate MODEL --questions pairs.jsonl
compare MODEL trained -o report --questions pairs.jsonl
ingest docs -c docs --model MODEL
search dogs -c docs --rerank maxsim
search dogs -c docs --rerank cross
migrate -c docs --to trained
reindex -c docs --quantization int8
info -c docs
verify -c docs
push -c docs --to-path other
"""
"""Every command that loads a library of its own, on real files."""


@pytest.fixture
def folder(tmp_path, tiny_model):
    """A folder with what the commands read."""
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    pairs = [{"anchor": text, "positive": f"all about {text}", "negatives": ["nothing"]} for text in TEXTS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "dogs.md").write_text("# Dogs\n\nDogs bark.\n")
    common = f"model: {tiny_model('bert')}\ndata: [{{path: pairs.jsonl}}]\nbatches: {{size: 8}}\n"
    common += "evaluation: {pairs: pairs.jsonl, every: 2}\nschedule: {steps: 4}\n"
    (tmp_path / "run.yaml").write_text(f"{common}objective: {{name: info_nce}}\n")
    (tmp_path / "lora.yaml").write_text(f"{common}objective: {{name: info_nce}}\nlora: {{rank: 2}}\n")
    (tmp_path / "cross.yaml").write_text(f"{common}kind: cross-encoder\nobjective: {{name: binary}}\n")
    return tmp_path


@pytest.mark.slow
def test_no_library_reaches_the_terminal(folder, tiny_model, on_terminal, monkeypatch):
    """With all warnings on, as a pipe and as a terminal of 80 columns see it."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TWINVEC_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    commands = COMMANDS.replace("MODEL", str(tiny_model("bert")))
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=commands, capture_output=True, text=True, cwd=folder, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("$ ")]
    assert [line for line in said if not line.startswith("twinvec: ")] == []
    assert sum("preparing" in line for line in said) > 0
    for command in ("train cross.yaml -o again", "encode texts.txt -o w.npy", "mine pairs.jsonl -o w.jsonl"):
        shown = on_terminal(80, *command.split(), *(() if "train" in command else ("--model", tiny_model("mpnet"))))
        lines = [line for line in re.split(r"[\r\n]+", shown) if line.strip()]
        ours = re.compile(rf"{BARS}|twinvec: |again: 4 steps|  the model is that of|  pairs\.|w\.npy: |w\.jsonl: ")
        assert [line for line in lines if not ours.match(line)] == []
        assert any(re.match(BARS, line) for line in lines)
        assert max(map(len, lines)) <= 80


def begin(monkeypatch, *, debug):
    """Remove pytest's log handlers, so that the command finds none, as in a fresh process."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(logging, "_warnings_showwarning", None)
    print_own_messages(debug=debug)


def speak():
    logging.getLogger("twinvec.part").warning("of twinvec")
    logging.getLogger("twinvec_qdrant.part").warning("of the collections")
    logging.getLogger("library").warning("of a library")
    logging.getLogger("library").error("an error of a library")
    warnings.warn("a Python warning", UserWarning, stacklevel=1)


def test_only_our_warnings_are_printed(monkeypatch, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        begin(monkeypatch, debug=False)
        speak()
    said = capsys.readouterr()
    assert said == ("", "twinvec: of twinvec\ntwinvec: of the collections\ntwinvec: an error of a library\n")


def test_debug_prints_those_of_libraries(monkeypatch, capsys):
    begin(monkeypatch, debug=True)
    with pytest.warns(UserWarning, match="a Python warning"):
        speak()
    assert "twinvec: of a library\n" in capsys.readouterr().err
