"""The demonstrations on real models: what they show is what the library computes."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from twinvec import Encoder
from twinvec.evaluation.bias import WinogenderSet, evaluate_winogender

pytestmark = pytest.mark.slow

TRAVEL = [
    "The bus to the airport is late.",
    "The train to the airport was cancelled.",
    "The train stops at every station.",
]
FOOD = ["Bake the bread for an hour.", "Onions are browned in butter.", "Salt the soup at the end."]


def lines(values):
    return "\n".join(values)


def shown(page, part, selector):
    page.click(f"#panel-{part} button.main")
    expect(page.locator(f"#{part}-outcome .results")).to_be_visible()
    expect(page.locator(f"#{part}-outcome")).not_to_have_attribute("aria-busy", "true")
    return page.locator(f"#{part}-outcome {selector}")


def test_similarity_of_a_text_with_others(visit, server, encoder):
    page = visit(server, "similarity")
    page.fill("#panel-similarity [name=text]", TRAVEL[0])
    page.fill("#panel-similarity [name=others]", lines([*FOOD, "", *TRAVEL[1:]]))
    rows = shown(page, "similarity", "li")
    others = [*FOOD, *TRAVEL[1:]]
    scores = encoder.encode_document(others) @ encoder.encode_document(TRAVEL[0])
    order = np.argsort(-scores)
    assert rows.locator(".bar-name").all_inner_texts() == [others[at] for at in order]
    assert rows.locator(".bar-value").all_inner_texts() == [f"{scores[at]:.3f}" for at in order]
    assert set(order[:2]) == {3, 4}
    widths = [row.bounding_box()["width"] for row in rows.locator(".bar i").all()]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1]


def test_similarity_with_another_model(visit, server, prompted_model):
    page = visit(server, "similarity")
    page.fill("#panel-similarity [name=others]", lines(FOOD))
    page.select_option("#panel-similarity [name=model]", "prompted")
    text = page.input_value("#panel-similarity [name=text]")
    rows = shown(page, "similarity", "li .bar-value")
    model = Encoder(str(prompted_model))
    scores = np.sort(model.encode_document(FOOD) @ model.encode_document(text))[::-1]
    assert rows.all_inner_texts() == [f"{score:.3f}" for score in scores]


def test_an_answer_is_found_by_its_question(visit, server):
    page = visit(server, "answers")
    rows = shown(page, "answers", "li")
    assert "30 days" in rows.first.inner_text()
    assert "in the same way" in page.inner_text("#answers-outcome .summary")
    page.select_option("#answers-rerank", "maxsim")
    reranked = shown(page, "answers", "li")
    expect(reranked.first).to_contain_text("relevance (maxsim)")
    assert "30 days" in reranked.first.inner_text()


def test_questions_are_encoded_as_queries_and_passages_as_documents(visit, server, prompted_model):
    page = visit(server, "answers")
    page.select_option("#panel-answers [name=model]", "prompted")
    page.fill("#panel-answers [name=question]", "When is the bread done?")
    page.fill("#panel-answers [name=passages]", "\n\n".join(FOOD))
    rows = shown(page, "answers", "li")
    model = Encoder(str(prompted_model))
    query = model.encode_query("When is the bread done?")
    scores = model.encode_document(FOOD) @ query
    assert rows.locator(".bar-value").all_inner_texts() == [f"{score:.3f}" for score in np.sort(scores)[::-1]]
    same = float(model.encode_document("When is the bread done?") @ query)
    assert same < 0.999
    assert f"{same:.3f}" in page.inner_text("#answers-outcome .summary")


def test_a_map_shows_clusters_of_similar_sentences(visit, server):
    page = visit(server, "map")
    page.fill(
        "#panel-map [name=sentences]", lines([value for pair in zip(TRAVEL, FOOD, strict=True) for value in pair])
    )
    page.fill("#panel-map [name=query]", "how to cook")
    page.select_option("#map-clusters", "2")
    clusters = shown(page, "map", ".clusters section")
    found = [set(section.locator("button").all_inner_texts()) for section in clusters.all()]
    assert sorted(map(sorted, found)) == sorted([sorted(TRAVEL), sorted(FOOD)])
    assert page.locator(".point").count() == 6
    assert page.locator(".asked").count() == 1
    assert set(page.locator(".nearest .bar-name").all_inner_texts()[:3]) == set(FOOD)
    page.locator(".point").first.hover()
    expect(page.locator(".sentence.lit")).to_have_count(1)
    expect(page.locator(".map .tip")).to_have_text(page.locator(".sentence.lit").inner_text())


def test_a_map_finds_the_number_of_clusters(visit, server):
    page = visit(server, "map")
    assert shown(page, "map", ".clusters section").count() > 2
    page.fill("#panel-map [name=sentences]", lines([*TRAVEL, *FOOD]))
    page.fill("#panel-map [name=query]", "")
    assert shown(page, "map", ".clusters section").count() == 2
    assert page.locator(".nearest, .asked").count() == 0


def test_bias_is_the_lean_that_the_library_measures(visit, server, encoder):
    page = visit(server, "bias")
    occupations = ["nurse", "engineer", "plumber", "receptionist"]
    page.fill("#panel-bias [name=occupations]", lines(occupations))
    rows = shown(page, "bias", ".leans li")
    pronouns = {"neutral": "they", "female": "she", "male": "he"}
    sentences = [
        (each, {kind: f"The {each} said that {pronoun} would arrive soon." for kind, pronoun in pronouns.items()})
        for each in occupations
    ]
    data = WinogenderSet(sentences, dict(zip(occupations, (90.0, 10.0, 5.0, 95.0), strict=True)))
    leans = {each.occupation: each.lean for each in evaluate_winogender(encoder, data, resamples=10).occupations}
    order = sorted(leans, key=leans.get, reverse=True)
    assert rows.locator(".bar-name").all_inner_texts() == order
    values = [
        float(each.replace("−", "-"))
        for each in rows.locator("[aria-hidden].bar-value, .bar-value [aria-hidden]").all_inner_texts()
    ]
    assert values == pytest.approx([leans[each] for each in order], abs=0.006)
    assert leans["nurse"] > leans["engineer"]
    page.check("#panel-bias [name=centre]")
    rows = shown(page, "bias", ".leans li")
    expect(rows.first.locator(".to-right")).to_have_count(1)
    values = [float(each.replace("−", "-")) for each in rows.locator(".bar-value [aria-hidden]").all_inner_texts()]
    assert sum(values) == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize(
    ("part", "field", "value", "told"),
    [
        ("similarity", "others", " \n ", "at least one other"),
        ("answers", "question", " ", "Give a question"),
        ("map", "sentences", "one\none", "at least three"),
        ("bias", "sentence", "The {occupation} is late.", "needs {occupation} and {pronoun}"),
    ],
)
def test_a_demonstration_says_what_it_lacks(visit, server, part, field, value, told):
    page = visit(server, part)
    page.fill(f"#panel-{part} [name={field}]", value)
    page.click(f"#panel-{part} button.main")
    expect(page.locator(f"#{part}-outcome [role=alert]")).to_contain_text(told)
    assert page.get_by_role("button", name="Try again").count() == 0  # the same again would be no better


def test_texts_that_the_model_does_not_read_to_their_end_are_counted(visit, server):
    page = visit(server, "similarity")
    page.fill("#panel-similarity [name=others]", lines([*FOOD, "train " * 2000]))
    shown(page, "similarity", "li")
    expect(page.locator("#similarity-outcome .warning")).to_contain_text("1 text is longer than the model reads")
    assert page.locator("#similarity-outcome li").first.bounding_box()["height"] < 160
    page.fill("#panel-similarity [name=others]", lines(FOOD))
    expect(shown(page, "similarity", "li")).to_have_count(3)
    expect(page.locator("#similarity-outcome .warning")).to_have_count(0)


def test_many_texts_show_how_far_they_are(visit, server):
    page = visit(server, "similarity")
    held = []
    page.route("**/v1/embeddings", lambda route: route.continue_() if not held else held.append(route))
    page.on("response", lambda answer: held.append(None) if answer.url.endswith("/v1/embeddings") else None)
    page.fill("#panel-similarity [name=others]", lines(f"Text {number}." for number in range(70)))
    page.click("#panel-similarity button.main")
    expect(page.locator("#similarity-outcome .told")).to_have_text("Comparing: 64 of 71 texts")


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_text_of_a_point_stays_within_the_map(visit, server, width):
    page = visit(server, "map", viewport={"width": width, "height": 900})
    points = shown(page, "map", ".point")
    drawing = page.locator(".map").bounding_box()
    sentences = page.locator(".sentence")
    assert points.count() == sentences.count() > 10
    for sentence in sentences.all():
        sentence.focus()
        tip = page.locator(".map .tip").evaluate(
            "(each) => [each.getBBox().x, each.getBBox().width, each.ownerSVGElement.viewBox.baseVal.width]"
        )
        assert tip[0] >= 0, sentence.inner_text()
        assert tip[0] + tip[1] <= tip[2], sentence.inner_text()
    assert drawing["width"] <= width
