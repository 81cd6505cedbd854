"""Calibration: how the scores of a collection lie, measured on the collection itself, without judged queries."""
