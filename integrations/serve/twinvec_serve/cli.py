"""The commands ``twinvec serve`` and ``twinvec mcp``: their options and their output."""

from __future__ import annotations

import json
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinvec.cli.configuration import find_settings
from twinvec.cli.options import (
    COLLECTIONS_PANEL,
    MODEL_HELP,
    WAIT_SECONDS,
    AsJson,
    PrecisionOption,
    StorePath,
    StoreUrl,
    Wait,
    check_store,
)
from twinvec.engines import Precision
from twinvec.errors import ConfigurationError
from twinvec.support.checks import check_choice
from twinvec_serve.observing.logs import LogFormat, logged_errors, set_up_log, with_fields

if TYPE_CHECKING:
    from twinvec_serve.settings import ServeSettings

logger = logging.getLogger(__name__)

_access_option = partial(typer.Option, rich_help_panel="Who may use it")
_limit_option = partial(typer.Option, rich_help_panel="Limits")
_NO_RERANKERS = ("none", "maxsim")

ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="MODEL[=NAME]",
        help=f"Embedding model: {MODEL_HELP} NAME is its name in requests. Repeatable; the first model is the default.",
        show_default=False,
    ),
]
RerankerNames = Annotated[
    list[str] | None,
    typer.Option(
        "--reranker",
        metavar="MODEL[=NAME]",
        help="Cross-encoder for reranking: a folder, or org/name. Repeatable. The reranker maxsim is always available.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands ``serve`` and ``mcp`` to ``twinvec``."""
    app.command("serve", rich_help_panel=COLLECTIONS_PANEL)(serve_command)
    app.command("mcp", rich_help_panel=COLLECTIONS_PANEL)(mcp_command)


def serve_command(
    path: StorePath = None,
    url: StoreUrl = None,
    model: ModelNames = None,
    reranker: RerankerNames = None,
    precision: Annotated[
        Precision | None,
        typer.Option(
            envvar="TWINVEC_SERVE_PRECISION",
            help="Number format in which the models compute. bfloat16 is the fastest on processors with AMX. "
            "Default: auto.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(envvar="TWINVEC_SERVE_HOST", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(envvar="TWINVEC_SERVE_PORT", min=0, max=65_535, help="Port to listen at; 0 for any free port."),
    ] = 6380,
    api_key_file: Annotated[
        Path | None,
        _access_option(
            envvar="TWINVEC_SERVE_API_KEY_FILE",
            metavar="FILE",
            help="File of API keys, one per line: read KEY for reading, or write KEY for reading and writing. "
            "TWINVEC_READ_API_KEY can hold one more read key, and TWINVEC_API_KEY one more write key.",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, _access_option(metavar="FILE", help="Certificate for https, in PEM.", show_default=False)
    ] = None,
    tls_key: Annotated[
        Path | None, _access_option(metavar="FILE", help="Private key of the certificate, in PEM.", show_default=False)
    ] = None,
    behind_proxy: Annotated[
        bool, _access_option("--behind-proxy", help="A proxy in front of the server provides https.")
    ] = False,
    allow_origin: Annotated[
        list[str] | None,
        _access_option(
            envvar="TWINVEC_SERVE_ALLOW_ORIGIN",
            metavar="ORIGIN",
            help="Another address of the server, or a site whose pages may use the server, such as "
            "https://search.example.com. Repeatable.",
            show_default=False,
        ),
    ] = None,
    max_body_mb: Annotated[int, _limit_option(min=1, help="Largest request, in MB.")] = 16,
    max_ingest_mb: Annotated[
        int,
        _limit_option(min=1, help="Largest request of files or NDJSON to ingest, or of a backup to restore, in MB."),
    ] = 1024,
    max_texts: Annotated[
        int, _limit_option(min=1, help="Largest number of texts, queries or documents in one request.")
    ] = 2048,
    max_text_chars: Annotated[
        int,
        _limit_option(
            min=1,
            help="Largest number of characters of a query, or of a text to embed or rerank. Documents to ingest may "
            "be longer.",
        ),
    ] = 1_000_000,
    queue_size: Annotated[
        int,
        _limit_option(min=1, help="Largest number of requests that wait for a model; further requests get status 429."),
    ] = 512,
    stop_seconds: Annotated[
        float, _limit_option(min=1, help="Seconds that requests have to finish after a signal to stop.")
    ] = 60.0,
    log_requests: Annotated[
        bool,
        typer.Option("--log-requests", help="Log the route, status and time of each request, but no text and no key."),
    ] = False,
    log_format: Annotated[
        LogFormat,
        typer.Option(
            envvar="TWINVEC_SERVE_LOG_FORMAT",
            help="Form of the log on standard error: lines for people, or JSON objects for programs.",
        ),
    ] = "text",
    as_json: AsJson = False,
) -> None:
    """Serve models and collections over HTTP: an API for programs, a page for people, and tools for agents.

    \b
    twinvec serve --path ./store
    curl http://127.0.0.1:6380/v1/embeddings -H 'Content-Type: application/json' -d '{"input": "a text"}'

    Embeddings follow the API of OpenAI (/v1/embeddings), and reranking follows the APIs of Cohere and Jina
    (/v1/rerank). Collections have an API of their own (/v1/collections), and agents use the Model Context Protocol
    (/mcp). /docs describes the API, and / is the page. Other commands with the same --path use the running server.
    SIGTERM or Ctrl+C stops the server once requests in flight are answered; a second signal ends it at once.

    Without an API key, only programs on this machine reach the server. To serve other machines, the server needs a key
    and https, by --tls-cert or by a proxy (--behind-proxy).
    """
    from twinvec_serve.process import run
    from twinvec_serve.safety.key_files import find_keys
    from twinvec_serve.settings import ServeSettings

    check_store(path, url)
    set_up_log(log_format, requests=log_requests)
    with logged_errors(log_format):
        keys = find_keys(api_key_file, os.environ)
        default_model, default_rerankers, default_precision = _defaults()
        settings = ServeSettings(
            path=path,
            url=url,
            models=_named(model or [default_model]),
            rerankers=_named(default_rerankers if reranker is None else reranker),
            precision=precision or default_precision,
            host=host,
            port=port,
            read_keys=keys.read,
            write_keys=keys.write,
            tls_cert=tls_cert,
            tls_key=tls_key,
            behind_proxy=behind_proxy,
            allow_origins=tuple(allow_origin or ()),
            max_body_bytes=max_body_mb * 2**20,
            max_ingest_bytes=max_ingest_mb * 2**20,
            max_texts=max_texts,
            max_text_chars=max_text_chars,
            queue_size=queue_size,
            stop_seconds=stop_seconds,
        )
        tell_ready = partial(_tell_ready, settings=settings, log_format=log_format, as_json=as_json)
        run(settings, ready=tell_ready, stopping=_tell_stopping, key_file=api_key_file)


def mcp_command(
    path: StorePath = None, url: StoreUrl = None, precision: PrecisionOption = "auto", wait: Wait = WAIT_SECONDS
) -> None:
    """Give an agent tools to search the collections: a server of the Model Context Protocol on standard input.

    The agent starts this command itself. Its tools read and never write: search, get_document, get_documents and
    list_collections. A running "twinvec serve" has the same tools at /mcp. While it serves the store, this command
    passes the calls on to it, and --precision has no effect.

    \b
    claude mcp add docs -- twinvec mcp --path /home/me/docs/.twinvec
    {"mcpServers": {"docs": {"command": "twinvec", "args": ["mcp", "--path", "/home/me/docs/.twinvec"]}}}
    """
    from twinvec_serve.agents.library import Library
    from twinvec_serve.agents.over_stdio import run

    check_store(path, url)
    run(Library(path, url, precision, wait))


def _defaults() -> tuple[str, list[str], Any]:
    """Return the default model, rerankers and precision: of the environment, else of the settings file."""
    written = find_settings(Path.cwd())
    model = os.environ.get("TWINVEC_MODEL") or (written and written.model) or "default"
    reranker = os.environ.get("TWINVEC_RERANK") or (written and written.rerank)
    precision = os.environ.get("TWINVEC_PRECISION") or (written and written.precision) or "auto"
    check_choice(precision, Precision, "TWINVEC_PRECISION:")
    return model, [reranker] if reranker and reranker not in _NO_RERANKERS else [], precision


def _named(given: list[str]) -> dict[str, str]:
    """Return name -> model. The name is the part after "=", else the folder's name, else the model without revision."""
    named: dict[str, str] = {}
    for each in given:
        model, sign, name = ("", "", "") if Path(each).is_dir() else each.rpartition("=")
        if not sign:
            model, name = each, Path(each).resolve().name if Path(each).is_dir() else each.partition("@")[0]
        if name in named:
            raise ConfigurationError(
                f"two models have the name {name!r}; give one of them another name, as in {model}=OTHER"
            )
        named[name] = model
    return named


def _tell_ready(address: str, settings: ServeSettings, *, log_format: LogFormat, as_json: bool) -> None:
    """Say that the server answers: on standard output, unless the log is for programs and has the line itself."""
    from twinvec_qdrant import DEFAULT_PATH, list_collections

    if settings.url is None and not list_collections(settings.path):
        place = Path(settings.path or DEFAULT_PATH).expanduser().absolute()
        logger.warning("the store %s has no collections yet; if it should have some, check --path", place)
    store = str(Path(settings.path or DEFAULT_PATH)) if settings.url is None else settings.url
    described = {"address": address, "pid": os.getpid(), "store": store, "models": list(settings.models)}
    if log_format == "json":
        logger.info("ready at %s", address, extra=with_fields(**described))
    if as_json:
        typer.echo(json.dumps(described, ensure_ascii=False))
    elif log_format == "text":
        typer.echo(f"twinvec serve: ready at {address}")
    sys.stdout.flush()


def _tell_stopping() -> None:
    logger.info("stopping once requests in flight are answered; a second signal ends the process at once")
