"""TwinvecVectorStore for LlamaIndex: under an index, a pipeline and by itself; its layout read by LlamaIndex's own."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import IndexNode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from handbook import QUESTION
from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec import Encoder
from twinvec.errors import BadVectorError, ConfigurationError, DocumentError, FilterError, SpaceMismatchError
from twinvec_qdrant import Collection

TEXTS = {
    "leave": "Holidays are requested two weeks ahead.",
    "vpn": "The VPN client is installed from the portal.",
    "pay": "Expenses are paid at the end of the month.",
    "laptop": "A new laptop is ordered by the manager.",
    "overtime": "Overtime is taken as free time within three months.",
}
YEARS = {"leave": 2019, "vpn": 2020, "pay": 2021, "laptop": 2022}


@pytest.fixture(scope="module")
def embed_model(encoder: Encoder) -> TwinvecEmbedding:
    return TwinvecEmbedding(encoder=encoder)


@pytest.fixture(scope="module")
def nodes(embed_model) -> list[TextNode]:
    """One node a text; of different years and teams, the last without either."""
    made = []
    for key, text in TEXTS.items():
        metadata = {"year": YEARS[key], "teams": ["hr", key]} if key in YEARS else {}
        node = TextNode(id_=key, text=text, metadata=metadata, excluded_embed_metadata_keys=["year", "teams"])
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"{key}.md")
        node.embedding = embed_model.get_text_embedding(text)
        made.append(node)
    return made


@pytest.fixture
def store(embed_model) -> TwinvecVectorStore:
    return TwinvecVectorStore(embed_model)


@pytest.fixture(scope="module")
def filled(embed_model, nodes) -> TwinvecVectorStore:
    """Not to be changed."""
    store = TwinvecVectorStore(embed_model)
    store.add(nodes)
    return store


def asked(embed_model, mode: str = "default", k: int = 3, text: str = QUESTION, **fields) -> VectorStoreQuery:
    vector = embed_model.get_query_embedding(text)
    mode = VectorStoreQueryMode(mode)
    return VectorStoreQuery(query_embedding=vector, query_str=text, similarity_top_k=k, mode=mode, **fields)


def where(*conditions, condition: str = "and") -> MetadataFilters:
    filters = [
        each
        if isinstance(each, MetadataFilters)
        else MetadataFilter(key=each[0], operator=FilterOperator(each[1]), value=each[2])
        for each in conditions
    ]
    return MetadataFilters(filters=filters, condition=FilterCondition(condition))


def test_nodes_come_back_as_they_were(filled, nodes) -> None:
    back = {node.node_id: node for node in filled.get_nodes()}
    assert len(back) == len(nodes)
    for node in nodes:
        assert back[node.node_id].model_dump(exclude={"embedding"}) == node.model_dump(exclude={"embedding"})


def test_an_index_over_the_store_gives_the_hits_of_the_core(store, embed_model, nodes) -> None:
    storage = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex([node.model_copy() for node in nodes], storage_context=storage, embed_model=embed_model)
    found = index.as_retriever(similarity_top_k=3).retrieve(QUESTION)
    expected = store.client.search(QUESTION, 3, "dense")
    assert [node.node_id for node in found] == [hit.id for hit in expected]
    assert [node.score for node in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)
    assert found[0].node_id == "leave"
    index.delete_ref_doc("leave.md")
    assert "leave" not in [node.node_id for node in index.as_retriever(similarity_top_k=9).retrieve(QUESTION)]
    index.delete_nodes(["vpn"])
    assert sorted(store.client.find()) == ["laptop", "overtime", "pay"]


@pytest.mark.parametrize(("mode", "ours"), [("default", "dense"), ("hybrid", "hybrid"), ("sparse", "sparse")])
def test_each_mode_gives_the_hits_of_the_core(filled, embed_model, mode, ours) -> None:
    question = "When is overtime paid?"
    result = filled.query(asked(embed_model, mode, text=question))
    expected = filled.client.search(question, 3, ours)
    assert result.ids == [node.node_id for node in result.nodes] == [hit.id for hit in expected]
    assert result.similarities == pytest.approx([hit.score for hit in expected], abs=1e-6)
    assert result.ids
    without = filled.query(VectorStoreQuery(query_str=question, similarity_top_k=3, mode=VectorStoreQueryMode(mode)))
    assert without.ids == result.ids
    assert filled.query(VectorStoreQuery(query_str=question, similarity_top_k=3, mode=mode)).ids == result.ids


def test_mmr_weighs_relevance_against_difference(filled, embed_model) -> None:
    query = asked(embed_model, "mmr", 4)
    assert filled.query(query, mmr_threshold=1.0).ids == filled.query(asked(embed_model, k=4)).ids
    diverse = filled.client.search_diverse(QUESTION, 4, diversity=0.9)
    assert filled.query(query, mmr_threshold=0.1).ids == [hit.id for hit in diverse]


def test_alpha_at_its_ends_is_one_stage_alone(filled, embed_model) -> None:
    assert filled.query(asked(embed_model, "hybrid", alpha=1)).ids == filled.query(asked(embed_model)).ids
    assert filled.query(asked(embed_model, "hybrid", alpha=0)).ids == filled.query(asked(embed_model, "sparse")).ids
    with pytest.raises(ConfigurationError, match="svm"):
        filled.query(asked(embed_model, "svm"))
    with pytest.raises(ConfigurationError, match="unknown_option"):
        filled.query(asked(embed_model), unknown_option=1)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (where(("year", "==", 2020)), "vpn"),
        (where(("year", ">=", 2020), ("year", "<", 2022)), "vpn pay"),
        (where(("year", ">", 2020), ("teams", "==", "hr")), "pay laptop"),
        (where(("year", "in", [2019, 2021])), "leave pay"),
        (where(("year", "<=", 2020), condition="or"), "leave vpn"),
        (where(("year", "==", 2020), ("teams", "contains", "pay"), condition="or"), "vpn pay"),
        (where(("year", "!=", 2020)), "leave pay laptop overtime"),
        (where(("year", "nin", [2019, 2020])), "pay laptop overtime"),
        (where(("teams", "all", ["hr", "vpn"])), "vpn"),
        (where(("teams", "any", ["leave", "vpn"])), "leave vpn"),
        (where(("year", "==", 2020), condition="not"), "leave pay laptop overtime"),
        (where(where(("year", "==", 2020), ("year", "==", 2021), condition="or"), ("teams", "==", "vpn")), "vpn"),
        (where(("year", "==", 2020), where()), "vpn"),
        (where(("year", "!=", 2020), ("year", "<", 2022), ("year", ">", 2019)), "pay"),
        (where(where(("year", "==", 2020), ("teams", "all", ["hr"])), ("year", "==", 2021), condition="or"), "vpn pay"),
        (where(where(("year", "==", 2020)), where(("year", "==", 2021)), condition="not"), "leave laptop overtime"),
        (where(where(), condition="not"), ""),
        (where(where(), ("year", "==", 2020), condition="or"), "leave vpn pay laptop overtime"),
        (where(condition="not"), "leave vpn pay laptop overtime"),
        (where(("teams", "text_match", "VPN hr")), "vpn"),
        (where(("teams", "is_empty", None)), "overtime"),
        (where(("year", "==", 1900), ("year", "==", 1901), condition="or"), ""),
        (where(), "leave vpn pay laptop overtime"),
    ],
)
def test_filters_mean_what_llama_index_says(filled, embed_model, filters, expected) -> None:
    result = filled.query(asked(embed_model, k=9, filters=filters))
    assert sorted(result.ids) == sorted(expected.split())
    assert sorted(node.node_id for node in filled.get_nodes(filters=filters)) == sorted(expected.split())


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        (where(("teams", "text_match", 3)), "take a text"),
        (where(("year", "in", 2020)), "list"),
        (where(("year", "==", ["a"])), "one value"),
        (where(("year", ">", "later")), "takes a number"),
        (where(("year", "==", None)), "'is_empty'"),
        (where(("year", "!=", None)), "'is_empty'"),
    ],
)
def test_a_filter_that_cannot_be_honoured_is_named(filled, embed_model, filters, named) -> None:
    with pytest.raises(FilterError, match=named):
        filled.query(asked(embed_model, filters=filters))


def test_filters_name_the_tenant_with_every_operator(encoder, embed_model, nodes) -> None:
    place = {"client": QdrantClient(":memory:"), "encoder": encoder, "chunking": False, "tenant_key": "team"}
    with Collection.open("shared", **place) as collection:
        store = TwinvecVectorStore(collection=collection)
        hidden = ["year", "teams", "team"]
        for node in nodes:
            metadata = {**node.metadata, "team": node.node_id[0]}
            store.add([node.model_copy(update={"metadata": metadata, "excluded_embed_metadata_keys": hidden})])
        tenant = where(("team", "in", ["p", "v"]))
        for wanted, found in (
            (where(tenant, ("year", "!=", 2020)), ["pay"]),
            (where(tenant, ("year", ">=", 2020), ("year", "<", 2021)), ["vpn"]),
            (where(tenant, where(("year", "==", 2020), ("year", "==", 2019), condition="or")), ["vpn"]),
        ):
            assert store.query(asked(embed_model, filters=wanted)).ids == found
        with pytest.raises(FilterError, match="tenants"):
            store.query(asked(embed_model, filters=where(("team", "!=", "a"))))


def test_a_search_may_be_kept_to_nodes_and_documents(filled, embed_model) -> None:
    assert sorted(filled.query(asked(embed_model, node_ids=["pay", "vpn", "gone"])).ids) == ["pay", "vpn"]
    assert filled.query(asked(embed_model, doc_ids=["vpn.md"])).ids == ["vpn"]
    assert filled.query(asked(embed_model, doc_ids=["vpn.md"], node_ids=["pay"])).ids == []
    both = where(("year", "!=", 2021))
    assert filled.query(asked(embed_model, node_ids=["pay", "vpn"], filters=both)).ids == ["vpn"]


def test_adding_again_costs_nothing_and_changes_replace(store, nodes) -> None:
    assert store.add(nodes) == list(TEXTS)
    store.add(nodes)
    assert store.client.count() == len(TEXTS)
    changed = nodes[0].model_copy(update={"metadata": {"year": 2030}})
    assert store.add([nodes[0], changed]) == ["leave", "leave"]
    assert store.client.count() == len(TEXTS)
    assert store.get_nodes(["gone", "leave"])[0].metadata == {"year": 2030}


def test_nodes_without_an_embedding_are_embedded(store, nodes, embed_model) -> None:
    store.add([node.model_copy(update={"embedding": None}) for node in nodes])
    assert store.query(asked(embed_model)).ids[0] == "leave"


def test_nodes_of_another_model_are_refused_before_anything_is_written(store, nodes) -> None:
    other = [node.model_copy(update={"embedding": node.embedding[::-1]}) for node in nodes]
    with pytest.raises(SpaceMismatchError, match=r"'leave'.*cosine"):
        store.add(other)
    for bad in ([1.0, 2.0], [float("nan")] * 384, [0.0] * 384):
        with pytest.raises(BadVectorError, match="'leave'"):
            store.add([nodes[0].model_copy(update={"embedding": bad})])
    assert store.client.find() == []


def test_a_node_that_is_refused_is_named_and_hurts_no_other(store, nodes) -> None:
    bad = TextNode(id_="bad", text="lone \ud800 surrogate")
    with pytest.raises(DocumentError, match=r"1 of 2 nodes were refused; the others are stored: node 1 \('bad'\): "):
        store.add([nodes[0], bad])
    assert store.client.find() == ["leave"]


def test_nodes_of_a_generator_are_added(store, nodes) -> None:
    assert store.add(node for node in nodes) == list(TEXTS)
    assert sorted(store.client.find()) == sorted(TEXTS)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("abc", "expected a list of nodes, got str"),
        (TextNode(text="a"), "expected a list of nodes, got TextNode"),
        ({"a": TextNode(text="a")}, "expected a list of nodes, got dict"),
        (None, "expected a list of nodes, got NoneType"),
        ([TextNode(text="a"), None], r"item 1: expected a node such as TextNode\(text=\.\.\.\), got NoneType"),
        ([NodeWithScore(node=TextNode(text="a"))], "item 0: .*, got NodeWithScore"),
    ],
)
async def test_what_is_not_a_list_of_nodes_is_named(store, given, named) -> None:
    with pytest.raises(DocumentError, match=f"^nodes: {named}"):
        store.add(given)
    with pytest.raises(DocumentError, match=f"^nodes: {named}"):
        await store.async_add(given)
    assert store.client.find() == []


@pytest.mark.parametrize("limit", [-1, True, "3", 2.5])
def test_a_limit_that_is_no_number_from_0_is_refused(filled, limit) -> None:
    with pytest.raises(ConfigurationError, match=r"^limit must be "):
        filled.get_nodes(limit=limit)
    with pytest.raises(ConfigurationError, match=r"^limit must be "):
        filled.get_nodes(["leave", "vpn"], limit=limit)
    assert filled.get_nodes(limit=0) == filled.get_nodes(["leave"], limit=0) == []
    assert len(filled.get_nodes(limit=None)) == len(TEXTS)


def test_a_blank_query_finds_nothing_also_by_its_embedding(filled, embed_model) -> None:
    index = VectorStoreIndex.from_vector_store(filled, embed_model=embed_model)
    for mode in ("default", "hybrid", "sparse", "mmr"):
        for blank in ("", "  ", " \n"):
            assert index.as_retriever(vector_store_query_mode=mode).retrieve(blank) == []
    vector = embed_model.get_query_embedding(QUESTION)
    for without in (None, ""):  # a query by an embedding alone, such as that of an image
        query = VectorStoreQuery(query_str=without, query_embedding=vector, similarity_top_k=1)
        assert filled.query(query).ids == ["leave"]


def test_deleting_the_document_none_leaves_nodes_without_a_document(store) -> None:
    of_none = TextNode(id_="of", text="of the document None")
    of_none.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="None")
    store.add([TextNode(id_="free", text="without a document"), of_none])
    store.delete("None")
    assert store.client.find() == ["free"]


def test_a_wrong_number_of_mmr_is_named(filled, embed_model) -> None:
    query = asked(embed_model, "mmr")
    for name, wrong in (
        ("mmr_threshold", 9),
        ("mmr_threshold", "x"),
        ("mmr_prefetch_k", 0),
        ("mmr_prefetch_factor", -1),
        ("mmr_prefetch_factor", float("inf")),
    ):
        with pytest.raises(ConfigurationError, match=f"^{name} must .*, got '?{wrong}"):
            filled.query(query, **{name: wrong})


def test_a_wrong_top_k_is_named_as_the_caller_wrote_it(store) -> None:
    with pytest.raises(ConfigurationError, match=r"^similarity_top_k must be a whole number from 1 "):
        store.query(VectorStoreQuery(query_str="a", similarity_top_k=0))
    for mode in ("sparse", "hybrid"):
        query = VectorStoreQuery(query_str="a", mode=mode, **{f"{mode}_top_k": -1})
        with pytest.raises(ConfigurationError, match=f"^{mode}_top_k must be a whole number from 1 "):
            store.query(query)


@pytest.mark.parametrize(
    ("alpha", "reason"),
    [("0.5", r"a number, got '0\.5'"), (float("nan"), r"from 0 \(words\) to 1 \(vectors\), got nan")],
)
def test_an_alpha_that_is_no_number_is_named(store, alpha, reason) -> None:
    with pytest.raises(ConfigurationError, match=f"^alpha must be {reason}$"):
        store.query(VectorStoreQuery(query_str="a", mode="hybrid", alpha=alpha))


def test_deleting_all_takes_a_call_of_its_own(store, nodes) -> None:
    store.add(nodes)
    with pytest.raises(ConfigurationError, match="clear"):
        store.delete_nodes()
    store.delete_nodes(["pay", "vpn"], where(("year", "==", 2021)))
    assert sorted(store.client.find()) == ["laptop", "leave", "overtime", "vpn"]
    store.clear()
    assert store.get_nodes() == []


async def test_awaited_calls_do_the_same(store, nodes, embed_model) -> None:
    assert await store.async_add(nodes) == list(TEXTS)
    results = await asyncio.gather(*(store.aquery(asked(embed_model)) for _ in range(5)))
    assert [result.ids for result in results] == [store.query(asked(embed_model)).ids] * 5
    assert [node.node_id for node in await store.aget_nodes(["pay"])] == ["pay"]
    await store.adelete("pay.md")
    await store.adelete_nodes(["vpn"])
    assert sorted(store.client.find()) == ["laptop", "leave", "overtime"]
    await store.aclear()
    assert store.client.find() == []


def test_a_store_is_opened_again_from_its_dict(embed_model, nodes, tmp_path) -> None:
    store = TwinvecVectorStore(embed_model, "again", path=tmp_path)
    store.add(nodes)
    data = store.to_dict()
    store.close()
    again = TwinvecVectorStore.from_dict(data)
    assert again.to_dict() == data
    assert again.query(asked(embed_model)).ids[0] == "leave"
    again.close()


def test_a_deep_copy_opens_its_collection_again(embed_model, nodes, tmp_path) -> None:
    store = TwinvecVectorStore(embed_model, "again", path=tmp_path, enable_hybrid=False)
    store.add(nodes)
    copied = copy.deepcopy(store)
    store.close()
    assert copied.to_dict() == store.to_dict()
    assert copied.query(asked(embed_model)).ids[0] == "leave"
    with pytest.raises(ConfigurationError, match="enable_hybrid"):
        copied.query(asked(embed_model, "hybrid"))
    copied.close()


def test_a_pickled_store_opens_its_collection_again(embed_model, nodes, tmp_path) -> None:
    store = TwinvecVectorStore(embed_model, "again", path=tmp_path, check_vectors=False, enable_hybrid=False)
    store.add(nodes)
    pickled = pickle.dumps(store)
    store.close()
    again = pickle.loads(pickled)
    assert again.to_dict() == store.to_dict()
    assert again.query(asked(embed_model)).ids[0] == "leave"
    with pytest.raises(ConfigurationError, match="enable_hybrid"):
        again.query(asked(embed_model, "hybrid"))
    vector_of_another = asked(embed_model)
    vector_of_another.query_embedding = list(reversed(vector_of_another.query_embedding))
    assert again.query(vector_of_another).ids
    again.close()


def test_a_store_that_cannot_be_opened_again_is_not_pickled(filled) -> None:
    for copies in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ConfigurationError, match=r"'llama_index' cannot be pickled or copied.* give path or url"):
            copies(filled)


def test_a_store_in_memory_is_not_silently_empty_when_read_back(filled) -> None:
    with pytest.raises(ConfigurationError, match="in memory"):
        TwinvecVectorStore.from_dict(filled.to_dict())
    again = TwinvecVectorStore.from_dict(filled.to_dict(), collection=filled.client)
    assert sorted(again.client.find()) == sorted(TEXTS)


def test_a_collection_that_cuts_documents_is_refused(encoder, tmp_path) -> None:
    with (
        Collection.open("cut", tmp_path, encoder=encoder) as collection,
        pytest.raises(ConfigurationError, match="chunks"),
    ):
        TwinvecVectorStore(collection=collection)


def test_another_model_is_refused(embed_model, tiny_model) -> None:
    client = QdrantClient(":memory:")
    TwinvecVectorStore(embed_model, client=client)
    with pytest.raises(SpaceMismatchError):
        TwinvecVectorStore(TwinvecEmbedding(str(tiny_model("bert"))), client=client)


def test_llama_indexes_own_store_reads_what_ours_wrote(embed_model, nodes) -> None:
    client = QdrantClient(":memory:")
    ours = TwinvecVectorStore(embed_model, "shared", client=client)
    ours.add(nodes)
    theirs = QdrantVectorStore("shared", client=client, dense_vector_name="dense")
    result = theirs.query(asked(embed_model))
    assert [node.node_id for node in result.nodes] == ours.query(asked(embed_model)).ids
    assert result.nodes[0].model_dump(exclude={"embedding"}) == nodes[0].model_dump(exclude={"embedding"})
    by_document = theirs.query(asked(embed_model, doc_ids=["vpn.md"]))
    assert [node.node_id for node in by_document.nodes] == ["vpn"]


def test_our_embedding_works_in_llama_indexes_own_store(embed_model, nodes, filled) -> None:
    theirs = QdrantVectorStore("theirs", client=QdrantClient(":memory:"))
    storage = StorageContext.from_defaults(vector_store=theirs)
    renamed = [TextNode(text=node.text) for node in nodes]  # its point ids have to be UUIDs
    index = VectorStoreIndex(renamed, storage_context=storage, embed_model=embed_model)
    found = index.as_retriever(similarity_top_k=3).retrieve(QUESTION)
    expected = filled.query(asked(embed_model))
    assert [node.text for node in found] == [node.text for node in expected.nodes]
    assert [node.score for node in found] == pytest.approx(expected.similarities, abs=1e-5)


def pipeline(store, embed_model, strategy=DocstoreStrategy.UPSERTS) -> IngestionPipeline:
    return IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=64, chunk_overlap=0), embed_model],
        docstore=SimpleDocumentStore(),
        docstore_strategy=strategy,
        vector_store=store,
    )


def handbook(**changes: str) -> list[Document]:
    return [Document(id_=key, text=changes.get(key, text)) for key, text in TEXTS.items()]


def texts_of(store) -> set[str]:
    return {node.text for node in store.get_nodes()}


def test_a_pipeline_with_upserts_replaces_what_changed(store, embed_model) -> None:
    runs = pipeline(store, embed_model)
    assert len(runs.run(documents=handbook())) == len(TEXTS)
    assert runs.run(documents=handbook()) == []
    changed = runs.run(documents=handbook(pay="Expenses are paid every Friday."))
    assert [node.text for node in changed] == ["Expenses are paid every Friday."]
    assert texts_of(store) == {*TEXTS.values(), "Expenses are paid every Friday."} - {TEXTS["pay"]}


def test_a_pipeline_that_deletes_leaves_no_node_of_what_is_gone(store, embed_model) -> None:
    runs = pipeline(store, embed_model, DocstoreStrategy.UPSERTS_AND_DELETE)
    runs.run(documents=handbook())
    runs.run(documents=handbook()[:3])
    assert texts_of(store) == set(list(TEXTS.values())[:3])


async def test_a_pipeline_may_be_awaited(store, embed_model) -> None:
    runs = pipeline(store, embed_model)
    await runs.arun(documents=handbook())
    await runs.arun(documents=handbook(vpn="The VPN client is gone."))
    assert texts_of(store) == {*TEXTS.values(), "The VPN client is gone."} - {TEXTS["vpn"]}


def test_nodes_that_stand_for_others_keep_their_kind(store, embed_model) -> None:
    store.add([IndexNode(id_="summary", text="About holidays.", index_id="leave")])
    (node,) = store.get_nodes()
    assert isinstance(node, IndexNode)
    assert node.index_id == "leave"
