"""Stores: where points live. ``base`` is the border, ``embedded`` and ``server`` implement it."""
