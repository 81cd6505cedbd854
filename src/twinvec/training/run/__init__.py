"""Training runs: the configuration, the trainers, checkpoints, the model card, the report."""
