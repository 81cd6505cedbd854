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
        ├── StoreCorruptError                the stored data cannot be read
        └── CollectionNotFoundError          the store has no such collection

An error of another library is raised as one of these, with the library's error as ``__cause__``.
"""

from __future__ import annotations

from typing import Any

from twinvec.installation import install_line


class TwinvecError(Exception):
    """The base class: ``except TwinvecError`` catches every error that twinvec raises."""


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
        self.report = report

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


class StoreCorruptError(StoreError):
    """The stored data cannot be read."""


class CollectionNotFoundError(StoreError):
    """The store has no such collection."""
