"""Training: objectives, batches, and the command that turns pairs into a model folder.

``settings`` has the sections of a configuration and ``objectives`` the formulas. ``data`` reads rows and makes batches,
``losses`` turns objectives into modules for sentence-transformers' trainers, ``mining`` finds hard negatives, and
``run`` trains. Encoding needs none of it, so everything here is imported only when it is used.
"""
