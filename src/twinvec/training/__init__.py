"""Training: objectives, losses, batches, hard negatives, and the runs that turn pairs into a model folder.

``info_nce`` and ``objectives`` have the formulas, and ``losses`` the modules that compute them. ``settings`` has the
sections of a configuration, ``run`` trains, ``data`` reads rows and draws batches, and ``mining`` finds hard negatives.
"""

from __future__ import annotations

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {}, modules="mining objectives settings")
