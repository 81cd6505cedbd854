"""The commands that twinvec_qdrant adds to ``twinvec``."""
