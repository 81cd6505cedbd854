"""Clients of other projects, as their registries have them, against a real server on a loopback port."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from twinvec import CrossEncoderReranker, Encoder
from unit.serve.processes import serving

pytestmark = pytest.mark.slow

TEXTS = ["How do I compare two files?", "the quick brown fox", "Größe 日本語"]
QUERY = "two files"
PROMPTS = {"query": "find: ", "document": "passage: "}


@pytest.fixture(scope="module")
def model(tiny_model) -> Path:
    return tiny_model("bert", prompts=PROMPTS)


@pytest.fixture(scope="module")
def server(model, tiny_cross_encoder, tmp_path_factory) -> Iterator[str]:
    """The address of a server with the model "tiny" and the reranker "cross"."""
    cross = f"{tiny_cross_encoder('bert')}=cross"
    with serving(tmp_path_factory.mktemp("server"), model, "--reranker", cross) as running:
        yield running.address


@pytest.fixture(scope="module")
def vectors(model) -> np.ndarray:
    return Encoder(model).encode_document(TEXTS)


@pytest.fixture(scope="module")
def ranking(tiny_cross_encoder) -> list[tuple[int, float]]:
    scores = CrossEncoderReranker(tiny_cross_encoder("bert")).score([(QUERY, text) for text in TEXTS]).tolist()
    return sorted(enumerate(scores), key=lambda each: -each[1])


def close(found: object, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.array(found, dtype=np.float32), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_openai_embeds(server, vectors, model, encoding) -> None:
    openai = pytest.importorskip("openai")
    chosen = {} if encoding is None else {"encoding_format": encoding}
    with openai.OpenAI(base_url=f"{server}/v1", api_key="none") as client:
        answer = client.embeddings.create(model="tiny", input=TEXTS, **chosen)
        found = [each.embedding for each in answer.data]
        if encoding == "base64":  # asked for by name, it is left as it is
            found = [np.frombuffer(base64.b64decode(each), "<f4") for each in found]
        close(found, vectors)
        passages = [PROMPTS["document"] + text for text in TEXTS]
        assert answer.usage.prompt_tokens == answer.usage.total_tokens == Encoder(model).count_tokens(passages).sum()
        one = client.embeddings.create(model="tiny", input=TEXTS[0], extra_body={"input_type": "query"})
        close(one.data[0].embedding, Encoder(model).encode_query(TEXTS[0]))
        assert len(client.embeddings.create(model="tiny", input="a", dimensions=8).data[0].embedding) == 8
        raw = client.embeddings.with_raw_response.create(model="tiny", input=["a", "file " * 500])
        assert raw.headers["twinvec-truncated"] == "1"
        assert len(raw.parse().data) == 2


def test_openai_lists_models_and_reads_errors(server) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server}/v1", api_key="none") as client:
        assert [each.id for each in client.models.list()] == ["tiny", "cross", "maxsim"]
        assert client.models.retrieve("tiny").owned_by == "twinvec"
        with pytest.raises(openai.NotFoundError, match="this server has tiny"):
            client.embeddings.create(model="text-embedding-3-small", input="a")
        with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
            client.embeddings.create(model="tiny", input=[[1, 2], [3]])


async def test_openai_embeds_awaited(server, vectors) -> None:
    openai = pytest.importorskip("openai")
    async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key="none") as client:
        answers = await asyncio.gather(*(client.embeddings.create(model="tiny", input=TEXTS) for _ in range(20)))
    for answer in answers:
        close([each.embedding for each in answer.data], vectors)


@pytest.mark.parametrize("version", [1, 2])
def test_cohere_reranks(server, ranking, version) -> None:
    cohere = pytest.importorskip("cohere")
    client = (cohere.Client if version == 1 else cohere.ClientV2)(api_key="none", base_url=server)
    answer = client.rerank(model="cross", query=QUERY, documents=TEXTS, top_n=2)
    assert [each.index for each in answer.results] == [index for index, _ in ranking[:2]]
    assert [each.relevance_score for each in answer.results] == pytest.approx(
        [score for _, score in ranking[:2]], rel=1e-5
    )
    assert len(client.rerank(model="maxsim", query=QUERY, documents=TEXTS).results) == 3
    if version == 1:
        documents = [{"text": text} for text in TEXTS]
        shown = client.rerank(model="cross", query=QUERY, documents=documents, return_documents=True)
        assert [each.document.text for each in shown.results] == [TEXTS[index] for index, _ in ranking]
    with pytest.raises(cohere.NotFoundError):
        client.rerank(model="none", query=QUERY, documents=TEXTS)


async def test_langchain_embeds_with_its_setting(server, vectors) -> None:
    module = pytest.importorskip("langchain_openai")
    options = {"model": "tiny", "base_url": f"{server}/v1", "api_key": "none", "check_embedding_ctx_length": False}
    embeddings = module.OpenAIEmbeddings(**options)
    close(embeddings.embed_documents(TEXTS), vectors)
    close(embeddings.embed_query(TEXTS[0]), vectors[0])
    close(await embeddings.aembed_documents(TEXTS), vectors)


async def test_llama_index_embeds(server, vectors) -> None:
    module = pytest.importorskip("llama_index.embeddings.openai_like")
    embedding = module.OpenAILikeEmbedding(model_name="tiny", api_base=f"{server}/v1", api_key="none")
    close(embedding.get_text_embedding_batch(TEXTS), vectors)
    close(embedding.get_query_embedding(TEXTS[0]), vectors[0])
    close(await embedding.aget_text_embedding_batch(TEXTS), vectors)


def test_many_clients_at_once_get_their_own_vectors(server, model) -> None:
    openai = pytest.importorskip("openai")
    texts = [f"text number {number} of {number % 7}" for number in range(200)]
    expected = Encoder(model).encode_document(texts)
    with openai.OpenAI(base_url=f"{server}/v1", api_key="none") as client, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda text: client.embeddings.create(model="tiny", input=text).data[0].embedding, texts))
    close(found, expected)


NODE = """
import OpenAI from 'openai'
const client = new OpenAI({ baseURL: process.argv[2] + '/v1', apiKey: 'none' })
const answer = await client.embeddings.create({ model: 'tiny', input: JSON.parse(process.argv[3]) })
const models = []
for await (const model of client.models.list()) models.push(model.id)
let status = 0
try { await client.embeddings.create({ model: 'none', input: 'a' }) } catch (error) { status = error.status }
console.log(JSON.stringify({ vectors: answer.data.map((each) => each.embedding), models, status }))
"""


@pytest.mark.timeout(1800)  # installs packages
def test_openai_under_node(server, vectors, tmp_path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    install = [npm, "install", "--no-fund", "--no-audit", "openai@^7"]
    made = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    if made.returncode:
        pytest.skip(f"npm cannot install openai: {made.stderr.strip()[-300:]}")
    (tmp_path / "client.mjs").write_text(NODE)
    command = [node, "client.mjs", server, json.dumps(TEXTS)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    close(found["vectors"], vectors)
    assert (found["models"], found["status"]) == (["tiny", "cross", "maxsim"], 404)


LITELLM = """
import json, sys
import litellm
address, texts, query = json.loads(sys.stdin.read())
options = {"api_base": address + "/v1", "api_key": "none"}
answer = litellm.embedding(model="openai/tiny", input=texts, **options)
ranked = litellm.rerank(model="cohere/cross", query=query, documents=texts, api_base=address, api_key="none")
print(json.dumps({
    "vectors": [each["embedding"] for each in answer.data],
    "tokens": answer.usage.prompt_tokens,
    "ranking": [[each["index"], each["relevance_score"]] for each in ranked.results],
}))
"""


@pytest.mark.timeout(1800)  # installs packages
def test_litellm(server, vectors, ranking, tmp_path) -> None:
    """In an environment of its own, since its requirements do not fit those of the others."""
    environment = tmp_path / "environment"
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    python = environment / "bin" / "python"
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(environment)],
        [uv, "pip", "install", "--quiet", "--python", str(python), "litellm>=1.80,<2"],
    ):
        made = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if made.returncode:
            pytest.skip(f"no environment with litellm: {made.stderr.strip()[-300:]}")
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [str(python), "-c", LITELLM],
        input=json.dumps([server, TEXTS, QUERY]),
        env=own | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    close(found["vectors"], vectors)
    assert found["tokens"] > len(TEXTS)
    assert [index for index, _ in found["ranking"]] == [index for index, _ in ranking]
