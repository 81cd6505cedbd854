"""Training: objectives, batches, and the command that turns pairs into a model folder.

``objectives`` are pure functions, ``infonce`` computes the main one in tiles, ``losses`` makes modules of them for
sentence-transformers' trainers, ``data`` and ``batches`` feed them, ``trainer`` runs them, ``mining`` finds hard
negatives. Nothing here is needed to encode, and everything is imported only when it is used.
"""
