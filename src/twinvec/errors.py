"""Every error that twinvec raises on purpose.

    TwinvecError
    ├── ConfigurationError (ValueError)      an argument or a setting that cannot work
    ├── MissingExtraError (ImportError)      an optional package is needed; says how to install it
    ├── InputError (ValueError)              the caller's data, named by index or source
    │   ├── TextError                        not a string, a lone surrogate, too large
    │   ├── DocumentError                    a document without what it needs, a file that cannot be read
    │   └── FilterError                      a filter that has no meaning
    ├── ModelError                           a model that cannot be used
    │   ├── ModelNotFoundError               no such folder, no such name, hub out of reach
    │   ├── ModelIntegrityError              a file is changed, truncated, pickled or outside the folder
    │   └── UnsupportedModelError            a module, backbone or setting outside the closed list
    ├── EngineError                          the engine failed, or
    │   └── BadVectorError                   gave a vector that is not finite, zero, or of the wrong size
    ├── SpaceMismatchError                   a collection belongs to another model
    └── StoreError                           a vector store
        ├── StoreBusyError                   another process holds it
        ├── StoreUnavailableError            it does not answer, or the disk is full
        ├── StoreCorruptError                what it holds cannot be read
        └── CollectionNotFoundError          it holds no such collection

Errors of other libraries stop at the file that talks to the library and come out as one of these, with the
original as ``__cause__``.
"""

from __future__ import annotations


class TwinvecError(Exception):
    """The root: ``except TwinvecError`` catches everything that twinvec raises on purpose."""


class ConfigurationError(TwinvecError, ValueError):
    """An argument or a setting that cannot work."""


class MissingExtraError(TwinvecError, ImportError):
    """An optional package is missing. ``support.extras`` raises it."""

    def __init__(self, package: str, extra: str, purpose: str, distribution: str = "twinvec") -> None:
        super().__init__(f"{purpose} needs the package {package!r}: pip install '{distribution}[{extra}]'")
        self._given = package, extra, purpose, distribution

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str, str]]:
        return type(self), self._given


class InputError(TwinvecError, ValueError):
    """The caller's data is at fault."""


class TextError(InputError):
    """A text is not a string, holds a lone surrogate, or is too large."""


class DocumentError(InputError):
    """A document lacks what it needs, or its file cannot be read."""


class FilterError(InputError):
    """A filter that has no meaning."""


class ModelError(TwinvecError):
    """A model cannot be used."""


class ModelNotFoundError(ModelError):
    """No such folder or name, or the hub is out of reach and the cache does not hold it."""


class ModelIntegrityError(ModelError):
    """A file of the model is changed, truncated, pickled, or named outside the folder."""


class UnsupportedModelError(ModelError):
    """The model uses a module, backbone or setting outside the closed list."""


class EngineError(TwinvecError):
    """The engine failed."""


class BadVectorError(EngineError):
    """The engine gave a vector that is not finite, is zero, or has the wrong size."""


class SpaceMismatchError(TwinvecError):
    """A collection belongs to the vectors of another model."""


class StoreError(TwinvecError):
    """A vector store failed."""


class StoreBusyError(StoreError):
    """Another process holds the store."""


class StoreUnavailableError(StoreError):
    """The store does not answer, or cannot write."""


class StoreCorruptError(StoreError):
    """What the store holds cannot be read."""


class CollectionNotFoundError(StoreError):
    """The store holds no such collection."""
