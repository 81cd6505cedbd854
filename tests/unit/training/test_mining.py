"""Hard negatives: by rank, by margin, denied by a cross-encoder, and a run that goes on where it was cut off."""

from __future__ import annotations

import json

import pytest

from twinvec import CrossEncoderReranker, Encoder, Hit, MemoryIndex
from twinvec.errors import ConfigurationError, InputError
from twinvec.training.dense_index import DenseIndex
from twinvec.training.mining import Judged, MiningOptions, mine_file, mine_negatives, read_pairs

PAIRS = [
    ("how do I list files", "ls lists files"),
    ("how do I list files", "LS  lists  files"),
    ("how do I list files", "find lists files in all folders"),
    ("how do I copy files", "cp copies files"),
    ("how do I remove files", "rm removes files"),
    ("what is the weather", "rain is expected in the north"),
    ("rm removes files", "what rm does"),
]


class Fixed:
    """A retriever that finds the same texts for every query; scores fall by 0.1 from 1."""

    def __init__(self, *texts):
        self.texts = texts
        self.asked = []

    def search(self, query, limit=10, filter=None):
        self.asked.append(query)
        return [Hit(str(n), text, 1 - n / 10) for n, text in enumerate(self.texts)][:limit]


def mined(pairs, retriever, **options):
    return list(mine_negatives(pairs, retriever, Judged(PAIRS), MiningOptions(**options)))


def test_positives_of_any_pair_and_the_anchor_itself_are_no_negatives():
    found = Fixed("ls  LISTS files", "cp copies files", "find lists files in all folders", "How do I list files", "x")
    assert mined(PAIRS[:1], found) == [["cp copies files", "x"]]


def test_ranks_count_after_the_positives_are_taken_out():
    found = Fixed("ls lists files", "a", "b", "find lists files in all folders", "c", "d", "e")
    assert mined(PAIRS[:1], found, first_rank=2, last_rank=4) == [["b", "c", "d"]]
    assert mined(PAIRS[:1], found, first_rank=2, last_rank=4, negatives=1) == [["b"]]


def test_the_same_text_is_taken_once():
    assert mined(PAIRS[:1], Fixed("a", "b", "a")) == [["a", "b"]]


def test_a_margin_below_the_positive():
    found = Fixed("a", "ls lists files", "b", "c", "d")  # 1.0, 0.9, 0.8, 0.7, 0.6
    assert mined(PAIRS[:1], found, margin=0.15) == [["c", "d"]]
    assert mined(PAIRS[:1], found, margin=-0.2) == [["a", "b", "c", "d"]]
    assert mined(PAIRS[:1], Fixed("a", "b"), margin=0.1) == [[]], "its positive is not among the hits"


def test_each_anchor_is_searched_once():
    found = Fixed("a")
    assert len(mined(PAIRS, found)) == len(PAIRS)
    assert sorted(found.asked) == sorted({anchor for anchor, _ in PAIRS})


def test_a_cross_encoder_strikes_out_what_it_believes(tiny_cross_encoder):
    scorer = CrossEncoderReranker(tiny_cross_encoder("bert"))
    texts = ["cp copies files", "rm removes files", "rain is expected in the north"]
    scores = scorer.score([(PAIRS[0][0], text) for text in texts]).tolist()
    limit = sorted(scores)[1]
    kept = [text for text, score in zip(texts, scores, strict=True) if score <= limit]
    options = MiningOptions(denoise_above=limit)
    assert list(mine_negatives(PAIRS[:1], Fixed(*texts), Judged(PAIRS), options, scorer=scorer)) == [kept]
    assert 0 < len(kept) < 3


def test_a_memory_index_will_do(tiny_model):
    index = MemoryIndex(Encoder(tiny_model("bert")), [positive for _, positive in PAIRS])
    [texts] = mined(PAIRS[3:4], index, last_rank=3)
    assert len(texts) == 3
    assert "cp copies files" not in texts


@pytest.mark.parametrize("options", [{"negatives": 0}, {"first_rank": 0}, {"first_rank": 5, "last_rank": 4}])
def test_options_without_meaning_are_refused(options):
    with pytest.raises(ConfigurationError, match="first_rank <= last_rank"):
        MiningOptions(**options)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"anchor": a, "positive": p, "more": 1}) + "\n" for a, p in PAIRS))
    return path


def test_rows_are_written_with_their_negatives(source, tmp_path):
    report = mine_file(source, tmp_path / "rows.jsonl", Fixed("cp copies files", "x"), MiningOptions())
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["anchor"], row["positive"]) for row in rows] == PAIRS
    assert rows[0]["negatives"] == ["cp copies files", "x"]
    assert rows[3]["negatives"] == ["x"]
    assert (report.rows, report.negatives, report.without) == (7, 13, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.jsonl", "rows.jsonl"]


class Dying(Fixed):
    """Fails at a query."""

    def search(self, query, limit=10, filter=None):
        if query == PAIRS[-1][0]:
            raise RuntimeError("the store is gone")
        return super().search(query, limit, filter)


@pytest.mark.parametrize("torn", [b"", b'{"anchor": "half a li'])
def test_a_run_that_was_cut_off_goes_on(source, tmp_path, monkeypatch, torn):
    monkeypatch.setattr("twinvec.training.mining._WINDOW", 2)
    with pytest.raises(RuntimeError):
        mine_file(source, tmp_path / "rows.jsonl", Dying("x"), MiningOptions())
    assert not (tmp_path / "rows.jsonl").exists()
    with (tmp_path / "rows.jsonl.partial").open("ab") as file:
        file.write(torn)
    again = Fixed("x")
    report = mine_file(source, tmp_path / "rows.jsonl", again, MiningOptions())
    assert report.rows == 7
    assert again.asked == [PAIRS[-1][0]]
    whole = mine_file(source, tmp_path / "whole.jsonl", Fixed("x"), MiningOptions())
    assert whole == report
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_the_rest_of_another_job_is_refused(source, tmp_path):
    with pytest.raises(RuntimeError):
        mine_file(source, tmp_path / "rows.jsonl", Dying("x"), MiningOptions())
    with pytest.raises(ConfigurationError, match="belongs to other pairs or options"):
        mine_file(source, tmp_path / "rows.jsonl", Fixed("x"), MiningOptions(negatives=1))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1]", "field 'anchor': expected a text"),
        (b'{"anchor": "a"}', "field 'positive': expected a text, got None"),
        (b'{"anchor": "a", "positive": " "}', "field 'positive': expected a text"),
        (b'{"anchor": "a", "positive": "\\ud800"}', "field 'positive': lone surrogate"),
        (b'{"anchor": "a", "pos', "no valid JSON"),
        (b'{"anchor": "a\xff", "positive": "b"}', "no valid JSON"),
    ],
)
def test_a_line_that_is_no_pair_is_named(tmp_path, line, message):
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(b'{"anchor": "a", "positive": "b"}\n' + line + b"\n")
    with pytest.raises(InputError, match=r"pairs\.jsonl, row 2.*" + message):
        list(read_pairs(path))


def test_the_dense_index_is_exact_whatever_its_blocks(source, tmp_path, tiny_model, monkeypatch):
    encoder = Encoder(tiny_model("bert", normalize=False))
    exact = MemoryIndex(encoder, list(dict.fromkeys(p for _, p in PAIRS if not p.startswith("LS"))))
    anchors = list(dict.fromkeys(anchor for anchor, _ in PAIRS))
    for block in (1, 2, 100):
        monkeypatch.setattr("twinvec.training.dense_index._BLOCK", block)
        index = DenseIndex(encoder, source, tmp_path / f"{block}.npy")
        assert len(index) == 6
        for limit in (1, 3, 50):
            found = index.search_many(anchors, limit)
            expected = exact.search_many(anchors, limit, mode="dense")
            for hits, wanted in zip(found, expected, strict=True):
                assert [hit.text for hit in hits] == [hit.text for hit in wanted]
                assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], abs=1e-5)


def test_vectors_that_are_there_are_not_computed_again(source, tmp_path, tiny_model):
    DenseIndex(Encoder(tiny_model("bert")), source, tmp_path / "vectors.npy")
    written = (tmp_path / "vectors.npy").stat().st_mtime_ns
    DenseIndex(Encoder(tiny_model("bert")), source, tmp_path / "vectors.npy")
    assert (tmp_path / "vectors.npy").stat().st_mtime_ns == written
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".jsonl", ".npy"]


def test_an_empty_file_has_nothing_to_search(tmp_path, tiny_model):
    (tmp_path / "pairs.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match="has no pairs"):
        DenseIndex(Encoder(tiny_model("bert")), tmp_path / "pairs.jsonl", tmp_path / "vectors.npy")
