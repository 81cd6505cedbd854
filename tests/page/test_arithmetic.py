"""The page's arithmetic, compared with numpy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.slow

PLACES = "async (rows) => rows.map((await import('/page/vectors.js')).principal(rows))"
CALL = "async ([file, name, args]) => (await import(`/page/${file}.js`))[name](...args)"


def test_principal_components_are_those_of_a_singular_value_decomposition(empty_page):
    vectors = np.random.default_rng(0).normal(size=(40, 16)) * np.linspace(3, 0.5, 16)
    places = np.array(
        empty_page.evaluate(
            PLACES,
            vectors.tolist(),
        )
    )
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ axes[:2].T
    assert np.abs(places) == pytest.approx(np.abs(expected), abs=1e-3)
    assert all(column[np.abs(column).argmax()] > 0 for column in places.T)


def test_the_same_vectors_lie_in_one_place(empty_page):
    places = empty_page.evaluate(
        PLACES,
        [[0.6, 0.8]] * 4,
    )
    assert places == [[0, 0]] * 4


def test_clusters_are_those_that_the_vectors_were_made_in(empty_page):
    random = np.random.default_rng(1)
    centres = random.normal(size=(4, 32))
    labels = np.repeat(np.arange(4), (14, 11, 8, 5))
    vectors = centres[labels] + 0.2 * random.normal(size=(len(labels), 32))
    order = random.permutation(len(labels))
    for name, arguments in (("kmeans", [vectors[order].tolist(), 4]), ("clustersOf", [vectors[order].tolist()])):
        found = empty_page.evaluate(CALL, ["vectors", name, arguments])["labels"]
        assert found == labels[order].tolist()  # numbered from the largest down


def test_clusters_are_as_tight_as_those_of_scikit_learn(empty_page):
    cluster = pytest.importorskip("sklearn.cluster")
    vectors = np.random.default_rng(2).normal(size=(60, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = np.array(empty_page.evaluate(CALL, ["vectors", "kmeans", [vectors.tolist(), 5]])["labels"])
    theirs = cluster.KMeans(5, n_init=10, random_state=0).fit(vectors).labels_

    def tightness(labels):
        return sum(np.linalg.norm(vectors[labels == each].sum(axis=0)) for each in set(labels))

    assert len(set(found)) == 5
    assert tightness(found) > 0.97 * tightness(theirs)


def test_marks_count_characters_as_python_does(empty_page):
    text = "A 👩‍🚀 flies to 🌍 and 𝕏, quickly."
    matches = [[text.index(word), text.index(word) + len(word)] for word in ("flies", "quickly")]
    script = """async ([text, matches]) => {
        const nodes = (await import('/page/passage.js')).marked(text, matches);
        return nodes.map((node) => (typeof node === 'string' ? node : [node.textContent]));
    }"""
    nodes = empty_page.evaluate(script, [text, matches])
    assert [node for node in nodes if isinstance(node, list)] == [["flies"], ["quickly"]]
    assert "".join(node if isinstance(node, str) else node[0] for node in nodes) == text


def test_a_passage_is_found_in_the_text_that_was_found(empty_page):
    found = "🌍 page two\n\nThe same line.\n\n🌍 last"
    start = found.index("The same line.")
    hit = {"text": found, "passage": {"text": "The same line.", "start": start, "end": start + 14}}
    document = f"page one\n\nThe same line.\n\n{found}\n\nmore"
    start, end = empty_page.evaluate(CALL, ["document", "placeOf", [hit, document]])
    units = document.encode("utf-16-le")
    assert units[2 * start : 2 * end].decode("utf-16-le") == "The same line."
    assert units[: 2 * start].decode("utf-16-le") == document[: document.rindex("The same line.")]
    changed = document.replace("last", "first")
    assert empty_page.evaluate(CALL, ["document", "placeOf", [hit, changed]]) == [10, 24]
    assert empty_page.evaluate(CALL, ["document", "placeOf", [hit | {"passage": None}, document]]) == [0, 0]


def test_a_hit_shows_the_page_of_its_passage(empty_page):
    hit = {"id": "deck.pdf", "text": "one\ftwo", "score": 1, "scores": {"dense": 1}, "payload": {"page": 1}, "page": 2}
    place = "async (hit) => (await import('/page/hits.js')).hitList([hit]).querySelector('.place').textContent"
    assert empty_page.evaluate(place, hit) == "page 2"


LONG = "This line is long enough that somebody broke it for its width only,"


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        (f"{LONG}\nand goes on here.", True),
        (f"- {LONG}\n  and goes on here.", True),
        ("A short line.\nAnother one.", False),
        (f"{LONG}\n\nA new paragraph.", False),
        (f"{LONG}\n- an item", False),
        (f"{LONG}\n1. an item", False),
        (f"# {LONG}\ntext", False),
        (f"```\n{LONG}\ncode\n```", False),
    ],
)
def test_paragraphs_of_markdown_flow(empty_page, text, joined):
    found = empty_page.evaluate(CALL, ["passage", "readable", [text, {"format": "markdown"}]])
    assert len(found) == len(text)
    assert (found.count("\n") < text.count("\n")) == joined
    assert empty_page.evaluate(CALL, ["passage", "readable", [text, {"format": "text"}]]) == text


@pytest.mark.parametrize(
    ("stage", "scores", "widths"),
    [
        ("fused", [3, 1.5], [100, 50]),
        ("fused", [3, 1, -1], [100, 50, 0]),
        ("fused", [-1, -2, -3], [100, 50, 0]),
        ("fused", [-2], [100]),
        ("sparse", [4, 0], [100, 0]),
        ("sparse", [0, 0], [0, 0]),
        ("dense", [0.5, -0.5], [50, 0]),
    ],
)
def test_bars_end_at_the_best_hit_or_at_1(empty_page, stage, scores, widths):
    drawn = """async (hits) => [...(await import('/page/hits.js')).hitList(hits).querySelectorAll('.bar i')]
        .map((bar) => parseFloat(bar.style.width))"""
    hits = [{"id": "a", "text": "a", "payload": {}, "scores": {stage: score}} for score in scores]
    assert empty_page.evaluate(drawn, hits) == widths


@pytest.mark.parametrize(("share", "shown"), [(0, "0%"), (0.001, "<1%"), (0.5, "50%"), (0.997, "99%"), (1, "100%")])
def test_percents_are_never_rounded_to_all_or_nothing(empty_page, share, shown):
    assert empty_page.evaluate(CALL, ["scores", "percent", [share]]) == shown


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (12.714, "12.71"),
        (0.0, "0.00"),
        (0.00023, "0.0002"),
        (0.00000023, "<0.0001"),
        (-0.004, "-0.0040"),
        (-0.00001, ">-0.0001"),
    ],
)
def test_small_scores_are_never_rounded_to_nothing(empty_page, score, shown):
    assert empty_page.evaluate(CALL, ["scores", "figure", [score]]) == shown


@pytest.mark.parametrize(("cosine", "shown"), [(-0.0001, "0.000"), (-0.25, "-0.250"), (0.99996, "1.000")])
def test_a_cosine_of_nothing_has_no_sign(empty_page, cosine, shown):
    assert empty_page.evaluate(CALL, ["scores", "cosineFigure", [cosine]]) == shown
