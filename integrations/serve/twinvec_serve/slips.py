"""Requests that ignore fields of other services, but refuse a slip: a field whose name resembles a known name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from twinvec_serve.errors import RequestError

_LONGEST = 80  # number of characters of a name that are compared
_VERY_ALIKE = 0.85  # ratio of difflib


class IgnoresOthersFields(BaseModel):
    """A request to a route that clients of several services use. Unknown fields are ignored, and slips are errors.

    Attributes:
        alike: Least similarity of a slip and the known name, as a ratio of difflib. Below ``_VERY_ALIKE``, a slip also
            has the first letter of the known name, and about its length.
        undecisive: Known fields without an effect, whose slips do not matter.
        others: Fields of other services whose names resemble known ones.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    alike: ClassVar[float]
    undecisive: ClassVar[frozenset[str]] = frozenset()
    others: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        if isinstance(value, dict):
            given = {name for name in value if value[name] is not None}
            for name in given - cls.model_fields.keys() - cls.others:
                if meant := cls._meant(name, given):
                    raise RequestError(
                        f"{name:.{_LONGEST}}: is not known; did you mean {meant}?",
                        param=name[:_LONGEST],
                        code="invalid_request",
                    )
        return value

    @classmethod
    def _meant(cls, name: str, given: set[str]) -> str | None:
        """Return the known field of which this name is a slip; None for a field of another service.

        If the known field is ``given`` too, the name is no slip: next to ``query``, ``query_id`` is another field.
        """
        known = {_plain(each): each for each in cls.model_fields.keys() - cls.undecisive - given}
        plain = _plain(name[:_LONGEST])
        near = get_close_matches(plain, known, len(known) or 1, cls.alike)
        return next((known[each] for each in near if _is_slip(plain, each)), None)


def _is_slip(name: str, known: str) -> bool:
    has_its_shape = name[:1] == known[:1] and abs(len(name) - len(known)) <= 2
    return has_its_shape or bool(get_close_matches(name, [known], 1, _VERY_ALIKE))


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
