"""The sources of a collection: several folders side by side, each one pruned for itself."""

from __future__ import annotations

import shutil
from contextlib import suppress

import pytest
from qdrant_client import QdrantClient

from deaths import Died
from stand_in import StandIn
from twinvec.errors import ConfigurationError, DocumentError, TextError
from twinvec_qdrant import Collection, RecordColumns, Root
from twinvec_qdrant.ingest import planned
from twinvec_qdrant.ingest.ingestion import Ingestion
from twinvec_qdrant.maintenance.push import _Push
from twinvec_qdrant.records import roots as stored_roots
from twinvec_qdrant.records.documents import find_documents
from twinvec_qdrant.records.roots import Roots
from twinvec_qdrant.stored_roots import StoredRoot
from twinvec_qdrant.updates.updating import update_collection
from words import WordEncoder


def fill(folder, *names, text="text"):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text} {name} of {folder.name}")
    return folder


@pytest.fixture
def folders(tmp_path):
    """Two folders with files of the same names."""
    return [fill(tmp_path / name, "README.md", "deep/x.md") for name in ("guides", "minutes")]


def root(folder, **options):
    return Root(str(folder), **options)


def counts(report):
    return report.new, report.updated, report.unchanged, report.deleted


def names(collection):
    return [(each["name"], each["documents"]) for each in collection.info().get("roots", [])]


BOTH = ["README.md", "deep/x.md", "minutes:README.md", "minutes:deep/x.md"]


def test_two_folders_with_the_same_file_names(collection, folders, words):
    for folder in folders:
        assert counts(collection.ingest(root(folder), prune=True)) == (2, 0, 0, 0)
    assert sorted(collection.find()) == BOTH
    words.encoded.clear()
    for folder in reversed(folders):
        assert counts(collection.ingest(root(folder), prune=True)) == (0, 0, 2, 0)
    assert words.encoded == []
    assert names(collection) == [("guides", 2), ("minutes", 2)]
    assert collection.info()["sources"] == 4
    assert [each["location"] for each in collection.info()["roots"]] == list(map(str, folders))
    assert collection.get(["README.md", "minutes:README.md"])[1].text == "text README.md of minutes"


def test_pruning_one_leaves_the_other(collection, folders):
    guides, minutes = folders
    for folder in folders:
        collection.ingest(root(folder))
    (minutes / "README.md").unlink()
    assert counts(collection.ingest(root(minutes), prune=True)) == (0, 0, 1, 1)
    assert sorted(collection.find()) == [each for each in BOTH if each != "minutes:README.md"]
    shutil.rmtree(guides / "deep")
    assert counts(collection.ingest(root(guides), prune=True)) == (0, 0, 1, 1)
    assert sorted(collection.find()) == ["README.md", "minutes:deep/x.md"]
    (minutes / "deep" / "x.md").unlink()
    with pytest.raises(DocumentError, match="would remove all 1 "):
        collection.ingest(root(minutes), prune=True)
    assert counts(collection.ingest(root(minutes), prune=True, allow_empty=True)) == (0, 0, 0, 1)
    assert collection.find() == ["README.md"]


def test_documents_of_python_are_the_first_sources_unless_they_name_one(collection):
    collection.ingest([("a", "tea"), ("b", "milk")])
    collection.ingest([("a", "tax"), ("b", "fees")], source="tax", vectors={"a": [1.0] * 64})
    assert sorted(collection.find()) == ["a", "b"]  # claimed: they were nobody's
    collection.ingest([("a", "moon")], source="moon", vectors={"a": [1.0] * 64}, prune=True)
    assert sorted(collection.find()) == ["a", "b", "moon:a"]
    assert collection.search_vector([1.0] * 64, 1)[0].id in ("a", "moon:a")
    assert counts(collection.ingest([("a", "tax")], prune=True)) == (0, 0, 1, 1)
    assert sorted(collection.find()) == ["a", "moon:a"]


def test_an_id_that_begins_as_those_of_another_source_fails(collection, folders):
    for folder in folders:
        collection.ingest(root(folder))
    report = collection.ingest([("minutes:README.md", "mine"), ("minutes", "fine")])
    assert counts(report) == (1, 0, 0, 0)
    assert report.failures[0][0] == "minutes:README.md"
    assert "another source" in report.failures[0][1]
    assert collection.get(["minutes:README.md"])[0].text == "text README.md of minutes"


def test_a_name_that_begins_ids_already_is_refused(collection, folders):
    collection.ingest([("minutes:1", "of the board")])
    collection.ingest(root(folders[0]))
    with pytest.raises(ConfigurationError, match="begin with 'minutes:' already"):
        collection.ingest(root(folders[1]))
    assert counts(collection.ingest(root(folders[1]), source="board")) == (2, 0, 0, 0)


@pytest.mark.parametrize("name", ["", " ", "a:b", "line\n"])
def test_a_name_that_cannot_be_one_is_refused(collection, name):
    with pytest.raises(ConfigurationError, match="cannot name a source"):
        collection.ingest([("a", "tea")], source=name)
    assert names(collection) == []


def test_a_folder_that_moved_is_the_same_source(collection, folders, tmp_path, caplog):
    for folder in folders:
        collection.ingest(root(folder))
    moved = (tmp_path / "elsewhere").mkdir() or folders[1].rename(tmp_path / "elsewhere" / "minutes")
    for dry_run, what in ((True, "would move"), (False, "has moved")):
        caplog.clear()
        assert counts(collection.ingest(root(moved), prune=True, dry_run=dry_run)) == (0, 0, 2, 0)
        assert caplog.messages == [f"the source 'minutes' {what} from {folders[1]} to {moved}"]
    assert collection.info()["roots"][1]["location"] == str(moved)


@pytest.mark.parametrize(("part", "kind"), [("README.md", "file"), ("deep", "folder")])
def test_a_part_of_a_folder_does_not_become_the_source_by_its_name(part, kind, collection, folders):
    """The next update would delete the documents of the other parts."""
    collection.ingest(root(folders[0]))
    with pytest.raises(ConfigurationError, match=f"'guides' reads {folders[0] / part}; to read the {kind} again"):
        collection.ingest(root(folders[0] / part), source="guides")
    assert counts(collection.ingest(root(folders[0]), source="guides", prune=True)) == (0, 0, 2, 0)
    assert counts(collection.ingest(root(folders[0] / part), source="part")) == (1, 0, 0, 0)


def test_another_folder_of_the_same_name_is_refused_unless_it_is_named(collection, folders, tmp_path):
    collection.ingest(root(folders[0]))
    other = fill(tmp_path / "other" / "guides", "README.md", text="other")
    with pytest.raises(ConfigurationError, match=r"its source 'guides' is .*--source NAME"):
        collection.ingest(root(other), prune=True)
    assert counts(collection.ingest(root(other), source="more")) == (1, 0, 0, 0)
    assert sorted(collection.find()) == ["README.md", "deep/x.md", "more:README.md"]
    assert counts(collection.ingest(root(other), source="guides", prune=True)) == (0, 1, 0, 1)
    assert collection.info()["roots"][0]["location"] == str(other)


def test_a_place_on_another_machine_does_not_stand_in_the_way(collection, folders, place, tmp_path, monkeypatch):
    collection.ingest(root(folders[0]))
    other = fill(tmp_path / "other" / "guides", "README.md", text="other")
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    if "path" in place:  # one machine has an embedded store: the folder is still there, only the machine's name is new
        with pytest.raises(ConfigurationError, match="its source 'guides' is"):
            collection.ingest(root(other))
        shutil.move(folders[0], tmp_path / "gone")
    assert counts(collection.ingest(root(other))) == (0, 1, 0, 0)


def test_fewer_files_of_the_same_folder_are_no_silent_change(collection, folders):
    collection.ingest(root(folders[0]))
    few = root(folders[0], include=("/README.md",))
    with pytest.raises(ConfigurationError, match=r"reads all files of .*; to read only /README.md from now on"):
        collection.ingest(few, prune=True)
    assert counts(collection.ingest(few, source="guides", prune=True)) == (0, 0, 1, 1)
    fill(folders[0], "new [1].md")
    files = root(folders[0], include=("/README.md", r"/new \[1\].md"))
    assert counts(collection.ingest(files, prune=True)) == (1, 0, 1, 0)  # other files, named one by one
    assert counts(collection.ingest(root(folders[0]))) == (1, 0, 2, 0)  # more than before


def test_a_single_file_of_a_source_is_no_silent_second_source(collection, folders):
    collection.ingest(root(folders[0], exclude=("drafts/",)))
    fill(folders[0], "new.md", "drafts/a.md")
    for name in ("README.md", "deep/x.md", "new.md"):
        for dry_run in (True, False):
            with pytest.raises(ConfigurationError, match=r"source 'guides' reads .*; to read the file again, ingest "):
                collection.ingest(root(folders[0] / name), dry_run=dry_run)
    assert names(collection) == [("guides", 2)]
    assert counts(collection.ingest(root(folders[0] / "README.md"), source="more")) == (1, 0, 0, 0)
    assert counts(collection.ingest(root(folders[0] / "drafts/a.md"))) == (1, 0, 0, 0)  # guides leaves it out
    assert counts(collection.ingest(root(folders[1] / "README.md"))) == (1, 0, 0, 0)
    assert counts(collection.ingest(root(folders[1]))) == (2, 0, 0, 0)
    assert counts(collection.ingest(root(folders[1] / "README.md"))) == (0, 0, 1, 0)  # it was a source before


def test_a_folder_in_another_source_or_around_it_is_told(collection, folders, tmp_path, caplog):
    def told(folder, *, source=None, **options):
        caplog.clear()
        collection.ingest(root(folder, **options), source=source)
        return [message.partition(": ")[2].partition(": files")[0] for message in caplog.messages]

    guides, minutes = folders
    fill(guides, "drafts/a.md")
    fill(tmp_path / "deeper", "x.md")
    assert told(guides, exclude=("drafts/",)) == []
    assert told(guides / "deep") == [
        f"the source 'deep' ({guides / 'deep'}) lies in the folder of the source 'guides' ({guides})"
    ]
    assert told(guides / "deep") == [], "it is known already"
    assert told(guides / "drafts") == [], "the source leaves it out"
    assert told(tmp_path / "deeper") == []
    assert told(minutes / "README.md") == []
    assert told(minutes) == [
        f"the source 'README.md' ({minutes / 'README.md'}) lies in the folder of the source 'minutes' ({minutes})"
    ]
    assert told(minutes, source="again", include=("*.txt",)) == [], "other files of the same folder"


@pytest.mark.parametrize("ending", ["md", "ndjson"])
def test_other_single_files_of_a_folder_are_added_to_the_source_unless_it_is_pruned(collection, tmp_path, ending):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.{ending}").write_text(f'{{"id": "1", "text": "text of {name}"}}')

    def files(*named):
        return root(folder, include=tuple(f"/{name}.{ending}" for name in named), exclude=("/*/",), gitignore=False)

    def held():
        return "".join(sorted(each[0] for each in collection.find()))

    collection.ingest(files("a", "b"))
    collection.ingest(files("c", "d"))
    update_collection(collection)
    assert held() == "abcd"
    (folder / f"a.{ending}").unlink()
    update_collection(collection)
    assert held() == "bcd"
    collection.ingest(files("c", "d"), prune=True)
    assert held() == "cd"
    update_collection(collection)
    assert held() == "cd"


def test_documents_of_an_old_collection_are_pruned_only_by_the_source_that_claims_them(collection, folders, caplog):
    collection.ingest([("README.md", "old"), ("other.md", "of another folder")])
    for folder in folders:
        with pytest.raises(ConfigurationError, match="were ingested without a source"):
            collection.ingest(root(folder), prune=True)
    assert (names(collection), sorted(collection.find())) == ([], ["README.md", "other.md"])
    for dry_run, told in ((True, "would be"), (False, "is")):
        caplog.clear()
        report = collection.ingest(root(folders[0]), source="guides", prune=True, dry_run=dry_run)
        assert counts(report) == (1, 1, 0, 1)
        assert caplog.messages == report.warnings
        assert report.warnings[0].startswith(f"1 document that was ingested without a source {told} removed")
    (folders[0] / "README.md").unlink()
    assert collection.ingest(root(folders[0]), prune=True).warnings == []
    assert collection.ingest(root(folders[1]), prune=True).warnings == []
    assert sorted(collection.find()) == BOTH[1:]


def test_documents_of_an_old_collection_belong_to_the_first_source_that_is_ingested(collection, folders):
    collection.ingest([("README.md", "old"), ("other.md", "old")])
    assert counts(collection.ingest(root(folders[0]))) == (1, 1, 0, 0)
    assert counts(collection.ingest(root(folders[0]), prune=True)) == (0, 0, 2, 1)


def test_a_dry_run_stores_no_source(collection, folders):
    for folder in folders:  # the second would be the first, too
        assert counts(collection.ingest(root(folder), dry_run=True)) == (2, 0, 0, 0)
    assert names(collection) == []
    collection.ingest(root(folders[0]))
    assert counts(collection.ingest(root(folders[1]), prune=True, dry_run=True)) == (2, 0, 0, 0)
    assert names(collection) == [("guides", 2)]


def test_a_folder_that_cannot_be_read_is_no_source(collection, tmp_path):
    with pytest.raises(DocumentError, match="No such file"):
        collection.ingest(root(tmp_path / "none"))
    assert names(collection) == []


def test_death_before_the_first_commit(collection, folders, monkeypatch):
    def die(*arguments, **named):
        raise Died

    collection.ingest(root(folders[0]))
    with monkeypatch.context() as dying:
        dying.setattr("twinvec_qdrant.ingest.ingestion.Ingestion.run", die)
        with pytest.raises(Died):
            collection.ingest(root(folders[1]))
    assert names(collection) == [("guides", 2), ("minutes", 0)]
    assert counts(collection.ingest(root(folders[0]), prune=True)) == (0, 0, 2, 0)
    assert counts(collection.ingest(root(folders[1]), prune=True)) == (2, 0, 0, 0)
    assert sorted(collection.find()) == BOTH


def test_two_writers_register_at_the_same_moment(folders, monkeypatch):
    with StandIn().running() as server:
        handles = [
            Collection.open("notes", url=server.url, encoder=WordEncoder(), chunking=False, create=create)
            for create in (True, False)
        ]
        between = [lambda: counts(handles[1].ingest(root(folders[1])))]
        point = stored_roots._point

        def overtaken(*arguments):
            if between:
                assert between.pop()() == (2, 0, 0, 0)
            return point(*arguments)

        monkeypatch.setattr(stored_roots, "_point", overtaken)
        assert counts(handles[0].ingest(root(folders[0]))) == (2, 0, 0, 0)
        assert names(handles[0]) == names(handles[1]) == [("minutes", 2), ("guides", 2)]
        assert sorted(handles[0].find()) == ["README.md", "deep/x.md", "guides:README.md", "guides:deep/x.md"]
        for each in handles:
            each.close()


def test_a_source_of_an_ingest_that_ends_with_an_error_stays_only_with_documents(collection):
    def broken(*texts):
        yield from texts
        raise OSError("the connection broke")

    collection.ingest([("a", "a text")], source="main")
    for given, name in ((broken(), "mistyped"), (broken(("b", 1)), "wrong")):
        with pytest.raises(OSError, match="the connection broke"):
            collection.ingest(given, source=name)
    with pytest.raises(OSError, match="the connection broke"):
        collection.ingest(broken(*[(f"{number}", f"text {number}") for number in range(3000)]), source="right")
    assert [name for name, _ in names(collection)] == ["main", "right"]


@pytest.mark.parametrize("error", [OSError, None])
def test_a_first_source_that_stores_nothing_takes_no_documents_over(collection, error):
    """Otherwise the right source would be the second one, and store all documents a second time."""

    def broken():
        yield "b", 1
        if error is not None:
            raise error

    collection.ingest([("a", "a text")])
    with suppress(OSError):
        collection.ingest(broken(), source="mistyped", allow_all_failed=True)
    assert names(collection) == []
    assert counts(collection.ingest([("a", "a text")], source="right", prune=True)) == (0, 0, 1, 0)
    assert collection.find() == ["a"]


def test_a_new_source_of_another_ingest_is_not_pruned(collection, monkeypatch):
    collection.ingest([("a", "the first text"), ("b", "an old text")], source="main")
    run = Ingestion.run

    def overtaken(self, *arguments, **options):
        monkeypatch.setattr(Ingestion, "run", run)
        collection.ingest([("a", "a text of another source")], source="right")
        return run(self, *arguments, **options)

    monkeypatch.setattr(Ingestion, "run", overtaken)
    assert counts(collection.ingest([("a", "the first text")], source="main", prune=True)) == (0, 0, 1, 1)
    assert names(collection) == [("main", 1), ("right", 1)]


def test_a_new_source_of_another_ingest_is_not_deleted_with_the_first(collection, monkeypatch):
    collection.ingest([("a", "the first text")], source="main")

    def overtaken(*arguments):
        monkeypatch.setattr("twinvec_qdrant.collection.find_documents", find_documents)
        collection.ingest([("a", "a text of another source")], source="right")
        return find_documents(*arguments)

    monkeypatch.setattr("twinvec_qdrant.collection.find_documents", overtaken)
    assert collection.delete_source("main") == 1
    assert collection.find() == ["right:a"]


def opened(server, name="notes", **options):
    return Collection.open(name, url=server.url, encoder=WordEncoder(), chunking=False, **options)


def test_a_source_that_is_removed_during_its_ingest_stays_with_its_documents(server):
    with opened(server) as collection, opened(server) as other:
        collection.ingest([("a", "the first text")], source="main")
        collection.ingest([("b", "an old text")], source="right", describe={"": "about right"})

        def documents():
            yield "c", "a new text"
            assert other.delete_source("right") == 1
            yield "d", "another text"

        assert counts(collection.ingest(documents(), source="right")) == (2, 0, 0, 0)
        assert names(other) == [("main", 1), ("right", 2)]
        assert other.described(["right:c"]) == {"right:c": "about right"}
        assert counts(other.ingest([("a", "the first text")], source="main", prune=True)) == (0, 0, 1, 0)


def test_documents_of_an_ingest_that_dies_have_a_source_although_it_was_removed(server, monkeypatch):
    monkeypatch.setattr(planned, "BATCH_CHUNKS", 1)
    with opened(server) as collection, opened(server) as other:
        collection.ingest([("a", "the first text")], source="main")
        write = collection._catalog.write

        def removed_then_dead(*arguments):
            lost, written = write(*arguments), other.find(source="right")
            if written == ["right:b"]:
                assert other.delete_source("right") == 1
            elif written:
                raise Died
            return lost

        monkeypatch.setattr(collection._catalog, "write", removed_then_dead)
        with pytest.raises(Died):
            collection.ingest([("b", "a text"), ("c", "another text"), ("d", "a third text")], source="right")
        assert names(other) == [("main", 1), ("right", 1)]


def test_documents_of_a_commit_after_which_the_ingest_dies_have_a_source_although_it_was_removed(server, monkeypatch):
    with opened(server) as collection, opened(server) as other:
        collection.ingest([("a", "the first text")], source="main")
        collection.ingest([("b", "an old text")], source="right")
        commit = collection._backend.commit

        def between(*arguments):
            assert other.delete_source("right") == 1
            commit(*arguments)
            raise Died

        monkeypatch.setattr(collection._backend, "commit", between)
        with pytest.raises(Died):
            collection.ingest([("c", "a new text")], source="right")
        assert names(other) == [("main", 1), ("right", 1)]


@pytest.mark.parametrize("source", ["main", "right"])
@pytest.mark.parametrize("who", ["the removal", "the ingest"])
def test_a_source_that_a_killed_process_has_removed_comes_back_with_the_next_ingest(server, monkeypatch, source, who):
    """Two processes work at once, and one is killed; its last request may reach the server after its end."""
    with opened(server) as collection, opened(server) as other, opened(server) as third:
        for name in ("main", "right"):
            collection.ingest([("a", f"a text of {name}")], source=name, describe={"": f"about {name}"})
        if who == "the removal":
            remove = Roots.remove

            def overtaken(self, name):
                monkeypatch.undo()
                other.ingest([("b", "a new text")], source=source)
                remove(self, name)
                raise Died

            monkeypatch.setattr(Roots, "remove", overtaken)
            with pytest.raises(Died):
                collection.delete_source(source)
        else:
            commit = collection._backend.commit

            def late(*arguments):
                monkeypatch.undo()
                with monkeypatch.context() as patched:
                    patched.setattr("twinvec_qdrant.records.intents.Intents.running", lambda self: set())
                    assert other.delete_source(source) == 1
                commit(*arguments)
                raise Died

            monkeypatch.setattr(collection._backend, "commit", late)
            with pytest.raises(Died):
                collection.ingest([("b", "a new text")], source=source)
        assert len(names(third)) == 1
        third.ingest([("c", "another text")], source="left")
        assert sorted(names(third)) == [("left", 1), ("main", 1), ("right", 1)]
        assert set(third.described(third.find(source=source)).values()) == {f"about {source}"}


@pytest.mark.parametrize("source", ["main", "right"])
def test_documents_that_are_stored_while_their_source_is_removed_keep_it(server, monkeypatch, source):
    with opened(server) as collection, opened(server) as other:
        for name in ("main", "right"):
            collection.ingest([("a", f"a text of {name}")], source=name)
        remove = Roots.remove

        def overtaken(self, name):
            monkeypatch.setattr(Roots, "remove", remove)
            other.ingest([("b", "a new text")], source=source)
            remove(self, name)

        monkeypatch.setattr(Roots, "remove", overtaken)
        assert collection.delete_source(source) == 1
        assert sorted(names(other)) == [("main", 1), ("right", 1)]
        assert collection.delete_source(source) == 1
        assert len(names(other)) == 1


def test_a_source_whose_ingest_stores_nothing_is_kept_for_the_documents_of_another_ingest(server, monkeypatch):
    with opened(server) as collection, opened(server) as other:
        collection.ingest([("a", "the first text")], source="main")
        remove = Roots.remove

        def overtaken(self, name):
            monkeypatch.setattr(Roots, "remove", remove)
            other.ingest([("b", "a new text")], source="right")
            remove(self, name)

        monkeypatch.setattr(Roots, "remove", overtaken)
        collection.ingest([], source="right")
        assert names(other) == [("main", 1), ("right", 1)]


def test_the_first_source_is_not_kept_beside_another_first_one(server):
    with opened(server) as collection, opened(server) as other:
        collection.ingest([("a", "the first text")], source="main")

        def documents():
            other.delete_source("main")
            other.ingest([("b", "a text")], source="right")
            yield "c", "a new text"

        collection.ingest(documents(), source="main")
        assert names(other) == [("right", 2)]


def test_the_limits_of_a_strict_server_leave_room_for_sources(strict, folders):
    client = QdrantClient(strict.url, timeout=60, check_compatibility=False)
    with Collection.open("notes", client=client, encoder=WordEncoder(), chunking=False, wait_seconds=20.0) as strictly:
        for folder in folders * 2:
            strictly.ingest(root(folder), prune=True)
        assert names(strictly) == [("guides", 2), ("minutes", 2)]


def test_a_copy_has_the_sources_too(collection, folders, words):
    for folder in folders:
        collection.ingest(root(folder), describe={"deep": "Old papers"})
    client = QdrantClient(":memory:")
    collection.push(client=client, prune=True)
    with Collection.open("notes", client=client, encoder=words) as copy:
        assert copy.info()["roots"] == collection.info()["roots"]
        assert counts(copy.ingest(root(folders[1]), prune=True)) == (0, 0, 2, 0)


@pytest.mark.parametrize("prune", [False, True])
def test_a_copy_keeps_sources_of_its_own_until_a_push_prunes(collection, folders, words, prune):
    client = QdrantClient(":memory:")
    collection.ingest(root(folders[0]), describe={"": "Guides"})
    collection.push(client=client)
    with Collection.open("notes", client=client, encoder=words) as copy:
        copy.ingest(root(folders[1]))
        collection.ingest([("agenda", "text")], source="meetings")
        report = collection.push(client=client, prune=prune)
        assert (report.copied, report.deleted) == (1, 2 * prune)
        kept = [] if prune else [("minutes", 2)]
        assert names(copy) == [("guides", 2), ("meetings", 1), *kept]
        assert copy.described(["README.md"]) == {"README.md": "Guides"}
        assert counts(copy.ingest(root(folders[0]), prune=True)) == (0, 0, 2, 0)
        assert copy.count() == (3 if prune else 5)
        assert names(collection) == [("guides", 2), ("meetings", 1)]


@pytest.mark.parametrize("ends", ["killed", "without the source"])
def test_documents_of_an_unfinished_push_belong_to_their_source(collection, folders, words, monkeypatch, ends):
    for folder in folders:
        collection.ingest(root(folder))
    copy_notes, client = _Push._copy_notes, QdrantClient(":memory:")

    def end(push):
        if ends == "killed":
            raise Died
        collection.delete_source("minutes")
        return copy_notes(push)

    monkeypatch.setattr(_Push, "_copy_notes", end)
    with suppress(Died):
        collection.push(client=client)
    with Collection.open("notes", client=client, encoder=words) as copy:
        assert names(copy) == [("guides", 2), ("minutes", 2)]
        copy.ingest(root(folders[0]), prune=True)
        assert copy.count() == 4


@pytest.mark.parametrize(
    ("describe", "error"),
    [
        ({"caf\udce9": "text"}, TextError),
        ({"": "\ud800"}, TextError),
        ({"": 5}, TextError),
        ({5: "text"}, TextError),
        ("text", ConfigurationError),
    ],
)
def test_a_description_that_cannot_be_kept_is_refused_before_anything_is_written(collection, folders, describe, error):
    for documents, source in ((root(folders[0]), None), ([("a", "text")], "own")):
        with pytest.raises(error, match="describe"):
            collection.ingest(documents, source=source, describe=describe)
    assert (collection.roots(), collection.count()) == ([], 0)


def test_of_a_source_whose_patterns_cannot_be_kept_only_the_name_is(collection, folders):
    assert counts(collection.ingest(root(folders[0], include=("*.md",), exclude=("caf\udce9",)))) == (2, 0, 0, 0)
    assert collection.roots() == [StoredRoot("guides", first=True)]


def test_sources_are_no_notes_of_the_user(collection, folders):
    collection.ingest(root(folders[0]))
    assert collection.count() == 2
    assert collection.verify().sound
    assert list(collection.notes("roots").find()) == []


def test_how_a_source_is_read_is_kept(collection, folders):
    options = {"include": ("*.md",), "exclude": ("deep/",), "gitignore": False, "columns": RecordColumns(id="key")}
    collection.ingest(root(folders[0], **options))
    stored = Roots(collection._backend).all()["guides"]
    assert Root.from_dict({**stored.options, "path": stored.location}) == root(folders[0], **options)
    newer = {**stored.as_fields(), "not yet known": 1}
    assert StoredRoot.of_fields(newer) == stored


def test_descriptions_are_those_of_the_innermost_folder(collection, folders):
    collection.ingest(root(folders[0]), describe={"": "Guides", "deep/": "Old papers", "dee": "no folder"})
    described = Roots(collection._backend).all()["guides"].description
    assert [described(each) for each in ("README.md", "deep/x.md", "deeper.md")] == ["Guides", "Old papers", "Guides"]
    collection.ingest(root(folders[0]), describe={"deep": ""})
    assert collection.info()["roots"][0]["described"] == {"": "Guides", "dee": "no folder"}
    with pytest.raises(ConfigurationError, match="describe needs a source"):
        collection.ingest([("a", "tea")], describe={"": "Tea"})
    collection.ingest([("old/a", "tea")], source="wiki", describe={"old/": "Old pages"})
    assert Roots(collection._backend).all()["wiki"].description("wiki:old/a") == "Old pages"
