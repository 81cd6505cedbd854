"""Evaluation: the quality of a model, and of the collections that serve its vectors.

All figures are x 100: correlations, accuracies and ranking measures alike.
"""
