"""Losses: the objectives as modules for sentence-transformers' trainers."""

from twinvec.support.extras import require_extra

require_extra("torch", "train", "training")  # its modules import torch
