"""Build the documentation's site: collect the pages, write the reference, run Zensical, check what it made.

    python tools/docs.py          # build/site/index.html

The reference has one page for each subject below. Its text comes from docstrings (through mkdocstrings) and from the
parameters of the commands, so it cannot drift from the code. Everything happens offline.
"""

from __future__ import annotations

import html
import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc, isclass, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
COPIED = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs", "benchmarks", "examples")


@dataclass(frozen=True)
class Subject:
    """A page of the reference: title, introduction, and module -> names; ``*`` is what else the module makes public."""

    title: str
    intro: str
    names: dict[str, str]


SUBJECTS = {
    "twinvec": Subject(
        "twinvec", "The names of the package itself.", {"twinvec": "Encoder RetrieveRerank MemoryIndex *"}
    ),
    "retrieval": Subject(
        "Retrieval and similarity",
        "The protocols of retrieval, the search that `twinvec tune` chose, and similarity over arrays of vectors.",
        {
            "twinvec.retrieval": "Mode Passage Reranker SpaceEncoder",
            "twinvec.retrieval.tuned_search": "TunedSearch Setting",
            "twinvec.similarity": "semantic_search most_similar_pairs cluster medoids",
        },
    ),
    "objectives": Subject(
        "Objectives",
        "Pure functions of tensors. Each docstring has the formula and the paper.",
        {"twinvec.training.objectives": "info_nce * CONCATENATIONS"},
    ),
    "training": Subject(
        "Training",
        "What `twinvec train` and `twinvec mine` do, from Python, and every field of a configuration.",
        {
            "twinvec.training.run.train": "train",
            "twinvec.training.run.model_card": "TrainReport",
            "twinvec.training.run.config": "check_config read_config TrainConfig",
            "twinvec.training.settings": "InfoNCE Triplet Contrastive Regression Softmax Binary Graded "
            "Source Batches Schedule Evaluation Lora",
            "twinvec.training.run.softmax_head": "PairClassifier",
            "twinvec.training.mining": "mine_negatives mine_file MiningOptions MiningReport",
        },
    ),
    "evaluation": Subject(
        "Evaluation",
        "What `twinvec evaluate`, `compare` and `tune` measure, from Python.",
        {
            "twinvec.evaluation.sts": "StsSet StsResult load_sts evaluate_sts compare_sts",
            "twinvec.correlation": "pair_similarities spearman pearson",
            "twinvec.evaluation.beir": "BeirSet load_beir",
            "twinvec.evaluation.ir": "IrResult evaluate_ir evaluate_retriever measure_ir search_all as_run compare_ir",
            "twinvec.evaluation.reranking": "Reranked evaluate_stages",
            "twinvec.evaluation.serving": "StorageVariant evaluate_collection evaluate_indexes evaluate_forms",
            "twinvec.evaluation.pairs": "load_labelled_pairs load_triplets load_questions "
            "evaluate_pairs evaluate_triplets",
            "twinvec.evaluation.nli": "NliSet NliResult load_nli evaluate_nli",
            "twinvec.evaluation.bias": "load_winogender evaluate_winogender load_winobias evaluate_winobias",
            "twinvec.evaluation.statistics": "Interval PairedTest",
            "twinvec.evaluation.tuning": "Tuning tune tune_by_documents",
            "twinvec.evaluation.mteb": "MtebEncoder",
        },
    ),
    "export": Subject(
        "Export",
        "What `twinvec export` does, from Python.",
        {
            "twinvec.export": "export_model ExportReport BOUNDS",
            "twinvec.models": "find_model",
        },
    ),
    "errors": Subject("Errors", "Every error of twinvec belongs to one tree.", {"twinvec.errors": "*"}),
    "twinvec_qdrant": Subject(
        "twinvec_qdrant",
        "Collections in Qdrant.",
        {
            "twinvec_qdrant": "Collection "
            "IngestReport Failure Empty VerifyReport IndexReport MigrationReport PushReport "
            "Root RecordColumns read_source ChunkSettings IndexSettings ClusterSettings Chunker Chunk StoredChunk "
            "update_collection UpdateReport FileMemory list_collections CollectionEntry DocumentEntry drop_collection "
            "CollectionGoneError UnindexedError search_collections CollectionHits CollectionHit "
            "backup_collection restore_collection Backup adopt_collection AdoptReport "
            "write_questions QuestionOptions QuestionReport ChatEndpoint"
        },
    ),
    "twinvec_qdrant_shared": Subject(
        "Shared parts of twinvec_qdrant",
        "What the commands, the adapters for frameworks, `twinvec_serve` and `twinvec_ray` share. To use collections, "
        "you need none of it.",
        {
            "twinvec_qdrant": "Asked Answer FoundHit Passages "
            "search_as_asked reindex_as_asked joined_answers best_first "
            "stored_documents delete_documents open_with_one_of check_new_name key_from_environment "
            "ReceivedBackup TemporaryBackup DEFAULT_PATH ServingProcess serving_process Announcement Writer "
            "open_whole_documents ingest_all stored_ids with_documents filtered understood_filter all_of NOTHING "
            "metadata_key payload_key payload_index_types exact_search joined_options takes_foreign refuse_foreign "
            "text_id text_ids query_space vector_space SAME_VECTOR_COSINE "
            "Helpers HelperCall Part PartReport RootElsewhere read_line written_line"
        },
    ),
    "langchain_twinvec": Subject("langchain_twinvec", "The interfaces of LangChain.", {"langchain_twinvec": "*"}),
    "llama_index": Subject(
        "LlamaIndex",
        "The interfaces of LlamaIndex.",
        {
            "llama_index.embeddings.twinvec": "*",
            "llama_index.vector_stores.twinvec": "*",
            "llama_index.retrievers.twinvec": "*",
            "llama_index.postprocessor.twinvec_rerank": "*",
        },
    ),
    "twinvec_serve": Subject("twinvec_serve", "One process for everybody.", {"twinvec_serve": "*"}),
    "twinvec_ray": Subject("twinvec_ray", "Work on a Ray cluster.", {"twinvec_ray": "*"}),
}
"""Name of a page -> its subject."""


def main() -> None:
    collect()
    for name, text in {**reference_pages(), "commands": commands_page()}.items():
        page = SOURCE / "docs" / "reference" / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    if done.returncode or "griffe: " in done.stdout:  # griffe warns of docstrings that do not fit their signatures
        sys.exit("the site has faults: see above")
    faults = [fault for page in sorted(SITE.rglob("*.html")) for fault in faults_of(page)]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{SITE.relative_to(ROOT)}/index.html")


def collect() -> None:
    """Copy what the site is made of, with the paths of the repository."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, SOURCE / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, SOURCE / name)


def reference_pages() -> dict[str, str]:
    """Name of a page -> its Markdown, for every subject."""
    return {page: _reference_page(subject) for page, subject in SUBJECTS.items()}


def documented_names() -> set[str]:
    """The dotted names that the reference documents."""
    return {name for subject in SUBJECTS.values() for name in names_of(subject)}


def _reference_page(subject: Subject) -> str:
    parts = [f"# {subject.title}", subject.intro]
    for name in names_of(subject):
        home, _, short = name.rpartition(".")
        value = getattr(importlib.import_module(home), short)
        defined = f"{value.__module__}.{value.__qualname__}" if isclass(value) or isfunction(value) else name
        options = [f"heading: {name}", f"toc_label: {short}"]
        if hasattr(value, "model_fields"):  # of a configuration every field counts, also one that explains itself
            options.append("show_if_no_docstring: true")
        if isclass(value) and hasattr(value, "open"):  # nobody else calls its constructor
            options.append("merge_init_into_class: false")
        parts += [f"::: {defined}\n    options:\n      " + "\n      ".join(options)]
    return "\n\n".join(parts) + "\n"


def names_of(subject: Subject) -> Iterator[str]:
    """The dotted names on a page of the reference, in their order."""
    for path, spelled in subject.names.items():
        names = spelled.split()
        for name in names:
            if name == "*":
                module = importlib.import_module(path)
                public = getattr(module, "__all__", None) or _defined_in(module)
                yield from (f"{path}.{each}" for each in public if each not in names and not each.startswith("_"))
            else:
                yield f"{path}.{name}"


def _defined_in(module: ModuleType) -> list[str]:
    """The public classes and functions that a module defines itself, in their order."""
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return [name for name in own if isclass(getattr(module, name)) or isfunction(getattr(module, name))]


def commands_page() -> str:
    """The commands, with their arguments and options, as Markdown."""
    from typer.main import get_command

    from twinvec.cli.app import build_app

    group: Any = get_command(build_app())
    parts = ["# Commands", "Each command of `twinvec`, as `twinvec COMMAND --help` shows it."]
    panels: dict[str, list[str]] = {}
    for name, command in group.commands.items():
        panels.setdefault(command.rich_help_panel, []).extend(_command(name, command))
    for panel, commands in panels.items():
        parts += [f"## {panel}", *commands]
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    import typer

    yield f"### twinvec {name} {{ #twinvec-{name} }}"
    for paragraph in cleandoc(command.help).split("\n\n"):
        first, *others = [line.strip(" ") for line in paragraph.splitlines()]
        if first == "\b":  # typer keeps the lines of such a paragraph: they are examples
            yield "```sh\n" + "\n".join(others) + "\n```"
        else:
            yield _escaped(" ".join([first, *others]))
    context = typer.Context(command, info_name=name)
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    rows = [f"| {_escaped(spelled)} | {_escaped(told)} |" for spelled, told in filter(None, records)]
    yield "\n".join(["| parameter | meaning |", "|---|---|", *rows])


def _escaped(text: str) -> str:
    return re.sub(r"([*_|\[\]`])", r"\\\1", html.escape(text, quote=False))


_REMOTE = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?https?:|<link\b(?![^>]*\bcanonical)[^>]*\bhref=["']?https?:"""
)
_UNRESOLVED = re.compile(r"\[[^\]\n]*</code>\]\[|^:::", re.MULTILINE)


def faults_of(page: Path) -> Iterator[str]:
    """What is wrong with a page of the site: it loads something from another server, or a reference stayed text."""
    text = page.read_text(encoding="utf-8")
    for pattern, told in ((_REMOTE, "loads from another server"), (_UNRESOLVED, "has an unresolved reference")):
        for found in pattern.finditer(text):
            yield f"{page.relative_to(SITE)} {told}: {text[found.start() : found.start() + 120]!r}"


if __name__ == "__main__":
    main()
