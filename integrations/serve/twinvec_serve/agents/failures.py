"""Collections that cannot be read: the others are read all the same, and the answer tells which are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from twinvec.errors import TwinvecError
from twinvec_serve.errors import RequestError


class Failures:
    """Why collections could not be read during one call, by name."""

    def __init__(self) -> None:
        self._errors: dict[str, Exception] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Note an error of one collection and leave the body there."""
        try:
            yield
        except (TwinvecError, RequestError) as error:
            self._errors[name] = error

    def raise_if_all(self, names: Sequence[str]) -> None:
        """Raise the first error if every one of these collections has failed."""
        if self._errors and self._errors.keys() >= set(names):
            raise next(iter(self._errors.values()))

    def by_name(self) -> dict[str, str]:
        """Return the messages of the errors, by name."""
        return {name: str(error) for name, error in self._errors.items()}

    def hint(self) -> str:
        """Return what an error adds about them: ``; not read: mail (the store is busy)``; "" if all were read."""
        told = ", ".join(f"{name} ({message})" for name, message in self.by_name().items())
        return f"; not read: {told}" if told else ""
