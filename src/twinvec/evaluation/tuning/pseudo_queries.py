"""Queries without judgements: a passage is taken out of a document, and the rest must be found.

This is the inverse cloze task (Lee, Chang and Toutanova 2019). Passages share more words with their document than
people's questions do: they show which ways of searching work on these documents, not how well they serve people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.statistics import SEED
from twinvec.retrieval.documents import Document
from twinvec.support.extras import import_extra

PASSAGE = (60, 240)
"""Smallest and largest number of characters of a passage."""

REST = 100
"""Smallest number of characters that must remain of its document."""


def pseudo_queries(documents: Sequence[Document], count: int = 200, least: int = 10) -> BeirSet:
    """Take one passage out of each of up to ``count`` documents; the rest of each is to be found.

    Raises InputError if fewer than ``least`` documents are long enough to spare a passage.
    """
    package = import_extra("semantic_text_splitter", "eval", "taking passages out of documents")
    splitter = package.TextSplitter(PASSAGE)
    random = np.random.default_rng(SEED)
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
            f"take a passage out and search for the rest; at least {least} are needed, or judged queries (--ir)"
        )
    numbered = {f"passage of {name}": text for name, text in queries.items()}
    return BeirSet("pseudo-queries", kept, numbered, {f"passage of {name}": {name: 1} for name in queries})
