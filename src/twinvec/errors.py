"""The errors that twinvec raises.

    TwinvecError
    ├── ConfigurationError (ValueError)      an argument or a setting is invalid
    ├── MissingExtraError (ImportError)      an optional package is missing; names the command that installs it
    ├── InputError (ValueError)              the caller's data is invalid; names its index or source
    │   ├── TextError                        a text is not a string, has a lone surrogate, or is too large
    │   ├── DocumentError                    a document is incomplete, or its file cannot be read
    │   │   └── IngestError                  every document of an ingest failed; carries the report
    │   └── FilterError                      a filter is malformed
    ├── ModelError                           a model cannot be used
    │   ├── ModelNotFoundError               the folder or name does not exist, or the hub is unreachable
    │   ├── ModelIntegrityError              a file is changed, truncated, pickled or outside the folder
    │   └── UnsupportedModelError            a module, backbone or setting is not supported
    ├── EngineError                          the engine failed
    │   └── BadVectorError                   a vector is not finite, is zero, or has the wrong size
    ├── SpaceMismatchError                   a collection belongs to another model
    └── StoreError                           a vector store failed
        ├── StoreBusyError                   another process holds the store
        ├── StoreUnavailableError            the store does not answer, or its disk is full or read-only
        ├── StoreLimitError                  the request exceeds a limit that the server sets
        │   └── StoreFullError               the server limits what it stores, and has no room left
        ├── StoreCorruptError                the stored data cannot be read
        └── CollectionNotFoundError          the store has no such collection

An error of another library is raised as an error of this list, with the library's error as ``__cause__``.
"""

from __future__ import annotations

from typing import Any, Protocol

from twinvec.installation import install_line


class IngestCounts(Protocol):
    """The part of ``twinvec_qdrant.IngestReport`` that an ``IngestError`` uses."""

    new: int
    updated: int
    unchanged: int
    failed: int
    failures: list[tuple[str, str]]
    empty: int
    empties: list[tuple[str, str]]
    warnings: list[str]


class TwinvecError(Exception):
    """The base class: ``except TwinvecError`` catches every error that twinvec raises."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        """Let pydantic models, such as the answer of a FastAPI route, hold an error; its JSON is its message."""
        from pydantic_core import core_schema

        text = core_schema.no_info_plain_validator_function(TwinvecError)
        return core_schema.json_or_python_schema(
            json_schema=core_schema.chain_schema([core_schema.str_schema(), text]),
            python_schema=core_schema.is_instance_schema(cls),
            serialization=core_schema.to_string_ser_schema(),
        )


class ConfigurationError(TwinvecError, ValueError):
    """An argument or a setting is invalid."""


class MissingExtraError(TwinvecError, ImportError):
    """An optional package is missing."""

    def __init__(self, package: str, extra: str, purpose: str, distribution: str = "twinvec") -> None:
        super().__init__(f"{purpose} needs the package {package!r}: {install_line(distribution, extra)}")
        self._given = package, extra, purpose, distribution

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str, str]]:
        return type(self), self._given


class InputError(TwinvecError, ValueError):
    """The caller's data is invalid."""


class TextError(InputError):
    """A text is not a string, has a lone surrogate, or is too large."""


class DocumentError(InputError):
    """A document is incomplete, or its file cannot be read."""


class IngestError(DocumentError):
    """Every document of an ingest failed. ``report`` is the complete report, with the reason for each document."""

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report: IngestCounts = report

    def __reduce__(self) -> tuple[type[IngestError], tuple[str, Any]]:
        return type(self), (str(self), self.report)


class FilterError(InputError):
    """A filter is malformed."""


class ModelError(TwinvecError):
    """A model cannot be used."""


class ModelNotFoundError(ModelError):
    """The folder or name does not exist, or the hub is unreachable and its cache lacks the model."""


class ModelIntegrityError(ModelError):
    """A file of the model is changed, truncated, pickled, or outside the folder."""


class UnsupportedModelError(ModelError):
    """The model has a module, backbone or setting that is not supported."""


class EngineError(TwinvecError):
    """The engine failed."""


class BadVectorError(EngineError):
    """An engine or encoder returned a vector that is not finite, is zero, or has the wrong size."""


class SpaceMismatchError(TwinvecError):
    """A collection holds the vectors of another model."""


class StoreError(TwinvecError):
    """A vector store failed."""


class StoreBusyError(StoreError):
    """Another process holds the store."""


class StoreUnavailableError(StoreError):
    """The store does not answer or cannot write."""


class StoreLimitError(StoreError):
    """The request exceeds a limit that the server sets; the message names the limit."""


class StoreFullError(StoreLimitError):
    """The server limits what it stores, and has no room left; the message names the limit."""


class StoreCorruptError(StoreError):
    """The stored data cannot be read."""


class CollectionNotFoundError(StoreError):
    """The store has no such collection."""
