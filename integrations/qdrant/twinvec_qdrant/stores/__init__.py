"""Stores of points: ``base`` holds the protocols; ``embedded`` and ``server`` implement them."""
