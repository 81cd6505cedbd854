"""Losses: the objectives as modules for sentence-transformers' trainers."""
