"""Evaluation: how good a model is, and how good what serves its vectors is.

Figures are x 100 throughout: correlations, accuracies and ranking measures alike.
"""
