"""mteb runs an encoder, on tasks made of local data, and comes to the figures that are ours."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from twinvec import Encoder
from twinvec.errors import InputError
from twinvec.evaluation.beir import load_beir
from twinvec.evaluation.ir import evaluate_ir
from twinvec.evaluation.sts import evaluate_sts, load_sts
from twinvec.installation import install_line

mteb = pytest.importorskip("mteb")

from datasets import Dataset, DatasetDict  # noqa: E402
from mteb.abstasks import AbsTaskRetrieval, AbsTaskSTS  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.models.models_protocols import EncoderProtocol  # noqa: E402
from mteb.types import PromptType  # noqa: E402

from twinvec.evaluation.mteb import MtebEncoder  # noqa: E402

ROWS = [
    (5.0, "A cat sleeps on the sofa.", "The cat is asleep on a couch."),
    (3.0, "A cat sleeps on the sofa.", "A dog sleeps on the floor."),
    (1.0, "A dog sleeps on the floor.", "Two men play chess."),
    (4.0, "Shares lost value.", "The stock market fell."),
    (0.0, "Shares lost value.", "Two men play chess."),
]


def described(name, kind, score):
    return TaskMetadata(
        name=name,
        type=kind,
        main_score=score,
        description="Made of local data.",
        reference=None,
        dataset={"path": "local", "revision": "1"},
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        date=("2026-01-01", "2026-01-01"),
        domains=[],
        task_subtypes=[],
        license="cc-by-4.0",
        annotations_creators="derived",
        modalities=["text"],
        dialect=[],
        sample_creation="created",
        bibtex_citation="",
    )


class LocalSts(AbsTaskSTS):
    metadata = described("LocalSts", "STS", "cosine_spearman")
    min_score, max_score = 0, 5

    def load_data(self, **options):
        gold, first, second = zip(*ROWS, strict=True)
        rows = {"score": gold, "sentence1": first, "sentence2": second}
        self.dataset = DatasetDict({"test": Dataset.from_dict(rows)})
        self.data_loaded = True


class LocalRetrieval(AbsTaskRetrieval):
    metadata = described("LocalRetrieval", "Retrieval", "ndcg_at_10")

    def load_data(self, **options):
        documents = [{"id": each.id, "title": each.title, "text": each.text} for each in self.judged.documents]
        queries = [{"id": query, "text": text} for query, text in self.judged.queries.items()]
        split = {
            "corpus": Dataset.from_list(documents),
            "queries": Dataset.from_list(queries),
            "relevant_docs": self.judged.qrels,
            "top_ranked": None,
        }
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True


def scores(model, task):
    (found,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False).task_results
    return found.scores["test"][0]


@pytest.fixture(scope="module")
def model(encoder):
    return MtebEncoder(encoder)


def test_the_protocol_is_mtebs(model, encoder):
    assert isinstance(model, EncoderProtocol)
    meta = model.mteb_model_meta
    assert (meta.name, meta.revision) == ("sentence-transformers/all-MiniLM-L6-v2", encoder.space)
    assert (meta.embed_dim, meta.max_tokens) == (384, 256)


def test_sts(model, encoder, write):
    lines = ["score\tsentence1\tsentence2", *("\t".join(map(str, row)) for row in ROWS)]
    ours = evaluate_sts(encoder, load_sts(write("s.tsv", "\n".join(lines) + "\n")), resamples=20).figures
    theirs = scores(model, LocalSts())
    assert 0 < ours["spearman"] < 100
    assert 100 * theirs["cosine_spearman"] == pytest.approx(ours["spearman"])
    assert 100 * theirs["cosine_pearson"] == pytest.approx(ours["pearson"], abs=1e-3)


def test_retrieval_with_graded_judgements(model, encoder, beir):
    task = LocalRetrieval()
    task.judged = load_beir(beir)
    ours = evaluate_ir(encoder, task.judged, measures=["ndcg@10", "recall@1"], resamples=20).figures
    theirs = scores(model, task)
    assert 100 * theirs["ndcg_at_10"] == pytest.approx(ours["ndcg@10"], abs=1e-2)  # mteb rounds to 5 places
    assert 100 * theirs["recall_at_1"] == pytest.approx(ours["recall@1"], abs=1e-2)
    assert 0 < ours["recall@1"] < 100


def test_prompts_are_those_of_the_side_and_of_the_task(tiny_model):
    prompts = {"query": "ask: ", "document": "read: ", "STS": "compare: ", "Mine-query": "mine: "}
    encoder = Encoder(tiny_model("bert"), prompts=prompts)
    model = MtebEncoder(encoder)
    assert model.mteb_model_meta.name.startswith("local/")
    assert model.mteb_model_meta.use_instructions

    def encoded(name, kind, side):
        task = SimpleNamespace(name=name, type=kind)
        return model.encode(
            [{"text": ["a"]}, {"text": ["b"]}], task_metadata=task, hf_split="", hf_subset="", prompt_type=side
        )

    for name, kind, side, prefix in (
        ("Other", "Retrieval", PromptType.query, "ask: "),
        ("Other", "Retrieval", PromptType.document, "read: "),
        ("Mine", "Retrieval", PromptType.query, "mine: "),
        ("Other", "STS", None, "compare: "),
        ("Other", "Clustering", None, ""),
    ):
        expected = encoder.encode([f"{prefix}a", f"{prefix}b"], prompt="")
        np.testing.assert_allclose(encoded(name, kind, side), expected, atol=1e-5)


def test_other_kinds_of_data_are_refused(model):
    with pytest.raises(InputError, match="Pictures: its batches hold image; expected 'text'"):
        model.encode([{"image": [1]}], task_metadata=SimpleNamespace(name="Pictures"), hf_split="", hf_subset="")


def test_without_mteb_the_install_command_is_told():
    program = "import sys; sys.modules['mteb'] = None\nimport twinvec.evaluation.mteb"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "MissingExtraError" in done.stderr
    assert install_line("twinvec", "mteb") in done.stderr
