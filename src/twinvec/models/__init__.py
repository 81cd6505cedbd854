"""Models: a name -> a verified folder, its settings, and the digest of its space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.models.finding import DEFAULT_COMMIT as DEFAULT_COMMIT
    from twinvec.models.finding import DEFAULT_PACKAGE as DEFAULT_PACKAGE
    from twinvec.models.finding import DEFAULT_REPOSITORY as DEFAULT_REPOSITORY
    from twinvec.models.finding import DEFAULT_WEIGHTS_SHA256 as DEFAULT_WEIGHTS_SHA256
    from twinvec.models.finding import ModelFolder as ModelFolder
    from twinvec.models.finding import find_model as find_model

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "DEFAULT_COMMIT": "finding",
        "DEFAULT_PACKAGE": "finding",
        "DEFAULT_REPOSITORY": "finding",
        "DEFAULT_WEIGHTS_SHA256": "finding",
        "ModelFolder": "finding",
        "find_model": "finding",
    },
)
