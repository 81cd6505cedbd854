"""Training: objectives, batches, and the command that turns pairs into a model folder.

``settings`` has the sections of a configuration, ``objectives`` the formulas, ``data`` the rows and batches, ``losses``
the modules for sentence-transformers' trainers, ``mining`` the search for hard negatives, and ``run`` the training
itself.
"""
