"""Models: a name -> a verified folder, its settings, and the digest of its space."""

from __future__ import annotations

from twinvec.models.finding import DEFAULT_COMMIT as DEFAULT_COMMIT
from twinvec.models.finding import DEFAULT_PACKAGE as DEFAULT_PACKAGE
from twinvec.models.finding import DEFAULT_REPOSITORY as DEFAULT_REPOSITORY
from twinvec.models.finding import DEFAULT_WEIGHTS_SHA256 as DEFAULT_WEIGHTS_SHA256
from twinvec.models.finding import ModelFolder as ModelFolder
from twinvec.models.finding import find_model as find_model
