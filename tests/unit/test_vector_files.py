"""Files of vectors: one process at a time, nothing left behind, and whose fault an error is."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from twinvec import Encoder
from twinvec.errors import ConfigurationError, InputError, TextError
from twinvec.text import MAX_TEXT_BYTES
from twinvec.vector_files import encode_file

TEXTS = ["a fox", "", "two men", "a fox", "the sun"]


@pytest.fixture
def tiny(tiny_model):
    return Encoder(tiny_model("bert"))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def in_windows_of(encoder, size, between, monkeypatch):
    """Let the encoder yield ``size`` vectors at a time, and call ``between`` after each window."""
    stream = encoder.encode_stream

    def windows(texts, **options):
        for vectors in stream(texts, window=size, **options):
            yield vectors
            between()

    monkeypatch.setattr(encoder, "encode_stream", windows)


def test_a_second_one_into_the_same_file_is_refused(tiny, tiny_model, source, tmp_path, monkeypatch):
    other, output = tmp_path / "other.txt", tmp_path / "v.npy"
    other.write_text("another text\n")
    second = Encoder(tiny_model("bert"))
    refused = []

    def meanwhile():
        with pytest.raises(ConfigurationError, match=r"v\.npy: another process is encoding into it") as caught:
            encode_file(second, other, output)
        refused.append(caught)

    in_windows_of(tiny, 2, meanwhile, monkeypatch)
    assert encode_file(tiny, source, output) == (5, 32)
    assert len(refused) == 3
    np.testing.assert_allclose(np.load(output), second.encode(TEXTS), atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.txt", "texts.txt", "v.npy"]


def test_the_bar_counts_repeated_texts(tiny, source, tmp_path, monkeypatch):
    told, whole = [], []

    @contextmanager
    def bar(label, total, unit, *, work, shown):
        whole.append((total, work))
        yield lambda count, failed=0, work=None, note=None: told.append((count, work))

    monkeypatch.setattr("twinvec.vector_files.progress_bar", bar)
    in_windows_of(tiny, 4, lambda: None, monkeypatch)
    encode_file(tiny, source, tmp_path / "v.npy", progress=True)
    assert tuple(map(sum, zip(*told, strict=True))) == whole[0]
    assert whole[0][0] == len(TEXTS)


def test_what_a_killed_one_left_goes(tiny, source, tmp_path):
    for suffix in (".partial", ".lock"):
        (tmp_path / f"v.npy{suffix}").write_bytes(b"of a process that was killed")
    encode_file(tiny, source, tmp_path / "v.npy", storage="float16")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), tiny.encode(TEXTS, storage="float16"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt", "v.npy"]


def test_a_folder_as_output_is_refused_before_anything_is_computed(tiny, source, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "encode_stream", lambda *_, **__: pytest.fail("it encodes"))
    with pytest.raises(ConfigurationError, match="is a folder; name a file"):
        encode_file(tiny, source, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


@pytest.mark.parametrize("suffix", [".jsonl", ".JSONL", ".ndjson", ".json"])
def test_json_lines_are_known_by_each_of_their_suffixes(tiny, tmp_path, suffix):
    path = (tmp_path / "texts").with_suffix(suffix)
    path.write_text('{"text": "a fox"}\n')
    encode_file(tiny, path, tmp_path / "v.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), tiny.encode(["a fox"]))


def test_names_that_are_too_long(tiny, source, tmp_path):
    long = tmp_path / ("x" * 300)
    with pytest.raises(ConfigurationError, match="x: cannot be looked up: File name too long"):
        encode_file(tiny, source, long)
    with pytest.raises(InputError, match="x: cannot be read: File name too long"):
        encode_file(tiny, long, tmp_path / "out.npy")


def test_a_device_as_output_is_refused_and_stays(tiny, source, tmp_path):
    os.mkfifo(tmp_path / "device")
    with pytest.raises(ConfigurationError, match="device: is a device; name a file"):
        encode_file(tiny, source, tmp_path / "device")
    assert (tmp_path / "device").is_fifo()


def test_a_source_that_can_be_read_only_once_is_refused(tiny, tmp_path):
    reading, writing = os.pipe()
    os.close(writing)
    try:
        with pytest.raises(InputError, match="is a pipe or a device; write the texts to a file"):
            encode_file(tiny, Path(f"/dev/fd/{reading}"), tmp_path / "v.npy")
    finally:
        os.close(reading)


def test_a_text_that_is_too_large_is_found_before_anything_is_computed(tiny, source, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "encode_stream", lambda *_, **__: pytest.fail("it encodes"))
    with source.open("a") as file:
        file.write("x" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(TextError, match=r"texts\.txt:6: 8,388,609 bytes, more than the limit"):
        encode_file(tiny, source, tmp_path / "v.npy")


def test_errors_of_the_encoder_are_not_those_of_the_output(tiny, source, tmp_path, monkeypatch):
    def fails():
        raise OSError(5, "the device is gone")

    in_windows_of(tiny, 2, fails, monkeypatch)
    with pytest.raises(OSError, match="the device is gone"):
        encode_file(tiny, source, tmp_path / "v.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_an_output_that_cannot_be_written_is_named(tiny, source, tmp_path):
    (tmp_path / "v.npy.partial").mkdir()
    with pytest.raises(ConfigurationError, match=r"v\.npy: cannot be written: Is a directory"):
        encode_file(tiny, source, tmp_path / "v.npy")


@pytest.mark.parametrize("name", ["v.jsonl", "v.npz", "v.csv", "v.parquet"])
def test_a_file_of_another_format_is_refused_before_the_model_is_loaded(twinvec, source, tmp_path, name):
    done = twinvec("encode", source, "-o", tmp_path / name, "--model", tmp_path / "no-model")
    assert (done.code, done.out) == (2, "")
    assert "without --ray, vectors are written to a file NAME.npy" in " ".join(done.err.replace("│", " ").split())
    assert not (tmp_path / name).exists()
