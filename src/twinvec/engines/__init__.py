"""Engines: a batch of token ids goes in, pooled vectors come out. ``base`` is the border, the engines implement it."""
