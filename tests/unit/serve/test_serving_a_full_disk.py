"""A server whose store is on a full disk: searches go on, and writes are answered with what to do."""

from __future__ import annotations

import pytest

from small_disks import on_small_disk


@pytest.mark.slow
def test_searches_go_on_and_writes_are_answered_with_an_error(tiny, tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    program = """
        from fastapi.testclient import TestClient
        from twinvec_serve import ServeSettings, create_app
        address = "http://127.0.0.1:6380"
        settings = ServeSettings(path=Path(place), models={"tiny": model}, address=address)
        documents = {"documents": [{"id": "tea", "text": "green tea"}, {"id": "ink", "text": "blue ink"}]}

        def found(client):
            answer = client.post("/v1/collections/notes/search", json={"query": "green tea", "limit": 1})
            assert answer.status_code == 200, answer.text
            return answer.json()["results"][0]["hits"][0]["id"]

        def check_full(client):
            assert found(client) == "tea"
            for path, body in (("/v1/collections/notes/documents", documents), ("/v1/collections", {"name": "more"})):
                answer = client.post(path, json=body)
                assert answer.status_code == 503, answer.text
                error = answer.json()["error"]
                assert error["code"] == "store_unavailable"
                assert "disk is full" in error["message"] or "No space left" in error["message"]
                assert "remove other files" in error["message"]
                assert "DELETE /v1/collections/NAME of twinvec serve; both work on a full disk" in error["message"]
            assert found(client) == "tea"
            answer = client.get("/v1/collections/notes/backup")  # its files are where TMPDIR says
            assert answer.status_code == 200, answer.text
            assert b'"collection": "notes"' in answer.content

        with TestClient(create_app(settings), base_url=address) as client:
            for name in ("notes", "other"):
                assert client.post("/v1/collections", json={"name": name, "chunking": False}).status_code == 201
            assert client.post("/v1/collections/notes/documents", json=documents).json()["new"] == 2
            fill(place)
            check_full(client)
            assert client.delete("/v1/collections/other").status_code == 200
            assert not Path(place, "other").exists() and os.statvfs(place).f_bavail > 0
        fill(place)  # the first server has given a page back
        warnings = Warnings()
        with TestClient(create_app(settings), base_url=address) as client:  # starts on the full disk
            assert len(warnings.told) == 1 and "other commands do not find this server" in warnings.told[0]
            check_full(client)
            os.unlink(Path(place, "filler"))
            assert client.post("/v1/collections/notes/documents", json=documents).json()["unchanged"] == 2
            documents["documents"].append({"id": "new", "text": "a new one"})
            assert client.post("/v1/collections/notes/documents", json=documents).json()["new"] == 1
            assert found(client) == "tea"
    """
    on_small_disk(program, tmp_path / "disk", "size=160m", model=tiny)
    assert list((tmp_path / "temporary").iterdir()) == []
