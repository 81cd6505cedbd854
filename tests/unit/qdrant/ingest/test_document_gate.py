"""What the gate of an ingest lets in, in which groups, and what it says of the rest."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from twinvec import Document
from twinvec.errors import DocumentError
from twinvec_qdrant import Failure
from twinvec_qdrant.ingest.document_gate import GROUP_DOCUMENTS, DocumentGate
from twinvec_qdrant.records.schema import canonical, digest

SETTINGS = {"enabled": True, "max_tokens": None, "overlap": 0}
LARGEST_GROUP = 4 * 1024 * 1024  # characters


class Gate(DocumentGate):
    """A gate that keeps what it reports."""

    def __init__(self, tenant_key: str | None = None, settings: dict = SETTINGS) -> None:
        self.failures: list[tuple[str, str]] = []
        self.repeats = 0
        self.empties: list[tuple[str, str]] = []
        super().__init__(
            settings,
            tenant_key,
            lambda *failure: self.failures.append(failure),
            self._count,
            lambda *empty: self.empties.append(empty),
        )

    def _count(self) -> None:
        self.repeats += 1

    def let_in(self, *documents: object) -> list[Document]:
        return [document for group in self.groups(documents) for document in group]


def version_of(document: object, settings: dict = SETTINGS) -> str:
    gate = Gate(settings=settings)
    (entered,) = gate.let_in(document)
    return gate.seen[entered.id]


def test_a_document_of_any_form_comes_out_as_plain_json():
    payload = {"tags": ("a", "b"), "by": {1: 2}}
    plain = Document("tea", "green", "Teas", {"tags": ["a", "b"], "by": {"1": 2}})
    for given in (
        Document("tea", "green", "Teas", payload),
        {"id": "tea", "text": "green", "title": "Teas", "payload": payload},
        {"_id": "tea", "text": "green", "title": "Teas", **payload},
    ):
        gate = Gate()
        assert gate.let_in(given) == [plain]
        assert (gate.failures, gate.repeats, gate.hidden, gate.tenants) == ([], 0, {}, set())
    assert Gate().let_in("green", "black") == [Document("0", "green"), Document("1", "black")]


def test_a_group_is_given_as_soon_as_it_has_its_documents():
    assert GROUP_DOCUMENTS == 256
    read = []
    documents = (read.append(number) or (f"d{number}", "text") for number in range(600))
    groups = Gate().groups(documents)
    sizes = []
    for group in groups:
        sizes.append(len(group))
        assert len(read) == sum(sizes), "no document of the next group is read yet"
    assert sizes == [256, 256, 88]
    assert read == list(range(600))


def test_a_group_is_given_as_soon_as_it_has_its_characters():
    half = "x" * (LARGEST_GROUP // 2)
    nearly_full = [half, half[1:], ""]
    texts = [*nearly_full, "y", *nearly_full, "y", half, half, half + half, *nearly_full]
    groups = Gate().groups([(f"d{row}", text) for row, text in enumerate(texts)])
    assert [len(group) for group in groups] == [4, 4, 2, 1, 3], "characters count from 0 in every group"


def test_documents_that_do_not_enter_fill_no_group():
    sound = [(f"d{number}", "text") for number in range(GROUP_DOCUMENTS)]
    broken = [Failure("f", "gone"), 7, ("d0", "text"), ("d0", "other")]
    assert [len(group) for group in Gate().groups([sound[0], *broken, *sound[1:], ("last", "text")])] == [256, 1]
    assert list(Gate().groups([])) == []
    assert list(Gate().groups([7])) == []


@pytest.mark.parametrize("documents", ["a text", b"bytes", {"id": "a", "text": "b"}, None, 3])
def test_what_is_no_iterable_of_documents_is_refused_at_once(documents):
    with pytest.raises(DocumentError) as caught:
        Gate().groups(documents)
    assert str(caught.value) == f"expected an iterable of documents, got {type(documents).__name__}"


@pytest.mark.parametrize("documents", [{"tea", "milk"}, frozenset({("a", "tea")})])
def test_a_set_is_refused_because_the_ids_of_its_texts_would_differ_between_processes(documents):
    with pytest.raises(DocumentError, match=r"which has no order; give a list$"):
        Gate().groups(documents)


def test_a_table_is_refused_with_what_to_give_instead():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"id": ["a"], "text": ["b"]})
    with pytest.raises(DocumentError, match=r"expected documents, got DataFrame; give its rows: table\.to_dict"):
        Gate().groups(table)
    assert [[each.id for each in group] for group in Gate().groups(table.to_dict("records"))] == [["a"]]


def test_a_table_of_arrow_is_refused_with_what_to_give_instead():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"id": ["a"], "text": ["b"]})
    with pytest.raises(DocumentError, match=r"expected documents, got Table; give its rows: table\.to_pylist\(\)"):
        Gate().groups(table)
    assert [[each.id for each in group] for group in Gate().groups(table.to_pylist())] == [["a"]]


def test_the_version_covers_all_that_decides_the_chunks():
    document = Document("tea", "green", "Teas", {"year": 1, "kind": "leaf"})
    expected = digest("green", "Teas", canonical({"year": 1, "kind": "leaf"}), canonical(SETTINGS))
    assert version_of(document) == expected == "04374802b33c8753df6375023013d276"
    assert version_of({"kind": "leaf", "id": "other", "title": "Teas", "text": "green", "year": 1}) == expected
    others = [
        version_of(Document("tea", "black", "Teas", document.payload)),
        version_of(Document("tea", "green", "", document.payload)),
        version_of(Document("tea", "Teas", "green", document.payload)),
        version_of(Document("tea", "green", "Teas", {"year": 2, "kind": "leaf"})),
        version_of(document, {**SETTINGS, "overlap": 1}),
    ]
    assert len({expected, *others}) == 6


def test_the_same_document_again_is_a_repeat_and_another_one_with_its_id_fails():
    gate = Gate()
    tea, other = Document("tea", "green"), Document("tea", "black")
    assert gate.let_in(tea, other, tea, {"id": "tea", "text": "green"}, Document("rain", "grey")) == [
        tea,
        Document("rain", "grey"),
    ]
    assert gate.repeats == 2
    assert gate.failures == [("tea", "an earlier document has the same id; the earlier document was kept")]
    assert gate.seen == {"tea": version_of(tea), "rain": version_of(("rain", "grey"))}
    assert not gate.hidden
    assert gate.let_in(tea) == [], "the documents of one ingest may come in several calls"


def test_a_sound_document_enters_behind_a_broken_one_with_its_id():
    gate = Gate()
    tea = Document("tea", "green")
    assert gate.let_in({"id": "tea"}, tea, {"id": "tea"}, Failure("tea", "gone"), tea) == [tea]
    assert gate.seen == {"tea": version_of(tea)}, "a later failure does not make it broken"
    assert [source for source, _ in gate.failures] == ["tea"] * 3
    assert gate.repeats == 1


def test_failures_to_read_are_reported_as_they_came():
    gate = Gate()
    failures = [Failure("a.md", "not UTF-8"), Failure("notes.jsonl:3", "not JSON", hides=True, below="notes.jsonl/")]
    assert gate.let_in(failures[0]) == []
    assert not gate.hidden
    assert gate.let_in(failures[1], failures[1]) == []
    assert gate.hidden == {"notes.jsonl/": 2}
    assert gate.failures == [("a.md", "not UTF-8"), *[("notes.jsonl:3", "not JSON")] * 2]
    assert gate.seen == {"a.md": "", "notes.jsonl:3": ""}
    assert gate.repeats == 0


@pytest.mark.parametrize(
    ("broken", "source"),
    [
        pytest.param({"id": "tea"}, "tea", id="a mapping"),
        pytest.param({"_id": "tea"}, "tea", id="a mapping as BEIR has it"),
        pytest.param({"id": "tea", "_id": "x"}, "tea", id="both keys"),
        pytest.param({"id": 7}, "7", id="a number"),
        pytest.param({"id": 0, "text": None}, "0", id="zero"),
        pytest.param(("tea", 5), "tea", id="a pair"),
        pytest.param(("tea", "green", "more"), "tea", id="a triple"),
        pytest.param((7, 7), "7", id="a pair with a number"),
        pytest.param(Document("tea", 5), "tea", id="a document"),
        pytest.param(SimpleNamespace(id="tea"), "tea", id="an object"),
        pytest.param({"id": "tea", "text": "green", "year": float("nan")}, "tea", id="a payload that is not JSON"),
        pytest.param({"id": "t\ud800", "text": "green"}, "t\\ud800", id="an id that cannot be printed"),
        pytest.param({"id": True, "text": "green"}, None, id="a boolean"),
        pytest.param({"id": "", "text": "green"}, None, id="an empty id"),
        pytest.param({"id": 1.5, "text": "green"}, None, id="a fraction"),
        pytest.param({"text": "green"}, None, id="a mapping without an id"),
        pytest.param((), None, id="an empty tuple"),
        pytest.param(("",), None, id="a tuple with an empty text"),
        pytest.param(7, None, id="a bare number"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_a_broken_document_is_named_by_its_id_and_hides_documents_without_one(broken, source):
    gate = Gate()
    assert gate.let_in(("first", "text"), broken, ("last", "text")) == [
        Document("first", "text"),
        Document("last", "text"),
    ]
    ((name, reason),) = gate.failures
    assert name == (source or "document 1")
    assert reason
    assert "document 1" not in reason, "the name says which, and a stream may count otherwise"
    assert gate.hidden == ({"": 1} if source is None else {})
    assert list(gate.seen) == ["first", name, "last"]
    assert gate.seen[name] == ""


def test_every_document_of_many_tenants_names_its_own():
    gate = Gate("owner")
    ada, bo = ({"id": name, "text": "x", "owner": name} for name in ("ada", "bo"))
    broken = [{"id": "c", "text": "x"}, {"id": "d", "text": "x", "owner": 5}, {"id": "e", "owner": "eve"}]
    assert [each.id for each in gate.let_in(ada, *broken, bo, ada)] == ["ada", "bo"]
    assert gate.tenants == {"ada", "bo"}
    assert gate.failures[:2] == [
        (name, f"document {name!r}: the payload must name the tenant, a string under 'owner'") for name in "cd"
    ]
    assert "no 'text'" in gate.failures[2][1]
    assert (len(gate.failures), gate.hidden, gate.repeats) == (3, {}, 1)
    assert gate.seen["c"] == gate.seen["d"] == gate.seen["e"] == ""


def test_without_tenants_a_payload_may_say_anything():
    gate = Gate()
    assert len(gate.let_in({"id": "a", "text": "x", "owner": 5}, {"id": "b", "text": "x", "owner": "bo"})) == 2
    assert gate.tenants == set()
