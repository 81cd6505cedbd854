"""Losses: the objectives as modules for sentence-transformers' trainers."""

from twinvec.support.extras import require_training

require_training()
