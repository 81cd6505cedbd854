"""Exports a model (``twinvec export``): copies its folder and adds a graph in ``openvino/`` or ``onnx/``.

``twinvec.json`` records the hashes of weights and graphs, the origin and the quality of each graph, and the value
ranges that int8 storage needs. ``onnx/`` is also a model for FastEmbed.

A killed export leaves an existing output intact. Every export is built in a temporary folder. For a new output, this
folder is next to the output, and one rename creates the output. An existing output may be a mount, so its temporary
folder is hidden inside the output, and files are moved one by one. Each graph gets a new file name, and the manifest,
which makes the graph valid, is moved last.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from twinvec.engines.exports import EXPORTS, export_key, graph_files, read_exports
from twinvec.engines.graph_cache import cached_graph
from twinvec.engines.runtimes import RUNTIMES, RuntimeName, files_of
from twinvec.errors import ConfigurationError, InputError, ModelError
from twinvec.export.quantization import BOUNDS, import_nncf, quantize
from twinvec.export.subjects import Subject, open_subject
from twinvec.models.encoder_spec import read_modules
from twinvec.models.integrity import MANIFEST, optional_json, read_object, sha256, write_manifest
from twinvec.support.atomic import sync_files, sync_folder
from twinvec.support.checks import as_list, check_choice, file_path, integer
from twinvec.support.cpu import sums_bytes_exactly
from twinvec.support.locks import exclusive_lock
from twinvec.text import check_list, check_text
from twinvec.tokens.tokenizer import TextTokenizer

ExportPrecision = Literal["float32", "int8"]

LEAST_TEXTS = 32
"""Smallest number of distinct texts to calibrate on and to measure with."""

_CALIBRATE = "--calibrate TEXTS or --calibrate-collection NAME"
_CALIBRATION = 300
_SAMPLE = 600
_TOKENIZER_SETTINGS = "tokenizer_config.json"
_HIDDEN = ".twinvec"
_MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.md", "LICENSE*", "training.png")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of an export.

    Attributes:
        folder: The model's folder.
        graph: The graph in it.
        engine: "openvino" or "onnx".
        precision: "float32" or "int8".
        passed: Whether ``precision="auto"`` uses the graph.
        quality: For int8, the closeness to float32 on held-out texts: "cosine_mean", "cosine_worst" (cross-encoders:
            "correlation") and "top10_overlap". Encoders also have "unusual_mean" and "unusual_worst", the cosines of
            texts unlike the sample; ``passed`` ignores these. For float32, "difference": the largest difference from
            the model, on probe texts.
        calibrated_on: Number of texts that int8 was calibrated on.
        measured_on: Number of held-out texts that int8 was measured on.
    """

    folder: Path
    graph: Path
    engine: str
    precision: str
    passed: bool
    quality: dict[str, float]
    calibrated_on: int
    measured_on: int


def export_model(
    model: str | Path,
    output: str | Path,
    *,
    engine: RuntimeName = "openvino",
    precision: ExportPrecision = "float32",
    calibrate: Iterable[str] | None = None,
    dims: Sequence[int] = (),
) -> ExportReport:
    """Export an encoder or a cross-encoder.

    Args:
        model: A folder or a hub name, as for ``Encoder``.
        output: A new folder, or one that holds the same model, to which the graph is added.
        engine: Engine that computes the graph.
        precision: Precision of the graph.
        calibrate: Texts of the kind that will be encoded; a few hundred of them are sampled. An int8 graph needs them.
            For an encoder they also give the value ranges of int8 storage, in either precision.
        dims: Numbers of leading dimensions, as in ``Encoder(folder, dim=...)``, to measure value ranges for as well.

    Raises:
        ConfigurationError: int8 or ``dims`` without texts, a dim that the model does not have, or an output that cannot
            be written or holds something else.
        InputError: fewer than ``LEAST_TEXTS`` distinct texts that are not blank.
        TextError: a text is invalid.
        MissingExtraError: the engine's package or NNCF is not installed.
        ModelError: the model is not found, damaged or not supported.
        EngineError: the model cannot be converted or quantised, or its float32 graph is not exact.
    """
    check_choice(engine, RuntimeName, "engine")
    check_choice(precision, ExportPrecision, "precision")
    if precision == "int8" and calibrate is None:
        raise ConfigurationError(
            f"an int8 export needs texts to calibrate on, of the kind that will be encoded: pass some ({_CALIBRATE})"
        )
    dims = as_list(dims, "dims", "whole numbers")
    output = file_path(output, "output").resolve()
    if dims and calibrate is None:
        raise ConfigurationError(f"the value ranges for dims are measured on texts: pass some ({_CALIBRATE})")
    RUNTIMES[engine].load()
    if precision == "int8":
        import_nncf()
    sample = [] if calibrate is None else sample_texts(calibrate)
    subject = open_subject(model)
    for dim in dims:
        if not 1 <= integer(dim, "dim") <= subject.dim:
            if not subject.dim:
                raise ConfigurationError(f"dim {dim} needs an encoder: a cross-encoder has no vectors")
            raise ConfigurationError(f"dim must lie between 1 and the model's {subject.dim}, got {dim}")
    with _temporary_folder(output) as temporary:
        subject = _existing(output, subject)
        made = temporary / "model"
        _copy_model(subject, made)
        entry = _add_graph(made, subject, engine, precision, sample)
        if calibrate is not None:
            _update_manifest(made, subject.ranges(made, engine, sample, dims))
        _move_into_place(made, output)
    return ExportReport(
        folder=output,
        graph=output / entry["graph"],
        engine=engine,
        precision=precision,
        passed=entry["passed"],
        quality=entry["quality"],
        calibrated_on=entry["texts"]["calibrated"],
        measured_on=entry["texts"]["measured"],
    )


def sample_texts(texts: Iterable[str]) -> list[str]:
    """Draw up to 600 distinct texts that are not blank, with a fixed seed; raise InputError for fewer than 32."""
    check_list(texts)
    rng = random.Random(0)
    kept: dict[int, str] = {}
    seen: set[int] = set()
    for index, text in enumerate(texts):
        check_text(text, f"text {index}")
        key = hash(text)
        if not text.strip() or key in seen:
            continue
        place = len(seen) if len(seen) < _SAMPLE else rng.randrange(len(seen) + 1)
        seen.add(key)
        if place < _SAMPLE:
            kept[place] = text
    if len(kept) < LEAST_TEXTS:
        raise InputError(
            f"got {len(kept)} distinct texts that are not blank; expected at least {LEAST_TEXTS}, of which half are "
            "held out to measure on"
        )
    sample = [kept[place] for place in sorted(kept)]
    rng.shuffle(sample)
    return sample


def _add_graph(
    folder: Path, subject: Subject, engine: RuntimeName, precision: ExportPrecision, sample: list[str]
) -> dict[str, Any]:
    """Put the graph into a model's folder and return its entry in the manifest."""
    runtime, model = RUNTIMES[engine], subject.model
    exact = cached_graph(engine, model)
    size = min(_CALIBRATION, len(sample) // 2)
    bits = 8 if sums_bytes_exactly() else 7
    graph = folder / engine / f"made{runtime.suffixes[0]}"
    graph.parent.mkdir(exist_ok=True)
    if precision == "int8":
        quantize(engine, exact.path, subject.calibration(sample[:size]), graph, weight_bits=bits)
    else:
        for path in files_of(exact.path):
            shutil.copyfile(path, graph.with_suffix(path.suffix))
    hashes = "".join(sha256(path) for path in files_of(graph))
    name = f"{precision}-{hashlib.sha256(hashes.encode()).hexdigest()[:8]}"  # unique: see the module's docstring
    for path in files_of(graph):
        path.replace(path.with_stem(name))
    if engine == "onnx":
        _add_tokenizer(folder, model.tokenizer)
    entry: dict[str, Any] = {
        "graph": f"{engine}/{name}{runtime.suffixes[0]}",
        "network": model.graph,
        "made_by": f"{runtime.package} {runtime.version}",
        "passed": precision == "float32",
        "quality": {"difference": exact.difference} if precision == "float32" else {},
        "texts": {"calibrated": 0, "measured": 0},
    }
    exports = read_exports(folder) | {export_key(engine, precision): entry}
    _update_manifest(folder, {EXPORTS: exports})  # needed by the encoder that measures the graph's quality
    if precision == "int8":
        entry |= {"made_by": f"{entry['made_by']}, nncf {version('nncf')}", "weight_bits": bits}
        entry["quality"] = subject.quality(folder, engine, sample[size:])
        entry["passed"] = all(entry["quality"][name] >= BOUNDS[name] for name in BOUNDS if name in entry["quality"])
        entry["texts"] = {"calibrated": size, "measured": len(sample) - size}
        _update_manifest(folder, {EXPORTS: exports})
    return entry


def _add_tokenizer(folder: Path, tokenizer: TextTokenizer) -> None:
    """Write the encoder's tokenizer to ``onnx/`` for FastEmbed, and its token limit to the model's own settings."""
    limit = {"model_max_length": tokenizer.max_tokens}
    _write_json(
        folder / "onnx" / _TOKENIZER_SETTINGS,
        {**limit, "pad_token": tokenizer.pad_token, "truncation_side": tokenizer.cut_side},
    )
    tokenizer.save(folder / "onnx" / "tokenizer.json")
    own = folder / _TOKENIZER_SETTINGS
    if own.is_file():
        _write_json(own, {**read_object(own), **limit})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _update_manifest(folder: Path, extra: dict[str, Any]) -> None:
    """Replace or add keys of the manifest, and record the files' current hashes."""
    manifest = optional_json(folder / MANIFEST) | extra
    write_manifest(folder, manifest, graph_files(folder, manifest[EXPORTS]))


def _copy_model(subject: Subject, target: Path) -> None:
    """Copy the files of a model and the graphs of its present weights, without checkpoints and other formats."""
    root = subject.model.root
    exports = {key: entry for key, entry in read_exports(root).items() if entry.get("network") == subject.model.graph}
    homes = {root, *(root / name for name in RUNTIMES), *(home for _, home in read_modules(root))}
    files = [path for home in sorted(homes) for pattern in _MODEL_FILES for path in home.glob(pattern)]
    for path in [*files, *graph_files(root, exports)]:
        place = target / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    _update_manifest(target, {EXPORTS: exports})


def _existing(output: Path, subject: Subject) -> Subject:
    """Return the model in ``output``, or ``subject`` if the output is missing or empty.

    The model in the output has the same weights, but may have other limits or prompts.
    """
    if not output.exists() or (output.is_dir() and not _content(output)):
        return subject
    try:
        found = open_subject(output)
        reason = "" if found.model.graph == subject.model.graph else "its weights differ"
    except ModelError as error:
        reason = str(error)
    if reason:
        raise ConfigurationError(f"{output}: exists and does not hold this model ({reason}); choose another folder")
    return found


def _content(output: Path) -> list[Path]:
    """List a folder's files and folders, without the hidden working folders of exports."""
    return [path for path in output.iterdir() if not path.name.startswith(f"{_HIDDEN}.")]


def _move_into_place(made: Path, output: Path) -> None:
    sync_files(made)  # a power cut after the renames must not leave a model without its content
    if not output.is_dir():
        made.replace(output)
        sync_folder(output.parent)
        return
    kept = {path.name for path in graph_files(made, read_exports(made))}
    files = [path for path in made.rglob("*") if path.is_file()]
    if _content(output):
        changed = {made / _TOKENIZER_SETTINGS, made / MANIFEST}
        files = [path for path in files if path in changed or path.parent.name in RUNTIMES]
    # settings first, then weights, so that a half-moved model is refused; the manifest last
    for path in sorted(files, key=lambda path: (path.name == MANIFEST, path.suffix == ".safetensors")):
        place = output / path.relative_to(made)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
    sync_files(output)  # before files of an earlier export are removed
    graphs = (f"{name}/{precision}-????????.*" for name in RUNTIMES for precision in get_args(ExportPrecision))
    for path in chain.from_iterable(map(output.glob, graphs)):
        if path.name not in kept:
            path.unlink()  # removes a graph of an earlier export, which this export replaces


@contextmanager
def _temporary_folder(output: Path) -> Iterator[Path]:
    """Make a temporary folder, and lock the output against other exports. Errors of the disk name the output."""
    busy = f"{output}: another process is exporting into it"
    try:
        exists = output.is_dir()
        home, name = (output, _HIDDEN) if exists else (output.parent, f".{output.name}")
        prefix = f"{name}.export-"
        home.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(home / f"{name}.lock", busy):
            if output.is_dir() != exists:  # another export, with another lock, has made the output meanwhile
                raise ConfigurationError(busy)
            for left_over in home.glob(f"{prefix}*/"):  # left by a killed export
                shutil.rmtree(left_over, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=home, prefix=prefix, ignore_cleanup_errors=True) as folder:
                yield Path(folder)
    except OSError as error:
        raise ConfigurationError(f"{output}: cannot be written: {error.strerror or error}") from error
