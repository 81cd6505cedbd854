"""Records: what a collection writes about itself, its documents and its chunks."""
