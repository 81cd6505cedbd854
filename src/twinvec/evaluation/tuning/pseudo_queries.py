"""Queries without judgements: passages taken out of documents, which have to be found by what is left of them.

The inverse cloze task (Lee, Chang and Toutanova 2019). Such queries share more words with their document than people's
questions do; they tell which ways of searching work on these documents at all, not how well people are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet
from twinvec.retrieval.documents import Document
from twinvec.support.extras import import_extra

PASSAGE = (60, 240)
"""Characters of a passage, at least and at most."""

REST = 100
"""Characters of its document that have to be left, at least."""

_SEED = 20190827


def pseudo_queries(documents: Sequence[Document], count: int = 200, least: int = 10) -> BeirSet:
    """Take one passage each out of up to ``count`` documents; the rest of them stays to be found.

    Raises:
        InputError: fewer than ``least`` documents are long enough to spare a passage.
        MissingExtraError: the text splitter is missing.
    """
    package = import_extra("semantic_text_splitter", "eval", "taking passages out of documents")
    splitter = package.TextSplitter(PASSAGE)
    random = np.random.default_rng(_SEED)
    queries: dict[str, str] = {}
    kept = []
    for document in documents:
        rest = document
        if len(queries) < count and len(document.text) >= PASSAGE[1] + REST:
            passages = [(at, text) for at, text in splitter.chunk_indices(document.text) if len(text) >= PASSAGE[0]]
            if passages:
                at, text = passages[random.integers(len(passages))]
                left = f"{document.text[:at]} {document.text[at + len(text) :]}".strip()
                queries[document.id] = text
                rest = replace(document, text=left)
        kept.append(rest)
    if len(queries) < least:
        raise InputError(
            f"only {len(queries)} of {len(documents):,} documents are long enough ({PASSAGE[1] + REST} characters) to "
            f"take a passage out of and look for the rest; {least} are needed, or judged queries (--ir)"
        )
    numbered = {f"passage of {name}": text for name, text in queries.items()}
    return BeirSet("pseudo-queries", kept, numbered, {f"passage of {name}": {name: 1} for name in queries})
