"""A model -> a folder that has all of the model and its graph beside it: ``twinvec export``.

The folder is a copy of the model with its tokenizer and settings, the graph below ``openvino/`` or ``onnx/``, and
``twinvec.json`` with the hashes of weights and graph, what the graph was made of, how near it comes to the original,
and the ranges that int8 storage needs. ``Encoder(folder)`` computes with the graph and needs neither torch nor
transformers. Beside an ONNX graph lies the tokenizer as the encoder uses it: ``onnx/`` is a model for FastEmbed too.

All is made in a folder beside its place. A new folder is then moved there in one step. A folder that is there already
may be a mount, into which nothing can be moved from outside: all is made inside it, under a hidden name, and moved file
by file. Where it holds the model the graph goes under a name of its own, and the new manifest, moved last, is what
makes it count; so whenever an export is killed, what was there before stays whole.
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

from twinvec.engines.cpu import sums_bytes_exactly
from twinvec.engines.exports import EXPORTS, export_key, graph_files, read_exports
from twinvec.engines.graph_cache import EXACT
from twinvec.engines.runtimes import RUNTIMES, RuntimeName, files_of
from twinvec.errors import ConfigurationError, EngineError, InputError, ModelError
from twinvec.export.quantization import BOUNDS, import_nncf, quantize
from twinvec.export.subjects import Exportable, open_exportable
from twinvec.models.encoder_spec import read_modules
from twinvec.models.finding import find_model
from twinvec.models.integrity import MANIFEST, optional_json, read_object, sha256, write_manifest
from twinvec.support.checks import check_choice, integer
from twinvec.support.locks import exclusive_lock
from twinvec.text import check_text
from twinvec.tokens.tokenizer import TextTokenizer

ExportPrecision = Literal["float32", "int8"]

LEAST_TEXTS = 32
"""Fewest different texts to calibrate on and to measure with."""

_CALIBRATION = 300
_SAMPLE = 600
_TOKENIZER_SETTINGS = "tokenizer_config.json"
_HIDDEN = ".twinvec"
_MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.md", "LICENSE*")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export made.

    Attributes:
        folder: The model's folder.
        graph: The graph in it.
        engine: "openvino" or "onnx".
        precision: "float32" or "int8".
        passed: Whether ``precision="auto"`` uses it.
        quality: For int8, measured on held-out texts: "cosine_mean", "cosine_worst" (cross-encoders: "correlation") and
            "top10_overlap"; for float32 "difference", the largest on texts of all kinds.
        calibrated_on: How many texts took part in the calibration of int8.
        measured_on: How many did not, and int8 was measured on them.
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
        output: The new folder, or one that holds the same model, which then has this export too.
        engine: What the graph is for.
        precision: Of the graph.
        calibrate: Texts of the kind that will be encoded; int8 needs them. A sample of a few hundred is taken. For an
            encoder the ranges of int8 storage come from them as well, in either precision.
        dims: For ``Encoder(folder, dim=...)``: ranges of vectors that are cut to so many dimensions, too.

    Raises:
        ConfigurationError: int8 or dims without texts, dims that the model does not have, or an output that cannot be
            written or is something else.
        InputError: fewer than ``LEAST_TEXTS`` different texts that are not blank.
        TextError: a text is refused by the input gate.
        MissingExtraError: the engine's package or NNCF is not installed.
        ModelError: the model is not found, damaged or not supported.
        EngineError: the model cannot be converted or quantised, or its float32 graph is not exact.
    """
    check_choice(engine, RuntimeName, "engine")
    check_choice(precision, ExportPrecision, "precision")
    if precision == "int8" and calibrate is None:
        raise ConfigurationError(
            "an int8 export is calibrated on texts of the kind that will be encoded: give some (--calibrate TEXTS)"
        )
    if dims and calibrate is None:
        raise ConfigurationError("the ranges for dims are measured on texts: give some (--calibrate TEXTS)")
    RUNTIMES[engine].load()
    if precision == "int8":
        import_nncf()
    sample = [] if calibrate is None else sample_texts(calibrate)
    subject = open_exportable(find_model(model).path)
    for dim in dims:
        if not 1 <= integer(dim, "dim") <= subject.dim:
            has = f"the model's {subject.dim}" if subject.dim else "nothing, since a cross-encoder has no vectors"
            raise ConfigurationError(f"dim must lie between 1 and {has}, got {dim}")
    output = Path(output).expanduser().resolve()
    with _held(output), _workshop(output) as workshop:
        subject = _in_place(output, subject)
        made = workshop / "model"
        _copy_model(subject, made)
        entry = _add_graph(made, subject, engine, precision, sample)
        if calibrate is not None:
            _update_manifest(made, subject.ranges(made, engine, sample, dims))
        _put_in_place(made, output)
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
    """Up to 600 different texts that are not blank, drawn evenly from all; the same ones every time.

    Raises:
        InputError: there are fewer than ``LEAST_TEXTS``.
        TextError: a text is refused by the input gate.
    """
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
            f"{len(kept)} different texts that are not blank: at least {LEAST_TEXTS} are needed, half to measure on"
        )
    sample = [kept[place] for place in sorted(kept)]
    rng.shuffle(sample)
    return sample


def _calibration_size(sample: list[str]) -> int:
    return min(_CALIBRATION, len(sample) // 2)


def _add_graph(
    folder: Path, subject: Exportable, engine: RuntimeName, precision: ExportPrecision, sample: list[str]
) -> dict[str, Any]:
    """Put the graph into a model's folder; what the manifest says of it."""
    runtime = RUNTIMES[engine]
    exact = subject.graph(engine)
    if not exact.exact:
        raise EngineError(f"{subject.folder}: its graph is not exact: {exact.difference:.2g}, expected at most {EXACT}")
    size, bits = _calibration_size(sample), 8 if sums_bytes_exactly() else 7
    graph = folder / engine / f"made{runtime.suffixes[0]}"
    graph.parent.mkdir(exist_ok=True)
    if precision == "int8":
        quantize(engine, exact.path, subject.calibration(sample[:size]), graph, weight_bits=bits)
    else:
        for path in files_of(exact.path):
            shutil.copyfile(path, graph.with_suffix(path.suffix))
    hashes = "".join(sha256(path) for path in files_of(graph))
    name = f"{precision}-{hashlib.sha256(hashes.encode()).hexdigest()[:8]}"  # one of its own: see the top
    for path in files_of(graph):
        path.replace(path.with_stem(name))
    if engine == "onnx":
        _add_tokenizer(folder, subject.tokenizer)
    entry: dict[str, Any] = {
        "graph": f"{engine}/{name}{runtime.suffixes[0]}",
        "network": subject.digest,
        "made_by": f"{runtime.package} {runtime.version}",
        "passed": precision == "float32",
        "quality": {"difference": exact.difference} if precision == "float32" else {},
        "texts": {"calibrated": 0, "measured": 0},
    }
    key = export_key(engine, precision)
    _add_export(folder, key, entry)  # without its figures, so that it can be measured
    if precision == "int8":
        entry |= {"made_by": f"{entry['made_by']}, nncf {version('nncf')}", "weight_bits": bits}
        entry["quality"] = subject.quality(folder, engine, sample[size:])
        entry["passed"] = all(value >= BOUNDS[name] for name, value in entry["quality"].items())
        entry["texts"] = {"calibrated": size, "measured": len(sample) - size}
        _add_export(folder, key, entry)
    return entry


def _add_tokenizer(folder: Path, tokenizer: TextTokenizer) -> None:
    """For FastEmbed: beside the graph the tokenizer as the encoder uses it, in the model's own the encoder's limit."""
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


def _add_export(folder: Path, key: str, entry: dict[str, Any]) -> None:
    _update_manifest(folder, {EXPORTS: read_exports(folder) | {key: entry}})


def _update_manifest(folder: Path, extra: dict[str, Any]) -> None:
    """Replace or add keys; the hashes are those of the files as they are."""
    manifest = optional_json(folder / MANIFEST) | extra
    write_manifest(folder, manifest, graph_files(folder, manifest[EXPORTS]))


def _copy_model(subject: Exportable, target: Path) -> None:
    """What a model needs, with its exports: no checkpoints, other formats or exports of other weights or settings."""
    root = subject.root
    exports = {key: entry for key, entry in read_exports(root).items() if entry.get("network") == subject.digest}
    homes = {root, *(root / name for name in RUNTIMES), *(home for _, home in read_modules(root))}
    files = [path for home in sorted(homes) for pattern in _MODEL_FILES for path in home.glob(pattern)]
    for path in [*files, *graph_files(root, exports)]:
        place = target / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    _update_manifest(target, {EXPORTS: exports})


def _in_place(output: Path, subject: Exportable) -> Exportable:
    """The model as the output has it, with a limit or prompts of its own maybe; the subject where there is none yet."""
    if not output.exists() or (output.is_dir() and not _content(output)):
        return subject
    try:
        found = open_exportable(find_model(output).path)
        reason = "" if found.digest == subject.digest else "its weights are others"
    except ModelError as error:
        reason = str(error)
    if reason:
        raise ConfigurationError(f"{output}: is there and does not hold this model ({reason}); choose another folder")
    return found


def _content(output: Path) -> list[Path]:
    """What lies in a folder, without what exports hide there."""
    return [path for path in output.iterdir() if not path.name.startswith(f"{_HIDDEN}.")]


def _put_in_place(made: Path, output: Path) -> None:
    if not output.is_dir():
        made.replace(output)
        return
    kept = {path.name for path in graph_files(made, read_exports(made))}
    files = [path for path in made.rglob("*") if path.is_file()]
    if _content(output):
        changed = {made / _TOKENIZER_SETTINGS, made / MANIFEST}
        files = [path for path in files if path in changed or path.parent.name in RUNTIMES]
    for path in sorted(files, key=_turn):
        place = output / path.relative_to(made)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
    graphs = (f"{name}/{precision}-????????.*" for name in RUNTIMES for precision in get_args(ExportPrecision))
    for path in chain.from_iterable(map(output.glob, graphs)):
        if path.name not in kept:
            path.unlink()  # of an earlier export, which this one replaces


def _turn(path: Path) -> int:
    """When a file is moved: weights after all that says how they are used, so that half a model is refused."""
    return 2 if path.name == MANIFEST else int(path.suffix == ".safetensors")


def _beside(output: Path) -> tuple[Path, str]:
    """Where an export keeps its lock and what it makes, and how their names begin; see the top."""
    return (output, _HIDDEN) if output.is_dir() else (output.parent, f".{output.name}")


@contextmanager
def _held(output: Path) -> Iterator[None]:
    """Keep other exports out, and name the output where it cannot be written."""
    home, name = _beside(output)
    busy = f"{output}: another process is exporting into it"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(home / f"{name}.lock", busy):
            if _beside(output)[0] != home:  # made meanwhile, so the lock is another now
                raise ConfigurationError(busy)
            yield
    except OSError as error:
        raise ConfigurationError(f"{output}: cannot be written: {error.strerror or error}") from error


@contextmanager
def _workshop(output: Path) -> Iterator[Path]:
    """A folder to make things in. What a killed export left of its own goes first."""
    home, name = _beside(output)
    prefix = f"{name}.export-"
    for left_over in home.glob(f"{prefix}*/"):
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
