"""Training runs: the configuration, the trainers, checkpoints, the model card, the report."""

from twinvec.support.extras import require_extra

require_extra("torch", "train", "training")  # its modules import torch
