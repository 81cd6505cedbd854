"""Settings of a server: what it serves, where, and to whom."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from twinvec.engines import Precision

MAXSIM = "maxsim"
"""The name of the reranker that every server has."""

LAST_ANSWERS_SECONDS = 5
"""Seconds after ``stop_seconds`` in which the server answers the ingests that its stop has ended."""

_MIB = 2**20


class ServeSettings(BaseModel):
    """The settings of one server; ``twinvec serve`` has options for them, except ``queue_texts`` and ``address``.

    Attributes:
        path: Folder of the embedded store; default without ``url``: ``./.twinvec``.
        url: Address of a Qdrant server.
        models: Models to serve, by the names that requests use; the first is the default.
        rerankers: Cross-encoders to serve, by names that no model has; "maxsim" is always available.
        precision: Number format in which models and rerankers compute, as for ``twinvec.Encoder``.
        host: Address to listen at.
        port: Port to listen at; 0 for any free port.
        read_keys: Keys that may read.
        write_keys: Keys that may read and write; without any key, everybody who reaches the server may.
        tls_cert: File of the certificate, in PEM, with the certificates of its issuers.
        tls_key: File of the certificate's private key, in PEM.
        behind_proxy: Whether a proxy in front of the server speaks TLS for it.
        allow_origins: Further origins whose pages may use the server, such as ``https://search.example.com``.
        max_body_bytes: Largest body of a request.
        max_ingest_bytes: Largest body of a request with files, NDJSON or an archive, which is read while it arrives.
        max_texts: Largest number of texts, queries, documents or ids in one list of a request.
        max_text_chars: Largest number of characters of a query, or of a text to embed or rerank; documents to ingest
            may be longer.
        queue_size: Largest number of requests that wait for a model; further requests are answered with 429.
        queue_texts: Largest number of texts of all requests that wait for a model; further requests are answered with
            429.
        address: Address at which the commands of twinvec reach the server; it is written into the store's folder.
            Default: none, so that commands do not find the server.
        stop_seconds: How long requests in flight may take after the signal to stop; then ingests are ended.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path | None = None
    url: str | None = None
    models: dict[str, str] = Field(default={"default": "default"}, min_length=1)
    rerankers: dict[str, str] = {}
    precision: Precision = "auto"
    host: str = "127.0.0.1"
    port: int = Field(default=6380, ge=0, le=65_535)
    read_keys: tuple[SecretStr, ...] = ()
    write_keys: tuple[SecretStr, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    allow_origins: tuple[str, ...] = ()
    max_body_bytes: int = Field(default=16 * _MIB, gt=0)
    max_ingest_bytes: int = Field(default=1024 * _MIB, gt=0)
    max_texts: int = Field(default=2048, gt=0)
    max_text_chars: int = Field(default=1_000_000, gt=0)
    queue_size: int = Field(default=512, gt=0)
    queue_texts: int = Field(default=16_384, gt=0)
    address: str | None = None
    stop_seconds: float = Field(default=60.0, gt=0)
