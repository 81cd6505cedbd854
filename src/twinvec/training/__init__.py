"""Training: objectives, batches, and the command that turns pairs into a model folder.

``settings`` and ``run`` configure and do a run. ``objectives`` has the formulas and ``losses`` their modules; ``data``
reads rows and draws batches; ``mining`` finds hard negatives.
"""
