"""What the command line alone shows to be wrong ends with exit code 2, before anything is opened or written."""

from __future__ import annotations

import pytest

from twinvec_qdrant.cli.filters import filter_hints, parse_filter_options


@pytest.fixture
def refused(twinvec, tmp_path, monkeypatch):
    """``refused("info", ...)``: what a command says that ends with exit code 2 and leaves the folder as it was."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "text": "tea"}\n')

    def run(*arguments):
        done = twinvec(*arguments)
        assert (done.code, done.out) == (2, ""), done.err
        assert [each.name for each in tmp_path.iterdir()] == ["rows.jsonl"]
        return " ".join(done.err.replace("│", " ").split())  # without the box

    return run


@pytest.mark.parametrize("filter", ['{"year": {"above": 3}}', '{"or": [{"year": {"above": 3}}]}'])
def test_a_filter_that_the_language_does_not_know(refused, filter):
    for command in (("search", "tea"), ("delete", "--yes")):
        said = refused(*command, "-c", "docs", "--filter", filter)
        assert "filter 'year': unknown operator 'above'; known operators: eq, ne," in said
    assert "gte takes a number, or a date in ISO 8601" in refused("search", "tea", "--filter", "year>=soon")


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ('team=["hr", "it"]', """'{"team": ["hr", "it"]}', or 'team="[\\"hr\\", \\"it\\"]"'"""),
        ("team=null", """'{"team": {"null": true}}', or 'team="null"'"""),
        ('team={"ne": "it"}', """'{"team": {"ne": "it"}}', or """),
        ("team!=[]", """'{"not": {"team": []}}', or 'team!="[]"'"""),
    ],
)
def test_a_value_of_a_condition_that_is_no_single_value(refused, condition, meant):
    """As a text, the list would find nothing."""
    said = refused("search", "tea", "-c", "docs", "--filter", condition)
    assert f"write {meant}" in said


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "9999999999999999999", "\udcff"])
def test_a_value_that_no_payload_can_have(refused, value):
    for sign in ("=", "!=", ">="):
        assert "filter 'year': " in refused("search", "tea", "-c", "docs", "--filter", f"year{sign}{value}")


@pytest.mark.parametrize(
    ("conditions", "filter"),
    [
        (["year>=2022", "year>=2020"], {"and": [{"year": {"gte": 2022}}, {"year": {"gte": 2020}}]}),
        (["year>=2020", "year<2022"], {"year": {"gte": 2020, "lt": 2022}}),
        (["team=hr", "team=it"], {"team": ["hr", "it"]}),
        (["team!=hr", "team!=it"], {"and": [{"team": {"ne": "hr"}}, {"team": {"ne": "it"}}]}),
    ],
)
def test_all_conditions_hold_except_of_several_equalities_of_one_key(conditions, filter):
    """If the last bound replaced the first, ``twinvec delete`` would remove too many documents."""
    assert parse_filter_options(conditions) == filter


@pytest.mark.parametrize("url", ["foo", "localhost:6333", "http://", "ftp://host", "http://host:99999", "http://[::1"])
@pytest.mark.parametrize(
    "command",
    [
        ("search", "tea", "-c", "docs", "--url"),
        ("ingest", "rows.jsonl", "-c", "docs", "--url"),
        ("collections", "--url"),
        ("push", "-c", "docs", "--to-url"),
        ("adopt", "-c", "docs", "--layout", "langchain", "--url"),
        ("adopt", "-c", "docs", "--layout", "langchain", "--url", "http://localhost:1", "--to-url"),
    ],
    ids=lambda command: " ".join((command[0], command[-1])),
)
def test_an_address_that_is_none(refused, command, url):
    said = refused(*command, url)
    assert f"'{command[-1]}'" in said
    assert "expected the address of a server, http://host:port or https://host:port" in said


def test_an_address_that_is_none_is_not_quoted(refused, monkeypatch):
    monkeypatch.setenv("TWINVEC_URL", "htp://user:secret@host")
    said = refused("info", "-c", "docs")
    assert "TWINVEC_URL" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("command", "other"),
    [
        (("ingest", "rows.jsonl", "-c", "docs", "--path"), "--url"),
        (("search", "tea", "-c", "docs", "--path"), "--url"),
        (("push", "-c", "docs", "--to-path"), "--to-url"),
    ],
)
def test_an_address_is_no_folder(refused, command, other):
    """Without the check, an ingest made the folder ``http:``."""
    said = refused(*command, "http://localhost:6333")
    assert f"expected a folder; the address of a server is given with {other}" in said


@pytest.mark.parametrize(
    "command",
    [
        ("search", "tea", "-c", "docs", "--path"),
        ("ingest", "rows.jsonl", "-c", "docs", "--path"),
        ("push", "-c", "docs", "--to-path"),
        ("tune", "-c", "docs", "--ir"),
        ("encode", "rows.jsonl", "-o"),
        ("restore",),
    ],
    ids=" ".join,
)
def test_an_empty_text_is_no_path(refused, command):
    """Without the check, a script whose variable is not set used the current folder."""
    assert "a path cannot be an empty text; '.' names the current folder" in refused(*command, "")


def test_a_folder_named_like_an_address_is_a_store_if_it_is_there(twinvec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "http:" / "localhost:6333").mkdir(parents=True)
    assert twinvec("collections", "--path", "http://localhost:6333").code == 0


def test_a_restored_collection_has_a_name_that_can_be_served(refused):
    for options in ((), ("--overwrite",)):
        said = refused("restore", "backup", "-c", "a/b", *options)
        assert "'a/b' cannot be the name of a new collection" in said


def test_a_payload_key_may_be_named_like_a_combination():
    indexes = {"payload_indexes": {"lang": "keyword"}}
    unknown = "the collection has no index of the key 'team'; it has indexes of lang"
    for key in ("and", "or", "not"):
        for wanted in (3, "x", [1], ["x"], {"gte": 3}):
            assert list(filter_hints({key: wanted, "team": "hr"}, indexes)) == [unknown]
    assert list(filter_hints({"and": [{"and": [1]}, {"team": "hr"}]}, indexes)) == [unknown]


@pytest.mark.parametrize("command", [("backup", "copy", "-c", "docs"), ("restore", "copy")])
def test_a_backup_of_an_embedded_store_is_not_mistaken_for_one_of_a_server(refused, command, monkeypatch):
    said = "a Qdrant server is named (--url, TWINVEC_URL or twinvec.toml), and it makes snapshots itself"
    assert said in refused(*command, "--url", "http://localhost:6333")
    monkeypatch.setenv("TWINVEC_URL", "http://localhost:6333")
    assert said in refused(*command)
