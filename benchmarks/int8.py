"""What int8 loses in retrieval: nDCG@10 of an export beside float32, on each set.

    python benchmarks/int8.py --data ../shared/data [--export FOLDER]

The export is calibrated on documents of the set, as a user would do, unless one is given.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import mean

from twinvec import Encoder
from twinvec.evaluation.beir import load_beir
from twinvec.evaluation.ir import evaluate_ir
from twinvec.export import export_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="measuring sets: DATA/ir/SET in the BEIR layout")
    parser.add_argument("--model", default="default")
    parser.add_argument("--export", type=Path, help="a folder with an int8 export of the model; made unless given")
    options = parser.parse_args()
    exact = Encoder(options.model, engine="openvino", precision="float32")
    losses = []
    print("| set | float32 | int8 | loss |\n|---|---|---|---|")
    for folder in sorted(path for path in (options.data / "ir").iterdir() if path.is_dir()):
        before, after = measure(options.model, options.export, exact, folder)
        losses.append(100 * (before - after) / before)
        print(f"| {folder.name} | {before:.2f} | {after:.2f} | {losses[-1]:+.2f}% |", flush=True)
    print(f"| mean | | | {mean(losses):+.2f}% |")


def measure(model: str, export: Path | None, exact: Encoder, folder: Path) -> tuple[float, float]:
    """nDCG@10 x 100 on a set, in float32 and in int8."""
    beir = load_beir(folder)
    with tempfile.TemporaryDirectory() as work:
        if export is None:
            export = Path(work) / "int8"
            texts = (document.full_text for document in beir.documents)
            export_model(model, export, precision="int8", calibrate=texts)
        encoders = exact, Encoder(export, precision="int8")
        before, after = (evaluate_ir(each, beir, measures=["ndcg@10"]).figures["ndcg@10"] for each in encoders)
    return before, after


if __name__ == "__main__":
    main()
