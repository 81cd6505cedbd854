"""Tokens: texts become token ids, and token ids become batches under a token budget."""
