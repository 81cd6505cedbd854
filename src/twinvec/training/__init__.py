"""Training: objectives, batches, and the command that turns pairs into a model folder.

``settings`` has the sections of a configuration, and ``run`` trains. ``objectives`` has the formulas and ``losses``
their modules; ``data`` reads rows and draws batches; ``mining`` finds hard negatives.
"""
