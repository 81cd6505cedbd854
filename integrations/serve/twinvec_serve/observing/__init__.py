"""Observation of the server by operators: metrics and logs."""
