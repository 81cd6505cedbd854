"""Metadata as plain JSON, as Qdrant's own client writes it."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from qdrant_client import models

from twinvec.adapters.metadata import plain_metadata
from twinvec.errors import DocumentError


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    HIGH = 3


METADATA: dict[str, Any] = {
    "text": "plain",
    "none": None,
    "flag": True,
    "moment": datetime(2024, 5, 1, 10, 30, tzinfo=UTC),
    "naive": datetime(2024, 5, 1, 10, 30, 0, 500_000),
    "day": date(2024, 5, 1),
    "hour": time(3, 4),
    "delay": timedelta(days=1),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "path": Path("a/b.md"),
    "price": Decimal("1.50"),
    "colour": Colour.RED,
    "level": Level.HIGH,
    "nan": math.nan,
    "numbers": {3, 1, 2},
    "pair": (1, "two"),
    "bytes": b"ab",
    "nested": {"day": date(2024, 5, 2), "list": [Path("c"), math.inf], 7: Level.HIGH},
}


def test_values_are_kept_as_qdrants_client_writes_them() -> None:
    theirs = json.loads(models.PointStruct(id=1, vector=[1.0], payload=METADATA).model_dump_json())["payload"]
    assert plain_metadata("d", METADATA) == theirs
    assert theirs["moment"] == "2024-05-01T10:30:00Z"


def test_what_a_store_returns_is_kept_as_it_is() -> None:
    plain = plain_metadata("d", METADATA)
    assert plain_metadata("d", plain) == plain
    assert plain_metadata("d", {}) == {}


def test_sets_have_one_order_and_numpys_values_are_numbers() -> None:
    words = {f"word{row}" for row in range(20)}
    assert plain_metadata("d", {"words": words})["words"] == sorted(words)
    values = {"a": np.float32(1.5), "b": np.int64(3), "c": np.array([1, 2]), "d": np.datetime64("2024-05-01")}
    assert plain_metadata("d", values) == {"a": 1.5, "b": 3, "c": [1, 2], "d": "2024-05-01"}
    assert all(type(each) in (float, int, list, str) for each in plain_metadata("d", values).values())


def test_moments_in_nanoseconds_are_text() -> None:
    at = np.datetime64("2024-05-01T10:30:00.123456789")
    values = {"moment": at, "moments": np.array([at, "NaT"], dtype="datetime64[ns]")}
    said = "2024-05-01T10:30:00.123456"
    assert plain_metadata("d", values) == {"moment": said, "moments": [said, None]}


def _itself() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "object"),
        ({"inner": [object()]}, "inner"),
        (2**64, "64 bits"),
        ("\ud800", "surrogate"),
        (b"\xff", "bytes"),
        (_itself(), "itself"),
        ({object(): 1}, "key"),
    ],
)
def test_what_cannot_be_kept_is_named_with_document_and_key(value, reason) -> None:
    with pytest.raises(DocumentError, match=r"'doc 7'.*'bad") as caught:
        plain_metadata("doc 7", {"fine": 1, "bad": value})
    assert reason in str(caught.value)
