"""The models that evaluation measures: any encoder, and baselines."""
