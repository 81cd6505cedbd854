"""The peer of ``encoding.py`` in int8: sentence-transformers with OpenVINO, in an environment of its own.

    python -m venv ENV
    ENV/bin/pip install torch sentence-transformers==6.2.0 optimum-intel==2.2.0 transformers==5.5.4 datasets nncf
    ENV/bin/pip install "huggingface-hub<2" && ENV/bin/pip uninstall torchvision

The packages conflict with the versions that this project pins. The versions above worked together in November 2026; the
torchvision that pip adds did not work with torch for the CPU. The program takes a model's folder and a file of
calibration texts, and prints "ready" after loading. Each line of its input is a JSON list of texts. It answers with the
name of a file that holds their vectors.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    model, texts = Path(sys.argv[1]), Path(sys.argv[2])
    answers, sys.stdout = sys.stdout, sys.stderr  # keep the output of libraries out of the answers
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        encode = load(model, texts, folder)
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            np.save(folder / "vectors.npy", encode(json.loads(line)))
            print(json.dumps(str(folder / "vectors.npy")), file=answers, flush=True)


def load(source: Path, texts: Path, work: Path) -> Callable[[list[str]], Any]:
    """Return the encode function of the model in int8, calibrated on the texts by the library's own function."""
    from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model

    folder = work / "model"
    shutil.copytree(source, folder)
    data = work / "data"
    data.mkdir()
    rows = ({"text": text} for text in json.loads(texts.read_text(encoding="utf-8")))
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    exact = SentenceTransformer(str(folder), backend="openvino", device="cpu")
    exact.save_pretrained(str(folder))
    export_static_quantized_openvino_model(
        exact,
        quantization_config=None,
        model_name_or_path=str(folder),
        dataset_name=str(data),
        dataset_config_name="default",
        dataset_split="train",
        column_name="text",
    )
    file = {"file_name": "openvino/openvino_model_qint8_quantized.xml"}
    encode: Callable[[list[str]], Any] = SentenceTransformer(
        str(folder), backend="openvino", device="cpu", model_kwargs=file
    ).encode
    return encode


if __name__ == "__main__":
    main()
