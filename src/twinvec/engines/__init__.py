"""Engines: token ids and mask in, vectors out. ``base`` is the border, the other files implement it."""
