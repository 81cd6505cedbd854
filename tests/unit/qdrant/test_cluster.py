"""How a server keeps a collection: its shards and their copies, and what reads and writes do while a copy is away."""

from __future__ import annotations

import pytest
import tenacity
from qdrant_client import QdrantClient, models

from stand_in import Fault, StandIn
from stand_in.copies import operated, transferred
from twinvec.errors import ConfigurationError, StoreUnavailableError
from twinvec_qdrant import ClusterSettings, Collection
from twinvec_qdrant.stores.server.cluster import balanced
from words import WordEncoder

WANTED = ClusterSettings(6, replication_factor=2, write_consistency_factor=2, on_disk=True, read_consistency="majority")
PLAIN = {
    "shards": 1,
    "replication_factor": 1,
    "write_consistency_factor": 1,
    "on_disk": False,
    "read_consistency": None,
}


def opened(server: StandIn, **options) -> Collection:
    return Collection.open("notes", url=server.url, encoder=WordEncoder(max_tokens=16), wait_seconds=20, **options)


def test_a_collection_is_made_as_wanted_and_info_shows_it(server):
    with opened(server, cluster=WANTED) as collection:
        collection.ingest([("a", "some text")])
        assert collection.info()["cluster"] == {
            "shards": 6, "replication_factor": 2, "write_consistency_factor": 2, "on_disk": True,
            "read_consistency": "majority",
        }  # fmt: skip
        assert collection.search("text", 1)[0].id == "a"
    assert server.consistencies == {"majority"}
    with opened(server) as again:
        again.search("text")
        assert server.consistencies == {"majority"}, "the collection records it"
    with opened(server, cluster=ClusterSettings(read_consistency="all")) as again:
        again.search("text")
    assert server.consistencies == {"majority", "all"}


def test_without_settings_the_server_decides_and_nothing_is_recorded(server):
    with opened(server) as collection:
        collection.ingest([("a", "some text")])
        collection.search("text")
        assert collection.info()["cluster"] == PLAIN
    metadata = QdrantClient(server.url, timeout=60, check_compatibility=False).get_collection("notes").config.metadata
    assert "read_consistency" not in metadata
    assert not server.consistencies


def test_other_settings_are_refused_with_the_way_to_change_them(server):
    opened(server).close()
    with pytest.raises(ConfigurationError, match=r"replication_factor is 1, not 2(?s:.*)reindex"):
        opened(server, cluster=ClusterSettings(replication_factor=2))
    with pytest.raises(ConfigurationError, match="push"):
        opened(server).reindex(cluster=ClusterSettings(shards=4))


def test_settings_of_a_cluster_are_for_a_server(tmp_path):
    for place in ({"path": tmp_path}, {"client": QdrantClient(":memory:")}):
        with pytest.raises(ConfigurationError, match="server"):
            Collection.open("notes", **place, encoder=WordEncoder(max_tokens=16), cluster=ClusterSettings(shards=2))
    with (
        Collection.open("notes", tmp_path, encoder=WordEncoder(max_tokens=16)) as collection,
        pytest.raises(ConfigurationError, match="server"),
    ):
        collection.reindex(cluster=ClusterSettings(replication_factor=2))


def placed(*shards: tuple[int, ...]) -> models.CollectionClusterInfo:
    """Shard by shard the nodes that have a copy; the node asked is 1."""
    active = models.ReplicaState.ACTIVE
    local = [
        models.LocalShardInfo(shard_id=row, points_count=1, state=active) for row, on in enumerate(shards) if 1 in on
    ]
    remote = [
        models.RemoteShardInfo(shard_id=row, peer_id=peer, state=active)
        for row, on in enumerate(shards)
        for peer in on
        if peer != 1
    ]
    return models.CollectionClusterInfo(
        peer_id=1, shard_count=len(shards), local_shards=local, remote_shards=remote, shard_transfers=[]
    )


def test_a_change_of_the_replication_factor_makes_the_copies(server):
    with opened(server) as collection:
        collection.ingest([("a", "some text")])
        server.actions.cluster = placed((1,), (2,), (3,))
        server.be_cluster(3)
        collection.reindex(cluster=ClusterSettings(replication_factor=2))
        assert collection.info()["cluster"] == {**PLAIN, "replication_factor": 2}
    assert [list(operation) for operation in server.actions.operations] == [["replicate_shard"]] * 3


@pytest.mark.parametrize(
    "shards", [((1,), (2,), (3,)), ((1, 2), (2, 3), (1, 3)), ((1,), (1,), (1, 2)), ((1, 2, 3),) * 2]
)
@pytest.mark.parametrize("copies", [1, 2, 3, 5])
def test_every_shard_gets_so_many_copies_on_different_nodes(shards, copies):
    """``operated`` refuses a transfer whose source or target is part of another transfer of the shard."""
    info = placed(*shards)
    rounds = 0
    while (found := balanced(info, [1, 2, 3], copies))[0]:
        operations, waiting = found
        for operation in operations:
            info = operated(info, operation.model_dump(mode="json", exclude_none=True))
        assert balanced(info, [1, 2, 3], copies) == ([], waiting), "asked again, it waits for the transfers"
        info = transferred(info)
        rounds += 1
    assert found == ([], 0)
    assert rounds <= 2
    where = [(each.shard_id, each.peer_id) for each in info.remote_shards]
    where += [(each.shard_id, info.peer_id) for each in info.local_shards]
    assert len(set(where)) == len(where) == min(copies, 3) * len(shards)


def test_a_copy_that_does_not_serve_is_no_source():
    info = placed((1, 2))
    info.local_shards[0].state = models.ReplicaState.RECOVERY
    ((operation,), waiting) = balanced(info, [1, 2, 3], 3)
    assert (operation.replicate_shard.from_peer_id, operation.replicate_shard.to_peer_id) == (2, 3)
    assert waiting == 0


def test_copies_that_have_to_wait_are_made_by_the_next_call(server, caplog):
    with opened(server) as collection:
        collection.ingest([("a", "some text")])
        server.actions.cluster = placed((1,), (2,), (3,))
        server.be_cluster(3)
        collection.reindex(cluster=ClusterSettings(replication_factor=3))
        assert "3 copies of shards have to wait" in caplog.text
        caplog.clear()
        server.actions.cluster = transferred(server.actions.cluster)
        collection.reindex(cluster=ClusterSettings(replication_factor=3))
        assert not caplog.text
    assert len(server.actions.operations) == 6


def test_a_copy_whose_request_got_no_answer_is_not_made_twice(server, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._GROWING", tenacity.wait_none())
    with opened(server) as collection:
        server.actions.cluster = placed((1, 2), (1, 3), (3,))
        server.be_cluster(3)
        for copies in (2, 1):
            left = [Fault.DROPPED]
            server.fault = lambda method, path, left=left: (
                left.pop()
                if left and (method, path.partition("?")[0]) == ("POST", "/collections/notes/cluster")
                else None
            )
            collection.reindex(cluster=ClusterSettings(replication_factor=copies))
            assert not left
            server.actions.cluster = transferred(server.actions.cluster)
    assert [list(operation) for operation in server.actions.operations] == [["replicate_shard"]] + [
        ["drop_replica"]
    ] * 3


def writes(collection: Collection) -> None:
    """Everything that writes points."""
    collection.ingest([(f"n{row}", f"some text {row}") for row in range(9)])
    collection.ingest([("n0", "another text"), ("n1", "a much longer text " * 9)])
    collection.notes("memory").put({"k": {"row": 1}})
    collection.delete(["n2"])
    assert collection.verify().sound


@pytest.mark.parametrize("over_grpc", [False, True])
def test_copies_apply_all_writes_in_one_order(server, over_grpc):
    """The stand-in refuses a write of several copies without an ordering."""
    with server.over_grpc() as port:
        place = {"url": server.url, "grpc": over_grpc, "grpc_port": port, "wait_seconds": 20}
        options = {"encoder": WordEncoder(max_tokens=64), "chunking": False, "cluster": WANTED}
        with Collection.open("copied", **place, **options) as collection:
            writes(collection)
        with Collection.open("copied", **place, encoder=WordEncoder(max_tokens=64)) as again:
            again.delete(["n3"])
        asked = [path for _, path in server.asked if "ordering=" in path]
        assert asked
        assert all("ordering=medium" in path for path in asked)
        server.asked.clear()
        with Collection.open("single", **place, encoder=WordEncoder(max_tokens=64), chunking=False) as collection:
            writes(collection)
        assert not any("ordering=" in path for _, path in server.asked), "an order costs time, and one copy needs none"


def test_a_write_that_a_copy_of_a_shard_missed_is_repeated(server, monkeypatch, clock):
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._GROWING", tenacity.wait_none())
    with opened(server) as collection:
        left = [4]

        def fault(method: str, path: str) -> Fault | None:
            left[0] -= method == "PUT"
            return Fault.REPLICA if method == "PUT" and left[0] >= 0 else None

        server.fault = fault
        assert collection.ingest([("a", "some text")]).new == 1
        assert server.met == [Fault.REPLICA] * 4
        server.fault = lambda method, path: Fault.REPLICA if method == "PUT" else None
        monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._GROWING", tenacity.wait_fixed(30))
        with pytest.raises(StoreUnavailableError, match="failed to apply operation"):
            collection.ingest([("b", "other text")])


def test_commands_take_the_settings(twinvec, server, tiny_model, tmp_path):
    (tmp_path / "tea.txt").write_text("Green tea is brewed at 80 degrees.")
    place = ("--collection", "notes", "--url", server.url, "--json")
    options = ("--cluster", "replication_factor=2", "--cluster", "on_disk=true", "--cluster", "read_consistency=quorum")
    done = twinvec("ingest", tmp_path / "tea.txt", *place, "--model", tiny_model("bert"), *options)
    assert done.code == 0, done.err
    shown = twinvec("info", *place).out
    assert '"replication_factor": 2' in shown
    assert '"read_consistency": "quorum"' in shown
    assert twinvec("reindex", *place, "--cluster", "write_consistency_factor=2").code == 0
    assert '"write_consistency_factor": 2' in twinvec("info", *place).out
    assert "no setting" in twinvec("reindex", *place, "--cluster", "nodes=2").err


@pytest.mark.parametrize(
    "values",
    [
        {"shards": 0}, {"shards": True}, {"replication_factor": 1.5}, {"read_consistency": "some"},
        {"read_consistency": 0}, {"on_disk": "yes"}, {"replication_factor": 1, "write_consistency_factor": 2},
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_refused(values):
    with pytest.raises(ConfigurationError):
        ClusterSettings(**values)
