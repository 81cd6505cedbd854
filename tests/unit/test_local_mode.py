"""``local_mode`` answers filters as the client's own local mode does."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from qdrant_client import models

import local_mode

WORDS = ("a", "b", "")
VALUES = (*WORDS, None, 1, True, 1.0, ["a"], ["a", "b"], {"x": "a"}, [], "A", "1")


def condition(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if kind < 0.3:
        return models.HasIdCondition(has_id=chance.sample(range(20), chance.randint(0, 4)))
    if kind < 0.4:
        return models.IsEmptyCondition(is_empty=models.PayloadField(key=chance.choice("kl")))
    if kind < 0.45:
        return models.HasVectorCondition(has_vector=chance.choice("vw"))
    if kind < 0.55 and depth < 2:
        return asked(chance, depth + 1)
    match = chance.choice(
        [
            models.MatchAny(any=chance.choice([[], ["a"], ["a", "b"], [1], ["", "A"]])),
            models.MatchValue(value=chance.choice(["a", "", True, 1, "1", "b"])),
            models.MatchExcept(**{"except": ["a"]}),
            models.MatchText(text="a"),
        ]
    )
    return models.FieldCondition(key=chance.choice(["k", "l", "a.b", "k[]"]), match=match)


def asked(chance: random.Random, depth: int = 0) -> models.Filter:
    parts: dict[str, Any] = {}
    for name in ("must", "should", "must_not"):
        kind = chance.random()
        if kind < 0.2:
            parts[name] = condition(chance, depth)
        elif kind < 0.6:
            parts[name] = [condition(chance, depth) for _ in range(chance.randint(0, 3))]
    if chance.random() < 0.15:
        parts["min_should"] = models.MinShould(conditions=[condition(chance, depth) for _ in range(2)], min_count=1)
    return models.Filter(**parts)


def answer(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments).tolist()
    except Exception as error:  # both refuse the same
        return type(error)


def test_filters_are_answered_as_by_the_client():
    chance = random.Random(1)
    some = 0
    for _ in range(2000):
        number = chance.randint(0, 15)
        values = WORDS if chance.random() < 0.5 else VALUES
        payloads = [{key: chance.choice(values) for key in "kl" if chance.random() < 0.8} for _ in range(number)]
        ids = chance.sample(range(30), number)
        deleted = {name: np.array([chance.random() < 0.5 for _ in range(number + 3)]) for name in "vw"}
        wanted = asked(chance)
        found = answer(local_mode.mask, payloads, wanted, ids, deleted)
        assert found == answer(local_mode._calculate, payloads, wanted, ids, deleted), wanted
        some += isinstance(found, list) and 0 < sum(found) < number
    assert some > 400
