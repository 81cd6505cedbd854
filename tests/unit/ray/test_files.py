"""Tests of ``read``, from files to Ray datasets, and of ``write``, from Ray datasets to folders."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deaths import Died
from twinvec.errors import ConfigurationError, DocumentError, EngineError, InputError
from twinvec.support.lines import read_texts
from twinvec_ray import files, read, write
from twinvec_ray.files import check_output
from watched_disk import disk_steps

TEXTS = ["a dog runs", "", "日本語"]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("none.parquet", InputError, "none.parquet: no such file or folder"),
        ("none", InputError, "none: no such file or folder"),
        ("notes.pdf", ConfigurationError, r"expected .parquet, .jsonl, .txt, .lance, or a folder of Parquet files"),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path, name, error, message):
    (tmp_path / "notes.pdf").touch()
    with pytest.raises(error, match=message):
        read(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vectors.npy", "to a folder NAME.parquet or NAME.lance"),
        ("none/vectors.parquet", "there is no folder .*none"),
        ("file.parquet", "is a file; vectors are written to a folder"),
        ("mine.parquet", "holds 'notes.txt', which would be lost"),
        pytest.param(
            "vectors.lance",
            r"Lance is not installed: pip install .*\[lance\]",
            marks=pytest.mark.skipif(find_spec("lance") is not None, reason="Lance is installed"),
        ),
    ],
)
def test_places_that_cannot_be_written_say_why(tmp_path, name, message):
    (tmp_path / "file.parquet").touch()
    (tmp_path / "mine.parquet").mkdir()
    (tmp_path / "mine.parquet" / "notes.txt").touch()
    with pytest.raises(ConfigurationError, match=message):
        check_output(str(tmp_path / name))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "lance"])
def test_what_is_written_is_read(cluster, tmp_path, kind):
    if kind == "lance":
        pytest.importorskip("lance", reason="needs twinvec-ray[lance]")
    (tmp_path / "texts.jsonl").write_text(
        "".join(json.dumps({"text": text, "n": n}) + "\n" for n, text in enumerate(TEXTS))
    )
    (tmp_path / "more.txt").write_text("\n".join(TEXTS) + "\n")
    target = tmp_path / f"copy.{kind}"
    for source, slash in (("more.txt", ""), ("texts.jsonl", "/")):  # the second one replaces the first one
        write(read(str(tmp_path / source)), f"{target}{slash}")
        found = read(str(target)).take_all()
        assert sorted(row["text"] for row in found) == sorted(TEXTS)
    assert {row["n"]: row["text"] for row in found} == dict(enumerate(TEXTS))
    assert sorted(path.name for path in tmp_path.iterdir()) == [target.name, "more.txt", "texts.jsonl"]


@pytest.mark.slow
def test_lines_are_those_of_one_process(cluster, tmp_path):
    text, rows = tmp_path / "texts.txt", tmp_path / "rows.jsonl"
    text.write_bytes("\ufeffone\r\ntwo\u2028of\x85it\x0b\n\n a\rb\tc \nlast".encode())
    assert [row["text"] for row in read(text).take_all()] == list(read_texts(text))
    written = [{"text": "2024-01-02", "n": 1}, {"text": "12", "n": 2.5, "p": {"q": ["r"]}}]
    written += [{"text": "x" * 2_000_000, "late": "y"} for _ in range(5)]  # more than one part
    rows.write_text("\n\n".join(map(json.dumps, written)))
    found = read(rows).take_all()
    assert [row["text"] for row in found] == list(read_texts(rows))
    assert [row["n"] for row in found] == [1, 2.5, *[None] * 5]
    assert [row["late"] for row in found] == [None, None, *["y"] * 5]
    assert found[1]["p"] == {"q": ["r"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n{"text": \n', "bad.jsonl:2: not JSON"),
        (b'{"text": "a"}\n\n5\n', "bad.jsonl:3: expected a JSON object, got int"),
        (b'{"text": "a"}\n{"text": "\\ud800"}\n', "bad.jsonl:2: 'text': cannot be stored in a table: .*surrogates"),
        (b'{"n": "a"}\n{"n": 5}\n', r"'n': .* one type, but the file has str \(.*:1\), int \(.*bad.jsonl:2\)"),
        (b"\xff\n", "bad.jsonl:1: not UTF-8"),
        (b"{}\n", "bad.jsonl:1: the object has no keys"),
    ],
)
def test_a_bad_line_is_named(cluster, tmp_path, content, message):
    (tmp_path / "bad.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        write(read(tmp_path / "bad.jsonl"), tmp_path / "rows.parquet")
    assert "attempts" not in str(raised.value)


@pytest.mark.slow
def test_the_name_of_a_folder_may_have_a_dot(cluster, tmp_path):
    write(cluster.data.range(3), str(tmp_path / "rows.parquet"))
    folder = (tmp_path / "rows.parquet").rename(tmp_path / "rows-2024.05")
    assert read(str(folder)).count() == 3


@pytest.mark.slow
def test_small_blocks_become_one_file(cluster, tmp_path):
    blocks = cluster.data.range(40).repartition(8)
    write(blocks, str(tmp_path / "rows.parquet"))
    assert len(list((tmp_path / "rows.parquet").iterdir())) == 1
    assert read(str(tmp_path / "rows.parquet")).count() == 40


@pytest.mark.slow
def test_a_damaged_file_is_named_with_the_reason(cluster, tmp_path):
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no footer")
    with pytest.raises(InputError, match=r"cut.parquet: cannot be read: .*Parquet magic bytes not found"):
        read(str(tmp_path / "cut.parquet"))


@pytest.mark.slow
def test_parquet_is_read_without_actors_for_footers(cluster, tmp_path, capsys):
    write(cluster.data.range(3), str(tmp_path / "rows.parquet"))
    chosen = cluster.data.DataContext.get_current().use_datasource_v2
    capsys.readouterr()
    read(str(tmp_path / "rows.parquet")).explain()
    assert "ReadParquet" in (plan := capsys.readouterr().out)
    assert "ListFiles" not in plan
    assert cluster.data.DataContext.get_current().use_datasource_v2 == chosen


@pytest.mark.slow
def test_a_write_that_fails_leaves_the_older_folder(cluster, tmp_path):
    target = tmp_path / "copy.parquet"
    write(cluster.data.from_items([{"text": "old"}]), str(target))
    rows = cluster.data.from_items([{"text": "new"}])

    def fails(batch):
        raise ValueError("a step of the user's")

    def refuses(batch):
        raise DocumentError("a document is refused")

    with pytest.raises(EngineError, match=r"a worker failed: ValueError: a step of the user's$"):
        write(rows.map_batches(fails), str(target))
    with pytest.raises(DocumentError, match=r"a document is refused$"):
        write(rows.map_batches(refuses), str(target))
    with pytest.raises(InputError, match="there are no rows"):
        write(rows.filter(lambda row: False), str(target))
    target.rename(tmp_path / "copy.parquet.older")  # as a write leaves it that is killed before its last step
    with pytest.raises(DocumentError, match="a document is refused"):
        write(rows.map_batches(refuses), str(target))
    assert [row["text"] for row in read(str(target)).take_all()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.slow
def test_a_task_of_a_killed_run_adds_no_file_to_the_next_run(cluster, tmp_path):
    target = tmp_path / "copy.parquet"

    def writes_for_another_run(batch):
        other = tmp_path / "copy.parquet.partial" / "another-run"
        other.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"text": ["old"]}), other / "late.parquet")
        return batch

    write(cluster.data.from_items([{"text": "new"}]).map_batches(writes_for_another_run), str(target))
    assert [row["text"] for row in read(str(target)).take_all()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.slow
def test_a_task_of_a_killed_run_that_writes_during_the_removal_stops_nothing(cluster, tmp_path, monkeypatch):
    target, older, late = (tmp_path / name for name in ("rows.parquet", "rows.parquet.older", "rows.parquet.partial"))
    write(cluster.data.range(3), target)
    shutil.copytree(target, older)  # as a write leaves it that is killed before its last step
    rmtree, left = shutil.rmtree, ["late.parquet"]

    def disturbed(folder, **options):
        rmtree(folder, **options)
        if left:
            late.mkdir()
            (late / left.pop()).touch()

    monkeypatch.setattr(files.shutil, "rmtree", disturbed)
    write(cluster.data.range(4), target)
    assert read(target).count() == 4
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", [1, 2], ids=["at the start", "at the end"])
def test_a_half_removed_folder_is_never_put_back(cluster, tmp_path, monkeypatch, dies_at):
    target, older = tmp_path / "rows.parquet", tmp_path / "rows.parquet.older"
    blocks = cluster.data.range(200_000).repartition(2)
    write(blocks, target)
    assert len(list(target.iterdir())) == 2
    shutil.copytree(target, older)  # as a write leaves it that is killed before its last step
    removed, left = [], [dies_at]

    def dying(folder, **options):
        removed.extend(Path(folder).rglob("*.parquet"))
        if any(Path(folder).rglob("*.parquet")):
            left[0] -= 1
            if not left[0]:
                next(Path(folder).rglob("*.parquet")).unlink()
                raise Died
        rmtree(folder, **options)

    rmtree = shutil.rmtree
    monkeypatch.setattr(files.shutil, "rmtree", dying)
    with pytest.raises(Died):
        write(blocks, target)
    assert len(removed) >= 2
    monkeypatch.undo()
    rmtree(target)
    with pytest.raises(InputError, match="there are no rows"):
        write(blocks.filter(lambda row: False), target)
    assert not target.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "lance"])
def test_files_are_on_the_disk_before_their_folder_gets_its_name(cluster, tmp_path, monkeypatch, kind):
    if kind == "lance":
        pytest.importorskip("lance", reason="needs twinvec-ray[lance]")
    target, partial = (tmp_path / f"rows.{kind}{suffix}" for suffix in ("", ".partial"))
    blocks = cluster.data.range(200_000).repartition(2)
    write(blocks, target)
    steps = disk_steps(monkeypatch, "rename")
    write(blocks, target)
    named = next(row for row, step in enumerate(steps) if step.endswith(f" -> {target.name}"))
    run = partial / steps[named].partition(" ")[0]
    written = {str(run / path.relative_to(target)) for path in (target, *target.rglob("*"))}
    assert len(written) > 2
    assert written <= set(steps[:named])
    assert steps[named + 1 :][:2] == [str(tmp_path), f"{target.name}.older -> {target.name}.older"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "lance"])
def test_a_folder_at_a_url_is_not_written_twice(cluster, tmp_path, kind):
    if kind == "lance":
        pytest.importorskip("lance", reason="needs twinvec-ray[lance]")
    url = f"file://{tmp_path}/rows.{kind}"
    write(cluster.data.range(3), url)
    with pytest.raises(
        ConfigurationError, match=rf"rows.{kind}: exists, perhaps as the part that a killed run has left"
    ):
        write(cluster.data.range(4), url)
    assert read(url).count() == 3


@pytest.mark.slow
def test_one_write_at_a_time(cluster, tmp_path):
    target, started, go_on = (tmp_path / name for name in ("copy.parquet", "started", "go on"))

    def waits(batch):
        started.touch()
        while not go_on.exists():
            time.sleep(0.01)
        return batch

    slow = cluster.data.from_items([{"text": "first"}]).map_batches(waits)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(write, slow, target)
        while not started.exists():
            time.sleep(0.01)
        with pytest.raises(ConfigurationError, match=r"copy.parquet: another process is writing to it"):
            write(cluster.data.from_items([{"text": "second"}]), target)
        go_on.touch()
        first.result()
    assert [row["text"] for row in read(target).take_all()] == ["first"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.parquet", "go on", "started"]
