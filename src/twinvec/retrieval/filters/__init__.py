"""Filters on payloads: one language for every retriever, store and command.

A filter is a mapping, as in JSON. All of its entries must hold:

    filter     {KEY: WANTED, ...}
               {"and": [FILTER, ...]}            all filters hold
               {"or": [FILTER, ...]}             at least one filter holds
               {"not": FILTER}                   the filter does not hold
    WANTED     VALUE                             equal
               [VALUE, ...]                      any of
               {OPERATOR: ARGUMENT, ...}         all operators
    VALUE      text, number, boolean, date or datetime

    operator                  holds if
    eq, ne                    the value is equal; it is not equal
    in, not_in (or nin)       the value is in the list; it is not in the list
    gt, gte, lt, lte          the number or the date is within the bound
    exists                    true: the key has a value (not null, not an empty list); false: it has no value
    null                      true: the value is null; false: it is not
    text                      the text has all of these words, in any order
    phrase                    the text has these words one after another

``and``, ``or``, ``not`` and the operators may begin with ``$``, as in MongoDB. An empty list
is allowed: ``in`` and ``or`` then match no document, ``not_in`` and ``and`` match every document.

Keys: ``author.name`` is the key ``name`` of the mapping ``author``, or of a mapping in the list ``author``;
``author[].name`` is only the key in a list. A key has at most five parts; a part that has a dot is written in double
quotes: ``"author.name"``. ``id`` is the document's own id, and ``.id`` the key ``id`` of the payload.

Values:

- A list in the payload matches if one of its elements does. Both bounds of a range must hold for the same element. The
  words of ``text`` may be in several elements, the words of ``phrase`` must be in one.
- A missing key matches no value, so ``ne``, ``not_in`` and ``not`` hold for a document without the key.
- 1 equals 1.0, and neither equals true or "1". Ranges compare numbers as 64-bit floats. For ``id``, a whole number or
  a UUID stands for its text. Scalars of NumPy are values, too.
- Dates in the payload are texts in ISO 8601: ``2024-05-01``, ``2024-05-01T10:30``, ``2024-05-01T10:30:00.5+02:00``.
  Bounds are such texts, or Python's ``date`` and ``datetime``. A date means its first moment. A time without an offset
  is in UTC. ``eq`` and ``in`` compare texts as texts, not as dates.
- Words consist of letters and digits. Upper and lower case are the same.

A payload key named ``and`` or ``or`` can be compared with values and by operators. A payload key named ``not`` can be
compared with values and by ranges.

This package checks filters (``parsing``) and evaluates them in memory (``evaluation``). Stores translate filters to
their own language, and find the same documents as ``matches``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.retrieval.filters.conditions import Condition, Filter, Scalar, listed_keys
    from twinvec.retrieval.filters.evaluation import matches, matches_all
    from twinvec.retrieval.filters.parsing import parse_filter

__all__ = ["Condition", "Filter", "Scalar", "listed_keys", "matches", "matches_all", "parse_filter"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "conditions": "Condition Filter Scalar listed_keys",
        "evaluation": "matches matches_all",
        "parsing": "parse_filter",
    },
)
