"""Large tenants with shards of their own: where points lie, what searches read, and what changes later."""

from __future__ import annotations

import pytest
from qdrant_client import QdrantClient

from stand_in import Fault, StandIn
from twinvec.errors import ConfigurationError, FilterError, StoreError
from twinvec_qdrant import ClusterSettings, Collection, list_collections
from twinvec_qdrant.stores.server.cluster import SHARED
from words import StateEncoder

LARGE = ClusterSettings(tenant_shards=["acme", "bolt"])
NAMES = ["acme", "bolt", "cord", "dune"]
NOTES = [
    {"id": f"n{row:02}", "text": f"note {row} " + "word " * (row % 5 + 1), "owner": NAMES[row % 4]} for row in range(24)
]


@pytest.fixture
def server(server):
    server.be_cluster(3)
    return server


def opened(server: StandIn | None, name: str = "notes", **options) -> Collection:
    place = {"client": QdrantClient(":memory:")} if server is None else {"url": server.url}
    encoder = StateEncoder(seed=options.pop("seed", 0), max_tokens=16)
    options = {"encoder": encoder, "tenant_key": "owner", "late_interaction": True, **options}
    return Collection.open(name, **place, wait_seconds=30, **options)


def keys_of(collection: Collection, server: StandIn, name: str = "notes") -> dict[str, set[str]]:
    """The shard keys of each owner's chunks, and of all other points."""
    found: dict[str, set[str]] = {}
    for point in collection._backend.scroll([]):
        chunk = point.payload["kind"] == "chunk"
        owner = point.payload["metadata"]["owner"] if chunk else "others"
        found.setdefault(owner, set()).add(server.actions.shards[name].of[point.id])
    return found


def hits(found) -> list:
    return [(hit.id, pytest.approx(hit.score, abs=1e-4), hit.text) for hit in found]


def test_chunks_lie_in_the_shards_of_their_tenant_and_all_else_in_the_shared_ones(server):
    with opened(server, cluster=LARGE) as collection:
        assert collection.ingest(NOTES).new == len(NOTES)
        collection.notes("memory").put({"k": {"row": 1}})
        expected = {"acme": {"acme"}, "bolt": {"bolt"}, "cord": {SHARED}, "dune": {SHARED}, "others": {SHARED}}
        assert keys_of(collection, server) == expected
        assert collection.info()["cluster"]["tenant_shards"] == ("acme", "bolt")
    assert server.actions.shards["notes"].keys == [SHARED, "acme", "bolt"]
    with opened(server) as again:
        again.ingest([{**NOTES[0], "text": "another text"}])
        assert keys_of(again, server) == expected, "the collection records it"


def everything(collection: Collection) -> list:
    """What the methods of a collection return."""
    collection.ingest(NOTES)
    changed = [{**note, "text": "newer " + note["text"]} for note in NOTES[:9]]
    vector = collection.encoder.encode_query(["note 3"])[0]
    return [
        collection.ingest(changed, prune=True),
        [hits(collection.search("note 7 word", 9, filter={"owner": name})) for name in NAMES],
        [hits(collection.search("note 7", 9, mode, filter={"owner": "acme"})) for mode in ("dense", "sparse")],
        hits(collection.search("note 7", 9, filter={"owner": NAMES[:3]})),
        hits(collection.search_vector(vector, 4, filter={"owner": "bolt"}, exact=True)),
        hits(collection.search_diverse("note 3", 4, filter={"owner": "bolt"})),
        hits(collection.maxsim().rerank("note 3", collection.search("note 3", 9, filter={"owner": "acme"}), 9)),
        [document.id for document in collection.get([note["id"] for note in NOTES])],
        sorted(collection.find({"owner": "acme"})),
        collection.count(),
        collection.delete(["n01", "n02"]),
        collection.verify(repair=True),
        collection.migrate(StateEncoder(seed=1, max_tokens=16)).switched,
        hits(collection.search("note 5", 5, filter={"owner": "acme"})),
        collection.drop_others(),
        sorted(collection.find()),
    ]


@pytest.mark.slow
def test_everything_is_as_without_shards_of_tenants(server):
    with opened(server, cluster=LARGE) as sharded, opened(None) as plain:
        assert everything(sharded) == everything(plain)
        assert keys_of(sharded, server)["acme"] == {"acme"}


def test_a_search_of_a_tenant_reads_the_shards_of_that_tenant(server, monkeypatch):
    with opened(server, cluster=LARGE) as collection:
        collection.ingest(NOTES)
        named = []
        shards = server.actions.shards["notes"]
        read = shards.read
        monkeypatch.setattr(shards, "read", lambda selector: named.append(selector) or read(selector))
        for owner in ("acme", "cord"):
            named.clear()
            server.asked.clear()
            assert len(collection.search("note", 3, filter={"owner": owner})) == 3
            assert len(server.asked) == 2
            assert {(each.target, each.fallback) for each in named if each} == {(owner, SHARED)}
            assert named.count(None) == 2, "the marker of the model and the intents lie in the shared shards"
        named.clear()
        assert collection.search("note", 3, filter={"owner": ["acme", "cord"]})
        assert set(named) == {None}
        with pytest.raises(FilterError, match="many tenants"):
            collection.search("note")


async def test_awaited_searches_name_the_shard_key_too(server):
    with opened(server, cluster=LARGE) as collection:
        collection.ingest(NOTES)
        for owner in NAMES:
            wanted = {"owner": owner}
            expected = hits(collection.search("note 7", 4, filter=wanted))
            assert hits(await collection.asearch("note 7", 4, filter=wanted)) == expected != []


def test_a_tenant_without_documents_is_added_later_and_open_handles_serve_it(server):
    with opened(server, cluster=LARGE) as collection, opened(server) as reader:
        collection.ingest(NOTES)
        with pytest.raises(ConfigurationError, match=r"'cord' already has documents"):
            collection.reindex(cluster=ClusterSettings(tenant_shards=["acme", "bolt", "cord"]))
        with pytest.raises(
            ConfigurationError, match="can only grow, and these tenants have shards already: bolt; name them too"
        ):
            collection.reindex(cluster=ClusterSettings(tenant_shards=["acme"]))
        collection.reindex(cluster=ClusterSettings(tenant_shards=["acme", "bolt", "echo"]))
        collection.ingest([{"id": "e1", "text": "note of echo", "owner": "echo"}])
        assert keys_of(collection, server)["echo"] == {"echo"}
        assert [hit.id for hit in reader.search("note", filter={"owner": "echo"})] == ["e1"]
        assert reader.info()["cluster"]["tenant_shards"] == ("acme", "bolt", "echo")


def test_two_administrators_who_add_tenants_at_once_both_succeed(server):
    with opened(server, cluster=LARGE) as collection, opened(server) as other:
        collection.ingest(NOTES)
        raced = []

        def fault(method: str, path: str) -> Fault | None:
            if method == "PATCH" and not raced:  # the first administrator has read the tenants, and now writes them
                raced.append(path)
                other.reindex(cluster=ClusterSettings(tenant_shards=[*LARGE.tenant_shards, "fox"]))
            return None

        server.fault = fault
        collection.reindex(cluster=ClusterSettings(tenant_shards=[*LARGE.tenant_shards, "echo"]))
        assert raced
        for handle in (collection, other):
            handle.ingest([{"id": f"{name}1", "text": f"note of {name}", "owner": name} for name in ("echo", "fox")])
            assert handle.info()["cluster"]["tenant_shards"] == ("acme", "bolt", "echo", "fox")
            for name in ("echo", "fox"):
                assert keys_of(handle, server)[name] == {name}
                assert [hit.id for hit in handle.search("note", filter={"owner": name})] == [f"{name}1"]


@pytest.mark.parametrize("last", ["/shards", "/collections/notes"])
def test_documents_of_a_tenant_are_found_if_the_process_that_adds_it_is_killed(server, last):
    """The process is killed before it sends the request whose path ends with ``last``."""
    with opened(server, cluster=LARGE) as collection, opened(server) as writer:
        collection.ingest(NOTES)
        writer.ingest([{"id": "a99", "text": "note of acme", "owner": "acme"}])
        names = [*LARGE.tenant_shards, "echo"]
        changing = ("PUT", "PATCH")
        server.fault = lambda method, path: (
            Fault.UNKNOWN if method in changing and path.partition("?")[0].endswith(last) else None
        )
        with pytest.raises(StoreError):
            collection.reindex(cluster=ClusterSettings(tenant_shards=names))
        server.fault = lambda method, path: None
        writer.delete(["a99"])
        writer.ingest([{"id": "e1", "text": "note of echo", "owner": "echo"}])
        for handle in (collection, writer):
            assert [hit.id for hit in handle.search("note", filter={"owner": "echo"})] == ["e1"]
        if last == "/shards":
            collection.reindex(cluster=ClusterSettings(tenant_shards=names))
            assert keys_of(writer, server)["echo"] == {"echo"}


def test_a_push_brings_chunks_to_the_shards_of_their_tenants(server):
    with opened(None) as here, opened(server, cluster=LARGE) as there:
        here.ingest(NOTES)
        assert here.push(url=server.url).copied == len(NOTES)
        assert keys_of(there, server)["bolt"] == {"bolt"}
        assert there.verify().sound


def test_shard_keys_that_a_killed_creation_has_left_out_are_made_at_the_first_write(server):
    made = []

    def fault(method: str, path: str) -> Fault | None:
        if method == "PUT" and path.partition("?")[0].endswith("/shards"):
            made.append(path)
            return Fault.UNKNOWN if len(made) == 2 else None
        return None

    server.fault = fault
    with pytest.raises(StoreError):
        opened(server, cluster=LARGE)
    assert server.actions.shards["notes"].keys == [SHARED]
    server.fault = lambda method, path: None
    with opened(server) as collection:
        collection.ingest(NOTES)
        assert keys_of(collection, server)["acme"] == {"acme"}


def test_where_there_can_be_none_it_is_said_before_anything_is_made(server):
    with pytest.raises(ConfigurationError, match="tenant_key"):
        opened(server, tenant_key=None, cluster=LARGE)
    server.peers = None
    with pytest.raises(ConfigurationError, match="cluster mode"):
        opened(server, cluster=LARGE)
    assert list_collections(url=server.url) == []
    server.be_cluster(1)
    opened(server).close()
    with pytest.raises(ConfigurationError, match="tenant_shards"):
        opened(server, cluster=LARGE)
    with pytest.raises(ConfigurationError, match="grow only in a collection that was made with them"):
        opened(server).reindex(cluster=LARGE)


@pytest.mark.parametrize("wrong", [[], ["a", "a"], ["a", ""], "acme", [7]])
def test_tenants_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigurationError, match="tenant_shards"):
        ClusterSettings(tenant_shards=wrong)


def test_commands_take_the_tenants(twinvec, server, tiny_model, tmp_path):
    (tmp_path / "notes.jsonl").write_text('{"id": "a", "text": "green tea", "owner": "acme"}\n')
    place = ("--collection", "notes", "--url", server.url, "--json")
    options = ("--tenant-key", "owner", "--cluster", "tenant_shards=acme,bolt", "--model", tiny_model("bert"))
    assert twinvec("ingest", tmp_path / "notes.jsonl", *place, *options).code == 0
    assert '"tenant_shards": ["acme", "bolt"]' in " ".join(twinvec("info", *place).out.split()).replace(
        "[ ", "["
    ).replace(" ]", "]")
    assert twinvec("reindex", *place, "--cluster", "tenant_shards=acme, bolt, cord").code == 0
    assert '"cord"' in twinvec("info", *place).out
