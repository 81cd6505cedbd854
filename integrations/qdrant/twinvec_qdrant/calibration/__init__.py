"""Calibration: the usual scores of a collection, measured on the collection itself, without judged queries."""
