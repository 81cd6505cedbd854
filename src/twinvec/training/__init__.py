"""Training: objectives, batches, and the command that turns pairs into a model folder.

``settings`` has the sections of a configuration, and ``run`` trains. ``objectives`` has the formulas and ``losses``
their modules; ``data`` reads rows and draws batches; ``mining`` finds hard negatives.
"""

from __future__ import annotations

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {}, modules="mining objectives settings")
