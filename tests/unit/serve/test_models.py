"""Models by name: what they give, how requests share batches, and what happens when there are too many."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import numpy as np
import pytest

from twinvec import CrossEncoderReranker, Encoder, MaxSimReranker
from twinvec.errors import ConfigurationError, TextError
from twinvec.tokens.tokenizer import TextTokenizer
from twinvec_serve import create_app
from twinvec_serve.errors import Overloaded, RequestError, UnknownModel
from twinvec_serve.models import batching
from twinvec_serve.models.embedding import CountingEncoder, EmbeddingModel
from twinvec_serve.models.reranking import RerankingModel
from twinvec_serve.models.served_models import ServedModels
from twinvec_serve.models.waiting_room import WaitingRoom
from twinvec_serve.observing.metrics import Metrics
from twinvec_serve.settings import ServeSettings
from unit.serve.waiting import until

TEXTS = ["How do I compare two files?", "Two men walked on the moon.", "", "İstanbul and 日本語"]


class Batch(Metrics):
    """Metrics that remember the batches, the depth of the queue and the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.depths: list[int] = []
        self.counted: list[tuple[str, int]] = []

    def batch(self, texts: int, tokens: int) -> None:
        self.batches.append(texts)

    def queue(self, depth: int) -> None:
        self.depths.append(depth)

    def tokens(self, model: str, number: int) -> None:
        self.counted.append((model, number))


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[ServedModels, Batch]]:
    metrics = Batch()
    models = ServedModels(ServeSettings(**settings), metrics)
    await models.start()
    try:
        yield models, metrics
    finally:
        await models.stop()


@contextmanager
def held(models: ServedModels, name: str, monkeypatch) -> Iterator[tuple[threading.Event, list[list[Any]]]]:
    """Hold an encoder or a cross-encoder back until the event is set; the list has the inputs of its calls."""
    reranks = name in models.reranker_names
    model = models.reranker(name) if reranks else models.encoder(name)
    method = "relevance_counted" if reranks else "encode_counted"
    free, calls, usual = threading.Event(), [], getattr(model, method)

    def waits(inputs: list[Any], **options: Any) -> Any:
        calls.append(inputs)
        assert free.wait(60)
        return usual(inputs, **options)

    monkeypatch.setattr(model, method, waits)
    try:
        yield free, calls
    finally:
        free.set()


async def test_vectors_and_tokens_are_those_of_the_encoder_for_each_kind(prompted) -> None:
    encoder = Encoder(prompted)
    async with serving(models={"small": prompted}) as (models, metrics):
        for kind in ("document", "query"):
            found = await models.encode("small", TEXTS, kind=kind)
            np.testing.assert_allclose(found.vectors_ND, encoder.encode(TEXTS, prompt=kind), rtol=1e-5, atol=1e-6)
            prefixed = [encoder.prompts[kind] + text for text in TEXTS]
            assert found.tokens == encoder.count_tokens(prefixed).sum()
            assert metrics.counted[-1] == ("small", found.tokens)


async def test_models_and_rerankers_compute_in_the_precision_of_the_settings(tiny_model, tiny_cross_encoder) -> None:
    places = {"models": {"small": str(tiny_model("bert"))}, "rerankers": {"x": str(tiny_cross_encoder("bert"))}}
    async with serving(**places, precision="bfloat16") as (models, _):
        assert models.encoder("small").engine.name.endswith("bfloat16")
        assert models.reranker("x").engine.name.endswith("bfloat16")
    async with serving(**places) as (models, _):
        assert models.encoder("small").engine.name.endswith("float32")


async def test_tokens_are_counted_after_truncation_and_for_each_copy(tiny_model) -> None:
    async with serving(models={"small": str(tiny_model("bert"))}) as (models, _):
        limit = models.encoder("small").max_tokens
        assert (await models.encode("small", ["file " * 500])).tokens == limit
        assert (await models.encode("small", ["file " * 500] * 3)).tokens == 3 * limit


async def test_truncated_texts_are_counted_and_full_ones_are_not(prompted, tiny_cross_encoder) -> None:
    cross = str(tiny_cross_encoder("bert"))
    async with serving(models={"small": prompted}, rerankers={"x": cross}) as (models, _):
        encoder, reranker = models.encoder("small"), models.reranker("x")
        for kind in ("document", "query"):
            left = encoder.max_tokens - encoder.count_tokens([encoder.prompts[kind]])[0]
            full, longer = ("a " * (left + more) for more in (0, 1))
            found = await models.encode("small", ["a", full, longer, longer], kind=kind)
            assert encoder.count_tokens([encoder.prompts[kind] + full]) == encoder.max_tokens
            assert found.truncated == 2
        assert (await models.rerank("maxsim", "a", ["a", "file " * 500])).truncated == 1
        assert (await models.rerank("maxsim", "file " * 500, ["a", "b"])).truncated == 2
        left = reranker.max_tokens - reranker.tokenizer.count([("a", "")])[0]
        texts = ["a", "a " * left, "a " * (left + 1)]
        assert (await models.rerank("x", "a", texts)).truncated == 1


async def test_texts_are_tokenised_once(prompted, tiny_cross_encoder, monkeypatch) -> None:
    long, calls = "file " * 500, []
    usual = TextTokenizer._encode

    def noting(self, inputs, **options):
        calls.append(list(inputs))
        return usual(self, inputs, **options)

    async with serving(models={"small": prompted}, rerankers={"x": str(tiny_cross_encoder("bert"))}) as (models, _):
        monkeypatch.setattr(TextTokenizer, "_encode", noting)
        monkeypatch.setattr(TextTokenizer, "count", lambda _, texts: pytest.fail(f"{len(texts)} texts again"))
        assert (await models.encode("small", [long, "a"])).truncated == 1
        assert (await models.rerank("x", "a", [long])).truncated == 1
    assert [len(each) for each in calls] == [2, 1]


def test_the_log_of_a_served_model_names_the_public_class(tiny_model, caplog) -> None:
    CountingEncoder(tiny_model("bert"), "small", Metrics(), precision="float32").encode(["many words " * 50])
    assert "see Encoder.truncated" in caplog.text


def test_a_truncated_warm_up_is_no_text_of_a_client(tiny_model, caplog) -> None:
    encoder = Encoder(tiny_model("bert"), max_tokens=8)
    EmbeddingModel(encoder, WaitingRoom(8, 8, Metrics()), Metrics())
    assert encoder.truncated == 1
    assert "exceed" not in caplog.text
    encoder.encode(["many words " * 20])
    assert "1 of 1 distinct texts exceed the 8-token limit" in caplog.text


async def test_dimensions_truncate_and_normalise_again_where_the_model_does(tiny_model, prompted) -> None:
    normal = str(tiny_model("bert"))
    async with serving(models={"normal": normal, "other": prompted}) as (models, _):
        for name, folder in (("normal", normal), ("other", prompted)):
            found = await models.encode(name, TEXTS, dimensions=8)
            expected = Encoder(folder, dim=8).encode_document(TEXTS)
            np.testing.assert_allclose(found.vectors_ND, expected, rtol=1e-5, atol=1e-6)
        for wrong in (0, 33):
            with pytest.raises(RequestError, match=f"between 1 and 32, got {wrong}"):
                await models.encode("normal", TEXTS, dimensions=wrong)


async def test_names_are_those_of_the_settings_and_others_are_refused(tiny_model, tiny_cross_encoder) -> None:
    small, cross = str(tiny_model("bert")), str(tiny_cross_encoder("bert"))
    async with serving(models={"a": small, "b": small}, rerankers={"cross": cross}) as (models, _):
        assert (models.names, models.default, models.reranker_names) == (["a", "b"], "a", ["cross", "maxsim"])
        assert isinstance(models.reranker("maxsim"), MaxSimReranker)
        assert isinstance(models.reranker("cross"), CrossEncoderReranker)
        assert models.reranker("maxsim").encoder is models.encoder("a")
        with pytest.raises(UnknownModel, match="'c'; this server has a, b"):
            await models.encode("c", TEXTS)
        with pytest.raises(UnknownModel, match="'a'; this server has cross, maxsim"):
            await models.rerank("a", "query", TEXTS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rerankers": {"maxsim": "org/cross"}}, "'maxsim' is the name of the reranker that every server has"),
        ({"models": {"maxsim": "org/model"}}, "'maxsim' is the name of the reranker that every server has"),
        (
            {"models": {"a": "org/model"}, "rerankers": {"b": "org/cross", "a": "org/other"}},
            "a model and a reranker have the name 'a'; give one of them another name, as in org/other=OTHER",
        ),
    ],
)
def test_a_name_that_is_taken_is_refused(settings, message) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        create_app(ServeSettings(**settings))


async def test_requests_that_wait_together_are_one_batch(tiny_model, monkeypatch) -> None:
    async with serving(models={"a": str(tiny_model("bert"))}) as (models, metrics):
        alone = [await models.encode("a", [f"text {i}"]) for i in range(20)]
        metrics.batches.clear()
        with held(models, "a", monkeypatch) as (free, calls):
            first = asyncio.create_task(models.encode("a", ["first"]))
            await until(lambda: calls)
            kinds = ["document", "query"] * 10  # of one prompt, so of one batch
            requests = [models.encode("a", [f"text {i}"], kind=kind) for i, kind in enumerate(kinds)]
            waiting = [asyncio.create_task(request) for request in requests]
            await asyncio.sleep(0)
            free.set()
            await first
            together = await asyncio.gather(*waiting)
        assert metrics.batches == [1, 20]
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(one.vectors_ND, other.vectors_ND, atol=1e-6)
            assert one.tokens == other.tokens
        assert (max(metrics.depths), metrics.depths[-1]) == (21, 0)


async def test_a_bad_text_is_refused_by_its_index_and_harms_nobody(tiny_model) -> None:
    async with serving(models={"a": str(tiny_model("bert"))}) as (models, _):
        good, bad = await asyncio.gather(
            models.encode("a", ["good"]), models.encode("a", ["good", "\ud800"]), return_exceptions=True
        )
        assert good.vectors_ND.shape == (1, 32)
        assert isinstance(bad, TextError)
        assert str(bad).startswith("text 1:")


async def test_a_large_request_lets_others_have_their_turn(tiny_model, monkeypatch) -> None:
    monkeypatch.setattr(batching, "BATCH_WORK", 100)
    async with serving(models={"a": str(tiny_model("bert"))}) as (models, _):
        with held(models, "a", monkeypatch) as (free, calls):
            large = asyncio.create_task(models.encode("a", [f"large {i}" for i in range(12)]))
            await until(lambda: calls)
            small, ended = asyncio.create_task(models.encode("a", ["small"])), []
            for task in (large, small):
                task.add_done_callback(ended.append)
            await asyncio.sleep(0)
            free.set()
            assert (await large).vectors_ND.shape == (12, 32)
        assert ended == [small, large]
        assert calls[1] == ["small"]
        assert len(calls) >= 3


async def test_a_cancelled_request_is_not_computed_and_frees_its_place(tiny_model, monkeypatch) -> None:
    async with serving(models={"a": str(tiny_model("bert"))}) as (models, metrics):
        with held(models, "a", monkeypatch) as (free, calls):
            first = asyncio.create_task(models.encode("a", ["first"]))
            await until(lambda: calls)
            gone = asyncio.create_task(models.encode("a", ["gone"]))
            await asyncio.sleep(0)
            assert metrics.depths[-1] == 2
            gone.cancel()
            await asyncio.wait([gone])
            assert metrics.depths[-1] == 1
            free.set()
            await first
        await models.encode("a", ["last"])
        assert calls == [["first"], ["last"]]


async def test_a_full_queue_refuses_and_says_when_to_come_again(tiny_model, monkeypatch) -> None:
    async with serving(models={"a": str(tiny_model("bert"))}, queue_size=2) as (models, metrics):
        with held(models, "a", monkeypatch) as (free, calls):
            waiting = [asyncio.create_task(models.encode("a", [str(i)])) for i in range(2)]
            await until(lambda: calls)
            for _ in range(3):
                with pytest.raises(Overloaded) as caught:
                    await models.encode("a", ["one more"])
                assert caught.value.retry_after >= 1
                with pytest.raises(Overloaded):
                    await models.rerank("maxsim", "one", ["more"])
            free.set()
            assert len(await asyncio.gather(*waiting)) == 2
        assert metrics.depths[-1] == 0
        assert (await models.encode("a", ["again"])).tokens


def test_the_queue_is_bounded_by_texts_too_but_takes_a_large_request_alone() -> None:
    room = WaitingRoom(10, 100, Metrics())
    room.note_speed(10, 5.0)
    with room.place(500), pytest.raises(Overloaded) as caught, room.place(1):
        pytest.fail("there was no room")
    assert caught.value.retry_after == 250
    with room.place(60), room.place(40), pytest.raises(Overloaded), room.place(1):
        pytest.fail("there was no room")
    with room.place(100):
        pass


async def test_computations_are_never_on_the_event_loop(tiny_model, monkeypatch) -> None:
    threads = set()
    for kind, method in ((Encoder, "encode_counted"), (Encoder, "encode_tokens"), (Encoder, "__init__")):
        usual = getattr(kind, method)

        def noting(self, *arguments, usual=usual, **options):
            threads.add(threading.get_ident())
            return usual(self, *arguments, **options)

        monkeypatch.setattr(kind, method, noting)
    async with serving(models={"a": str(tiny_model("bert"))}) as (models, _):
        await models.encode("a", ["a"])
        await models.rerank("maxsim", "query", ["a", "b"])
    assert threads
    assert threading.get_ident() not in threads


async def test_a_cross_encoder_gives_its_relevance(tiny_model, tiny_cross_encoder, monkeypatch) -> None:
    cross = str(tiny_cross_encoder("bert"))
    reranker = CrossEncoderReranker(cross)
    pairs = [("two files", text) for text in TEXTS]
    async with serving(models={"a": str(tiny_model("bert"))}, rerankers={"x": cross}) as (models, metrics):
        scores, tokens, _ = await models.rerank("x", "two files", TEXTS)
        np.testing.assert_allclose(scores, reranker.score(pairs), rtol=1e-5)  # its activation is the sigmoid
        assert tokens == reranker.relevance_counted(pairs)[1].sum() > len(TEXTS)
        metrics.batches.clear()
        with held(models, "x", monkeypatch) as (free, calls):
            first = asyncio.create_task(models.rerank("x", "first", ["text"]))
            await until(lambda: calls)
            waiting = [asyncio.create_task(models.rerank("x", query, TEXTS)) for query in ("moon", "two files")]
            await asyncio.sleep(0)
            free.set()
            await first
            together = await asyncio.gather(*waiting)
        assert metrics.batches == [1, 2 * len(TEXTS)]
        np.testing.assert_allclose(together[1][0], scores, rtol=1e-5)


async def test_maxsim_scores_lie_between_0_and_1_and_do_not_depend_on_other_texts(tiny_model) -> None:
    async with serving(models={"a": str(tiny_model("bert"))}) as (models, _):
        queries = ["two files", "moon"]
        together = await asyncio.gather(*(models.rerank("maxsim", query, TEXTS) for query in queries))
        for query, (scores, tokens, _) in zip(queries, together, strict=True):
            alone = [(await models.rerank("maxsim", query, [text]))[0] for text in TEXTS]
            np.testing.assert_allclose(scores, np.array(alone)[:, 0], atol=1e-5)
            assert all(0 <= score <= 1 for score in scores)
            assert len(set(scores)) > 1
            assert tokens == models.encoder("a").count_tokens([query, *TEXTS]).sum()
        assert await models.rerank("maxsim", "nothing to compare", []) == ([], 0, 0)


async def test_the_default_model_tells_what_answers_from_what_does_not(maxsim) -> None:
    model = RerankingModel(maxsim, WaitingRoom(1, 1, Metrics()), Metrics())
    question = "how do I compare two files and show only the lines that differ?"
    texts = ["The weather was mild.", "difflib compares two files and shows the lines in which they differ."]
    scores, _, _ = await model.score(question, texts)
    assert scores[0] < 0.1
    assert scores[1] > 0.9
    model.close()
