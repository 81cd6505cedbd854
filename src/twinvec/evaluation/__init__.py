"""Evaluation of models and of the collections that serve them. Correlations, accuracies and measures are x 100."""
