"""Engines: a batch of token ids goes in, pooled vectors come out. ``base`` holds the protocol, ``select`` chooses."""
