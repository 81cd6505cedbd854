"""Training data: files become checked rows of named columns, and rows become batches."""
