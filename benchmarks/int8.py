"""The loss of retrieval quality by int8 and bfloat16: nDCG@10 compared with float32, on each set.

    python benchmarks/int8.py --data ../shared/data [--export FOLDER] [--output benchmarks/INT8.md]

Unless ``--export`` is given, the int8 export is calibrated on documents of the set, as users would do. bfloat16 is
measured if the processor supports it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import mean

from encoding import processor
from output import Output
from twinvec import Encoder
from twinvec.engines.openvino import has_bfloat16
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.ir import evaluate_ir
from twinvec.export.model import export_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="measuring sets: DATA/ir/SET in the BEIR layout")
    parser.add_argument("--model", default="default")
    parser.add_argument(
        "--export", type=Path, help="folder with an int8 export of the model; default: make an export for each set"
    )
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    tell = Output(options.output)
    packages = ", ".join(f"{name} {version(name)}" for name in ("openvino", "nncf"))
    tell("# What int8 and bfloat16 lose in retrieval\n")
    tell(f"{processor()}; {packages}. Command: `python benchmarks/int8.py {' '.join(sys.argv[1:])}`.")
    tell(f"nDCG@10 x 100, model `{options.model}`, and the loss relative to float32; below 0 is a gain.\n")
    exact = Encoder(options.model, engine="openvino", precision="float32")
    halves = [Encoder(options.model, engine="openvino", precision="bfloat16")] if has_bfloat16() else []
    names = ["int8", "bfloat16"][: 1 + len(halves)]
    tell("| set | float32 |" + "".join(f" {name} | loss |" for name in names))
    tell("|---|---|" + "---|---|" * len(names))
    losses = []
    for folder in sorted(path for path in (options.data / "ir").iterdir() if path.is_dir()):
        beir = load_beir(folder)
        with tempfile.TemporaryDirectory() as work:
            export = options.export or make_export(options.model, Path(work) / "int8", beir)
            small = Encoder(export, engine="openvino", precision="int8")
            before, *after = (ndcg(encoder, beir) for encoder in (exact, small, *halves))
        losses.append([100 * (before - each) / before for each in after])
        found = "".join(f" {each:.2f} | {loss:+.2f}% |" for each, loss in zip(after, losses[-1], strict=True))
        tell(f"| {folder.name} | {before:.2f} |{found}")
    tell("| mean | |" + "".join(f" | {mean(each):+.2f}% |" for each in zip(*losses, strict=True)))
    tell.write()


def make_export(model: str, folder: Path, beir: BeirSet) -> Path:
    """Make an int8 export, calibrated on documents of a set."""
    export_model(model, folder, precision="int8", calibrate=(document.full_text for document in beir.documents))
    return folder


def ndcg(encoder: Encoder, beir: BeirSet) -> float:
    """Return nDCG@10 x 100."""
    return evaluate_ir(encoder, beir, measures=["ndcg@10"]).figures["ndcg@10"]


if __name__ == "__main__":
    main()
