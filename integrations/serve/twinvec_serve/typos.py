"""Requests that ignore unknown fields but refuse typos: unknown names that resemble the name of a known field."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from twinvec_serve.errors import RequestError

_LONGEST = 80  # number of characters of a name that are compared
_MOST_NAMES = 100  # number of unknown names that are compared; a comparison takes up to 0.1 ms
_VERY_ALIKE = 0.85  # ratio of difflib


class TypoCheckedRequest(BaseModel):
    """A request to a route of which other services have a variant. Fields of these services are ignored.

    Attributes:
        alike: Least similarity of a typo and the known name, as a ratio of difflib. If the similarity is below
            ``_VERY_ALIKE``, a typo also has the known name's first letter and about its length.
        without_effect: Known fields that change nothing, so that a typo of their names is ignored.
        others: Fields of other services whose names resemble known ones.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    alike: ClassVar[float]
    without_effect: ClassVar[frozenset[str]] = frozenset()
    others: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        if isinstance(value, dict):
            given = {name for name in value if value[name] is not None}
            for name in islice(given - cls.model_fields.keys() - cls.others, _MOST_NAMES):
                if meant := cls._meant(name, given):
                    raise RequestError(
                        f"{name:.{_LONGEST}}: is not known; did you mean {meant}?",
                        param=name[:_LONGEST],
                        code="invalid_request",
                    )
        return value

    @classmethod
    def _meant(cls, name: str, given: set[str]) -> str | None:
        """Return the known field of which an unknown name is a typo, or None.

        If the known field is ``given`` too, the name is no typo: next to ``query``, ``query_id`` is another field.
        """
        known = {_plain(each): each for each in cls.model_fields.keys() - cls.without_effect - given}
        plain = _plain(name[:_LONGEST])
        near = get_close_matches(plain, known, len(known) or 1, cls.alike)
        return next((known[each] for each in near if _is_typo(plain, each)), None)


def _is_typo(name: str, known: str) -> bool:
    has_its_shape = name[:1] == known[:1] and abs(len(name) - len(known)) <= 2
    return has_its_shape or bool(get_close_matches(name, [known], 1, _VERY_ALIKE))


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
