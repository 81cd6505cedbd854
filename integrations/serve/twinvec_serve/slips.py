"""Requests that ignore fields of other services, but refuse a slip: a field whose name resembles a known name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from twinvec_serve.errors import RequestError

_LONGEST = 80  # number of characters of a name that are compared


class IgnoresOthersFields(BaseModel):
    """A request to a route that clients of several services use. Unknown fields are ignored, and slips are errors.

    Attributes:
        alike: Least similarity of a slip and the known name, as a ratio of difflib.
        undecisive: Known fields without an effect, whose slips do not matter.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    alike: ClassVar[float]
    undecisive: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for name in value.keys() - cls.model_fields.keys():
                if value[name] is not None and (meant := cls._meant(name)):
                    raise RequestError(
                        f"{name:.{_LONGEST}}: is not known; did you mean {meant}?",
                        param=name[:_LONGEST],
                        code="invalid_request",
                    )
        return value

    @classmethod
    def _meant(cls, name: str) -> str | None:
        """Return the known field that this name resembles; None for a field of another service."""
        known = {_plain(each): each for each in cls.model_fields.keys() - cls.undecisive}
        near = get_close_matches(_plain(name[:_LONGEST]), known, 1, cls.alike)
        return known[near[0]] if near else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
