"""Encoders of other libraries: what they return is checked before it is used."""

from __future__ import annotations

import pytest

from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.errors import BadVectorError


@pytest.mark.parametrize("rows", [[["x", "y"]], [[1.0], [1.0, 2.0]], [[object()]]])
def test_what_are_no_vectors_is_refused_by_the_encoders_name(rows) -> None:
    encoder = ExternalEncoder("theirs", lambda texts: rows, lambda texts: rows)
    for encode in (encoder.encode_query, encoder.encode_document):
        with pytest.raises(BadVectorError, match="encoder 'theirs': its vectors are not numbers of one size"):
            encode(["a", "b"])
