"""Requests of the stand-in against the server's schema: what the server refuses whatever the collection holds.

The checks and their sentences are those of Qdrant's source (1.17 to 1.19, August 2026), file by file:

    lib/api/src/rest/schema.rs, validate.rs      a limit of at least 1, for prefetches too; vectors to write
    lib/common/common/src/validation.rs          numbers of a multivector, characters and length of a collection's name
    lib/sparse/src/common/sparse_vector.rs       indices of a sparse vector, each once
    lib/shard/src/query/query_context.rs         ``idf`` of a search is for sparse vectors with this modifier (1.19)
    lib/segment/src/types.rs                     quantisations that a version knows: "turbo" since 1.18
    src/actix/api/vector_name_api.rs             requests that a version knows: named vectors are added since 1.18
    src/actix/mod.rs                             422 for what is not valid, 400 for what cannot be parsed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qdrant_client import models

from stand_in.strict import RefusedError

_MOST_NUMBERS = 1024 * 1024
_NOT_IN_NAMES = '<>:"/\\|?*\0\x1f'


def check_name(name: str) -> None:
    """Check the name of a new collection."""
    if not 1 <= len(name.encode()) <= 255:
        raise _invalid(
            "path parameters", "collection_name", f"value {name!r} invalid, must be from 1 to 255 characters"
        )
    for each in _NOT_IN_NAMES:
        if each in name:
            raise _invalid("path parameters", "collection_name", f'collection name cannot contain "{each}" char')


def check_route(version: str) -> None:
    """Check that the version can add and remove named vectors."""
    if _release(version) < (1, 18):
        raise RefusedError(404, "")


def check_settings(settings: Any, version: str) -> None:
    """Check that the version knows the quantisation of every vector of a new or changed collection."""
    vectors = settings.vectors or {}
    for each in vectors.values() if isinstance(vectors, dict) else [vectors]:
        if isinstance(each.quantization_config, models.TurboQuantization) and _release(version) < (1, 18):
            said = "data did not match any variant of untagged enum QuantizationConfig"
            raise RefusedError(400, f"Format error in JSON body: {said}")


def check_scroll(request: models.ScrollRequest) -> None:
    """Check a page."""
    _check_limit(request.limit, "limit")


def check_search(request: Any, params: models.CollectionParams, place: str) -> None:
    """Check one search of a batch, and its prefetches; ``place`` names it."""
    _check_limit(request.limit, f"{place}.limit")
    prefetches = request.prefetch or []
    for row, each in enumerate(prefetches if isinstance(prefetches, list) else [prefetches]):
        check_search(each, params, f"{place}.prefetch[{row}]")
    if request.params is not None and request.params.idf is not None and request.query is not None:
        words = (params.sparse_vectors or {}).get(request.using or "")
        if words is None or words.modifier is not models.Modifier.IDF:
            said = "search param `idf` requires a sparse vector with the `idf` modifier"
            raise RefusedError(400, f'Wrong input: {said}, which vector "{request.using}" is not')


def check_vectors(points: Iterable[Any], *, needed: bool) -> None:
    """Check the vectors of points to write; ``needed`` says that each point must have one."""
    for row, point in enumerate(points):
        held = point.vector if isinstance(point.vector, dict) else {"": point.vector}
        if needed and not held:
            raise _invalid("JSON body", f"points[{row}].vector", "must specify vectors to update for point")
        for name, vector in held.items():
            if said := _fault(vector):
                raise _invalid("JSON body", f"points[{row}].vector.{name}", said)


def _fault(vector: Any) -> str | None:
    if isinstance(vector, models.SparseVector):
        if len(vector.indices) != len(vector.values):
            return "must be the same length as indices"
        return "must be unique" if len(set(vector.indices)) < len(vector.indices) else None
    if vector == []:
        return "dense vector must not be empty"
    if isinstance(vector, list) and isinstance(vector[0], list):
        numbers = sum(map(len, vector))
        if numbers >= _MOST_NUMBERS:
            return f"Total size of all vectors ({numbers}) must be less than {_MOST_NUMBERS}"
    return None


def _check_limit(limit: int | None, place: str) -> None:
    if limit is not None and limit < 1:
        raise _invalid("JSON body", place, f"value {limit} invalid, must be 1 or larger")


def _invalid(where: str, field: str, said: str) -> RefusedError:
    return RefusedError(422, f"Validation error in {where}: [{field}: {said}]")


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
