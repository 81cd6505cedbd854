"""The models that the evaluation measures: any encoder, and baselines."""
