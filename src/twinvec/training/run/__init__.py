"""Training runs: the configuration, the trainers, checkpoints, the model card, the report."""

from twinvec.support.extras import require_training

require_training()
